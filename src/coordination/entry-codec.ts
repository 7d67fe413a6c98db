import { crc32 } from "node:zlib";
import { type Static, Type } from "../schema/type.ts";
import { compile } from "../schema/validator.ts";
import type { Entry } from "../cache/entry.ts";
import type { CacheKey } from "../cache/stores/tiers.ts";
import type { Instant } from "../clock.ts";
import { endToEndFields } from "../fields.ts";

const Milliseconds = Type.Number();
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
  // Status, made ETag, epoch, variant.
  Type.Integer({ minimum: 200, maximum: 599 }),
  Type.Boolean(),
  Type.String(),
  Type.String(),
  // Received at, born at, fresh until, revalidate until, usable until.
  Milliseconds,
  Milliseconds,
  Milliseconds,
  Milliseconds,
  Milliseconds,
  // Stale prohibited, lifetime, and the origins of lifetime, stale-while-revalidate and stale-if-error.
  Type.Boolean(),
  Milliseconds,
  Type.Tuple([Type.String(), Type.String(), Type.String()]),
  // Vary, fields.
  Type.Array(Type.String()),
  Type.Array(FieldText),
  // Soft epoch.
  Type.String(),
]);

type Header = Static<typeof Header>;

const headers = compile(Header);

const CHECKSUM_LENGTH = 4;
const SIZE_LENGTH = 4;
const HEADER_START = CHECKSUM_LENGTH + SIZE_LENGTH;

/** An entry as bytes: CRC-32 of what follows, length of the header, header as JSON, the body as it is. */
export function encodeEntry(key: CacheKey, entry: Entry, now: Instant): Buffer {
  const { origins, body } = entry;
  const header: Header = [
    key.partition,
    key.id,
    entry.status,
    entry.madeEtag,
    entry.epoch,
    entry.variant,
    entry.receivedAt - now,
    entry.bornAt - now,
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
  const bytes = Buffer.allocUnsafe(HEADER_START + json.length + body.length);
  bytes.writeUInt32BE(json.length, CHECKSUM_LENGTH);
  json.copy(bytes, HEADER_START);
  body.copy(bytes, HEADER_START + json.length);
  bytes.writeUInt32BE(crc32(bytes.subarray(CHECKSUM_LENGTH)), 0);
  return bytes;
}

/**
 * The entry in `bytes`, written at `writtenAt` of this process's clock; its body is a part of `bytes`. Undefined when
 * they are damaged, or belong to another key.
 */
export function decodeEntry(bytes: Buffer, key: CacheKey, writtenAt: Instant): Entry | undefined {
  if (bytes.length < HEADER_START || bytes.readUInt32BE(0) !== crc32(bytes.subarray(CHECKSUM_LENGTH))) return undefined;
  const bodyStart = HEADER_START + bytes.readUInt32BE(CHECKSUM_LENGTH);
  const header = parseHeader(bytes.toString("utf8", HEADER_START, bodyStart));
  if (header === undefined || header[0] !== key.partition || header[1] !== key.id) return undefined;
  const [, , status, madeEtag, epoch, variant, receivedAt, bornAt, freshUntil, revalidateUntil, ...more] = header;
  const [usableUntil, staleProhibited, lifetime, origins, vary, fields, softEpoch] = more;
  return {
    status,
    // A version before this one may have stored what is not sent on any more.
    fields: endToEndFields(fields),
    body: bytes.subarray(bodyStart),
    madeEtag,
    epoch,
    softEpoch,
    vary,
    variant,
    receivedAt: writtenAt + receivedAt,
    bornAt: writtenAt + bornAt,
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
  try {
    const header = JSON.parse(json) as unknown;
    return headers.accepts(header) && header[15].length % 2 === 0 ? header : undefined;
  } catch {
    return undefined;
  }
}
