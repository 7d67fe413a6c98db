import type { IncomingHttpHeaders } from "node:http";
import type { Instant } from "../clock.ts";
import { type Fields, fieldValue, filterFields } from "../fields.ts";
import { matchedTag } from "./conditional.ts";
import { gzipOf, isCodable } from "./gzip.ts";
import type { Entry, Found } from "./types.ts";

/** A client's answer, made of an entry. */
interface ClientAnswer {
  readonly status: number;
  /** Name, value, name, value, …, complete but for `Content-Length` and what each answer of the gateway has. */
  readonly fields: string[];
  /** Undefined with 304. Left out for HEAD, but not its length. */
  readonly body: Buffer | undefined;
}

/** Makes a client's answer: a 304 where it has the body already, gzip where that is accepted and made, else the plain bytes. */
export function clientAnswer(found: Found, headers: IncomingHttpHeaders, now: Instant): ClientAnswer {
  const { entry } = found;
  const forms = formsOf(entry);
  const coded = forms.coded !== undefined && acceptsGzip(headers["accept-encoding"]) ? gzipOf(entry) : undefined;
  const matched = entry.status === 200 ? matchedTag(headers, forms.tags, entry.fields) : undefined;
  const own = ownFields(found, forms, now);
  if (matched !== undefined) {
    return { status: 304, fields: [...forms.notModified, "etag", matched, ...own], body: undefined };
  }
  if (coded !== undefined) return { status: 200, fields: [...forms.coded!, ...own], body: coded };
  return { status: entry.status, fields: [...forms.plain, ...own], body: entry.body };
}

/** Fields of an entry in each form that it may leave in: made once, since they stay the same from answer to answer. */
interface Forms {
  readonly plain: Fields;
  /** Undefined: it is never coded. */
  readonly coded: Fields | undefined;
  /** Without its `ETag`. */
  readonly notModified: Fields;
  /** `ETag`s of the plain form and of the coded one. */
  readonly tags: readonly string[];
  /** Whether `Cache-Control` is among the fields. */
  readonly saysHowLong: boolean;
}

/** Fields that a 304 leaves out: they describe a body that is not there (RFC 9110 §15.4.5). */
const NOT_ON_304: ReadonlySet<string> = new Set([
  "content-type",
  "content-language",
  "content-disposition",
  "content-digest",
  "digest",
  "last-modified",
]);

/** Digests of the bytes as the registry sent them: wrong for coded ones. */
const DIGESTS: ReadonlySet<string> = new Set(["digest", "content-digest"]);

const formsByEntry = new WeakMap<Entry, Forms>();

function formsOf(entry: Entry): Forms {
  let forms = formsByEntry.get(entry);
  if (forms === undefined) formsByEntry.set(entry, (forms = makeForms(entry)));
  return forms;
}

function makeForms(entry: Entry): Forms {
  const { etag } = entry;
  const mayBeCoded = isCodable(entry);
  const variesAlready = /accept-encoding/i.test(fieldValue(entry.fields, "vary") ?? "");
  const fields = mayBeCoded && !variesAlready ? [...entry.fields, "vary", "accept-encoding"] : entry.fields;
  const coded = [...filterFields(fields, (name) => !DIGESTS.has(name)), "content-encoding", "gzip"];
  return {
    plain: etag === "" ? fields : [...fields, "etag", etag],
    coded: mayBeCoded ? [...coded, "etag", codedTag(etag)] : undefined,
    notModified: filterFields(fields, (name) => !NOT_ON_304.has(name)),
    tags: mayBeCoded ? [etag, codedTag(etag)] : [etag],
    saysHowLong: fieldValue(fields, "cache-control") !== undefined,
  };
}

/** The tag of the same answer in gzip: `"x"` becomes `"x-gzip"`. */
function codedTag(tag: string): string {
  return `${tag.slice(0, -1)}-gzip"`;
}

/** Fields that the cache writes at each answer. */
function ownFields(found: Found, { saysHowLong }: Forms, now: Instant): string[] {
  const { entry } = found;
  const age = Math.max(0, Math.floor((now - entry.bornAt) / 1_000));
  const fields = ["age", String(age), "cache-status", cacheStatus(found, now)];
  if (!saysHowLong) fields.push("cache-control", clientControl(entry, age, now));
  return fields;
}

/** Says how long clients may keep an answer where the registry does not: never longer than the entry itself is fresh. */
function clientControl({ status, clientTtl, freshUntil }: Entry, age: number, now: Instant): string {
  const keep = Math.floor(Math.min(clientTtl, freshUntil - now) / 1_000);
  return keep > 0 && status === 200 ? `max-age=${age + keep}` : "no-cache";
}

/** Our part of `Cache-Status` (RFC 9211): `registry-gateway;hit;ttl=25`, `registry-gateway;fwd=uri-miss;ttl=30;stored`. */
function cacheStatus({ entry, detail, outcome }: Found, now: Instant): string {
  const { forward, stored, collapsed, tier, reason } = detail;
  const isServed = stored || outcome === "hit" || outcome === "stale";
  let status = `registry-gateway;${forward === undefined ? "hit" : `fwd=${forward}`}`;
  if (outcome === "revalidated") status += ";fwd-status=304";
  if (isServed) status += `;ttl=${Math.floor((entry.freshUntil - now) / 1_000)}`;
  if (stored && forward !== undefined) status += ";stored";
  if (collapsed === true) status += ";collapsed";
  const why = reason ?? tier;
  return why === undefined ? status : `${status};detail=${why}`;
}

const GZIP = /(?:^|[,\s])(?:x-)?gzip\s*(?:;\s*q=([\d.]+)\s*)?(?:,|$)/i;

/** Whether `Accept-Encoding` takes gzip (RFC 9110 §12.5.3); what it says about others does not matter. */
function acceptsGzip(acceptEncoding: string | string[] | undefined): boolean {
  const match = GZIP.exec(String(acceptEncoding ?? "").slice(0, 200));
  return match !== null && Number(match[1] ?? 1) > 0;
}
