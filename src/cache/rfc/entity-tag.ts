import { createHash } from "node:crypto";

/** A strong entity-tag from the bytes of a body (RFC 9110 §8.8.3): equal bytes, equal tag, in every replica. */
export function makeEntityTag(body: Buffer): string {
  return `"${createHash("sha256").update(body).digest("base64url").slice(0, 27)}"`;
}

/** Whether two tags match by weak comparison (RFC 9110 §8.8.3.2). */
export function weakMatch(a: string, b: string): boolean {
  return opaque(a) === opaque(b);
}

/** The tag of the same representation in content coding `coding`: `"x"` becomes `"x-gzip"`. */
export function codedEntityTag(tag: string, coding: string): string {
  return tag.endsWith('"') ? `${tag.slice(0, -1)}-${coding}"` : `${tag}-${coding}`;
}

function opaque(tag: string): string {
  return tag.startsWith("W/") ? tag.slice(2) : tag;
}
