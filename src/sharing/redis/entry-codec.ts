import { type Static, Type } from "typebox";
import { Compile } from "typebox/compile";
import type { Duration, Instant } from "../../clock.ts";
import { isHeadTooLarge } from "../../fields.ts";
import type { CacheKey, Entry } from "../entries.ts";
import { parseJson } from "../../json.ts";

/** Longer than anything that HTTP can state (`Expires` in the year 9999), and sums with it are still exact. */
const LONGEST: Duration = 1e15;

const Milliseconds = Type.Number({ minimum: -LONGEST, maximum: LONGEST });
/** Before the moment of writing, but for steps of clocks. */
const Past = Type.Number({ minimum: -LONGEST, maximum: 1_000 });
const Span = Type.Number({ minimum: 0, maximum: LONGEST });
/** Bounds what is only compared. */
const Opaque = Type.String({ maxLength: 65_536 });
const Note = Type.String({ maxLength: 256, pattern: "^[\\x20-\\x7e]*$" });
/** Name of a field in lower case (RFC 9110 §5.1). */
const NAME = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;
const FieldText = Type.String({ pattern: "^[\\t\\x20-\\x7e\\x80-\\xff]*$" });

/**
 * The header: what an entry is besides its body, in this order and no deeper than it must be, because reading it is a
 * good part of what a hit costs. Instants are milliseconds from the moment of writing: those of this process's clock
 * mean nothing elsewhere.
 */
const Header = Type.Tuple([
  // Partition and id: whose entry this is. A value that came under a wrong key is not used.
  Type.String(),
  Type.String(),
  // Status (what has another one stays in its process, see `Tiers.isSharedStatus`), made ETag, epoch, variant.
  Type.Literal(200),
  Type.Boolean(),
  Opaque,
  Opaque,
  // Received at, born at, made at, fresh until, revalidate until, usable until.
  Past,
  Past,
  Past,
  Milliseconds,
  Milliseconds,
  Milliseconds,
  // Stale prohibited, lifetime, and the origins of lifetime, stale-while-revalidate and stale-if-error.
  Type.Boolean(),
  Span,
  Type.Tuple([Note, Note, Note]),
  // Vary, fields.
  Type.Array(Type.String({ pattern: NAME.source, maxLength: 1_024 }), { maxItems: 1_024 }),
  Type.Array(FieldText, { maxItems: 1_024 }),
  // Soft epoch.
  Opaque,
]);

type Header = Static<typeof Header>;

const headers = Compile(Header);

/** Fields that the cache may add to what it received. */
const ADDED = 4;

const SIZE_LENGTH = 4;

/** An entry as bytes: length of the header, header as JSON, the body as it is. Before it is `room` for what a store adds. */
export function encodeEntry(key: CacheKey, entry: Entry, now: Instant, room = 0): Buffer {
  const { origins, body } = entry;
  const header: Header = [
    key.partition,
    key.id,
    entry.status as 200,
    entry.madeEtag,
    entry.epoch,
    entry.variant,
    entry.receivedAt - now,
    entry.bornAt - now,
    entry.madeAt - now,
    entry.freshUntil - now,
    entry.revalidateUntil - now,
    entry.usableUntil - now,
    entry.staleProhibited,
    entry.lifetime,
    [origins.lifetime, origins.staleWhileRevalidate, origins.staleIfError],
    [...entry.vary],
    [...entry.fields],
    entry.softEpoch,
  ];
  const json = Buffer.from(JSON.stringify(header));
  const start = room + SIZE_LENGTH;
  const bytes = Buffer.allocUnsafe(start + json.length + body.length);
  bytes.writeUInt32BE(json.length, room);
  json.copy(bytes, start);
  body.copy(bytes, start + json.length);
  return bytes;
}

/**
 * The entry in `bytes`, written at `writtenAt` of this process's clock; its body is a part of `bytes`. Undefined when
 * they belong to another key, or say what no entry can say: then they are not the gateway's.
 */
export function decodeEntry(bytes: Buffer, key: CacheKey, writtenAt: Instant): Entry | undefined {
  if (bytes.length < SIZE_LENGTH) return undefined;
  const bodyStart = SIZE_LENGTH + bytes.readUInt32BE(0);
  const header = bodyStart <= bytes.length ? parseHeader(bytes.toString("utf8", SIZE_LENGTH, bodyStart)) : undefined;
  if (header === undefined || header[0] !== key.partition || header[1] !== key.id) return undefined;
  const [, , status, madeEtag, epoch, variant, receivedAt, bornAt, madeAt, freshUntil, ...more] = header;
  const [revalidateUntil, usableUntil, staleProhibited, lifetime, origins, vary, fields, softEpoch] = more;
  return {
    status,
    fields,
    body: bytes.subarray(bodyStart),
    madeEtag,
    epoch,
    softEpoch,
    vary,
    variant,
    receivedAt: writtenAt + receivedAt,
    bornAt: writtenAt + bornAt,
    madeAt: writtenAt + madeAt,
    freshUntil: writtenAt + freshUntil,
    revalidateUntil: writtenAt + revalidateUntil,
    usableUntil: writtenAt + usableUntil,
    staleProhibited,
    lifetime,
    origins: { lifetime: origins[0], staleWhileRevalidate: origins[1], staleIfError: origins[2] },
  };
}

/** Undefined for what has a checksum but was not written by this format: foreign bytes. */
function parseHeader(json: string): Header | undefined {
  const header = parseJson(json);
  return headers.Check(header) && areInOrder(header) && areFields(header[16]) ? header : undefined;
}

/** No answer is received before it is made, and no window ends before it begins. */
function areInOrder(header: Header): boolean {
  const [, , , , , , receivedAt, bornAt, madeAt, freshUntil, revalidateUntil, usableUntil] = header;
  return Math.max(bornAt, madeAt) <= receivedAt && freshUntil <= Math.min(revalidateUntil, usableUntil);
}

/** Whether clients can be sent these, with what the cache adds (`date`, `etag`) besides the bound of what is received. */
function areFields(fields: readonly string[]): boolean {
  if (fields.length % 2 !== 0 || isHeadTooLarge(fields, ADDED)) return false;
  for (let i = 0; i < fields.length; i += 2) if (!NAME.test(fields[i]!)) return false;
  return true;
}
