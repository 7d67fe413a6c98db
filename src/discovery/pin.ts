import { findNodeUrlFault, normaliseNodeUrl } from "../config/urls.ts";
import { digestOf } from "../digest.ts";
import { type Static, Type } from "typebox";
import { Compile } from "typebox/compile";
import { isPartyId } from "../upstream/nodes/registry-admin.ts";

/** Characters of the longest URL that is pinned. */
const MAX_URL = 2_048;
const Url = Type.String({ maxLength: MAX_URL });
const Urls = Type.Array(Url, { maxItems: 64 });

/** What was decided about the registry of an admin: where it is, by whom, and what was refused. */
const Pin = Type.Object(
  {
    admin: Type.String(),
    /** Its alias. */
    name: Type.String({ pattern: "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$" }),
    /** From 1; each decision is one more. */
    version: Type.Integer({ minimum: 1, maximum: 999_999_999 }),
    /** As it was published when it was taken, sorted; empty: it is not used. */
    published: Urls,
    /** Where it is called. */
    urls: Urls,
    /** Of those that were published: what was meant by them. */
    mended: Type.Array(Type.Object({ from: Url, to: Url }, { additionalProperties: false }), { maxItems: 64 }),
    /** Digests of what an operator refused, the latest last. */
    refused: Type.Array(Type.String({ maxLength: 64 }), { maxItems: 16 }),
    /** Name of the source that named it. */
    source: Type.String({ maxLength: 100 }),
    /** When it was decided (RFC 3339). */
    since: Type.String({ maxLength: 40 }),
  },
  { additionalProperties: false },
);

export type Pin = Static<typeof Pin>;

const validator = Compile(Pin);

/** Refused proposals of one admin that are remembered. */
const MOST_REFUSED = 16;

/** The pin in `value`; undefined for anything that this program would not have written. */
export function parsePin(value: unknown): Pin | undefined {
  if (!validator.Check(value) || !isPartyId(value.admin)) return undefined;
  const used = [...value.urls, ...value.published];
  const isGood = used.every((url) => findNodeUrlFault(url) === undefined && isNormal(url));
  return isGood && !Number.isNaN(Date.parse(value.since)) ? value : undefined;
}

/** A base may end in `/registry` itself: normalised once more, it would lose that. */
function isNormal(url: string): boolean {
  return normaliseNodeUrl(`${url}/registry`) === url;
}

/** What keeps a URL that a source names from being used and pinned; undefined when it may be. */
export function findListedUrlFault(text: string): string | undefined {
  const tooLong = `is longer than ${MAX_URL} characters`;
  if (text.length > MAX_URL) return tooLong;
  // Escapes make the normal form longer.
  return findNodeUrlFault(text) ?? (normaliseNodeUrl(text).length > MAX_URL ? tooLong : undefined);
}

/** Stands for a set of URLs as a source publishes them. */
export function proposalDigest(published: readonly string[]): string {
  return digestOf(JSON.stringify(published));
}

export function isRefused(pin: Pin | undefined, published: readonly string[]): boolean {
  return pin?.refused.includes(proposalDigest(published)) === true;
}

/** The pin with a proposal noted as refused. */
export function refuse(pin: Pin, published: readonly string[]): Pin {
  const refused = [...pin.refused.filter((each) => each !== proposalDigest(published)), proposalDigest(published)];
  return { ...pin, version: pin.version + 1, refused: refused.slice(-MOST_REFUSED) };
}

export function isSameSet(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((url, at) => url === other[at]);
}

/** In the order in which they were decided; the same on all replicas. */
export function byAge(one: Pin, other: Pin): number {
  return one.since === other.since ? (one.admin < other.admin ? -1 : 1) : one.since < other.since ? -1 : 1;
}
