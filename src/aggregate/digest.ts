import { createHash } from "node:crypto";

/** A short digest that stands for `text` in cursors: 48 bits as 8 characters that need no encoding. */
export function shortDigest(text: string): string {
  return createHash("sha256").update(text).digest("base64url").slice(0, DIGEST_LENGTH);
}

/** Characters of a {@link shortDigest}. */
export const DIGEST_LENGTH = 8;

/** A digest of a set: the same whatever the order. */
export function setDigest(texts: readonly string[]): string {
  return shortDigest(JSON.stringify([...texts].sort()));
}
