import { crc32 } from "node:zlib";
import type { Instant } from "../clock.ts";
import type { Entry } from "./entry.ts";
import type { CacheKey } from "./store.ts";

/** The parts of an entry that are instants of this process's clock; elsewhere they mean nothing. */
const INSTANTS = ["receivedAt", "bornAt", "freshUntil", "revalidateUntil", "usableUntil"] as const;

type InstantName = (typeof INSTANTS)[number];

interface Header {
  /** Whose entry this is: a value that came under a wrong key is not used. */
  readonly partition: string;
  readonly id: string;
  /** Each of {@link INSTANTS} as milliseconds from the moment of writing. */
  readonly offsets: readonly number[];
  readonly rest: Omit<Entry, "body" | InstantName>;
}

const CHECKSUM_LENGTH = 4;
const SIZE_LENGTH = 4;
const HEADER_START = CHECKSUM_LENGTH + SIZE_LENGTH;

/**
 * An entry as bytes: CRC-32 of what follows, length of the header, header as JSON, the body as it is. Instants are
 * written relative to `now`.
 */
export function encodeEntry(key: CacheKey, entry: Entry, now: Instant): Buffer {
  const { body, receivedAt, bornAt, freshUntil, revalidateUntil, usableUntil, ...rest } = entry;
  const instants = { receivedAt, bornAt, freshUntil, revalidateUntil, usableUntil };
  const header: Header = {
    partition: key.partition,
    id: key.id,
    offsets: INSTANTS.map((name) => instants[name] - now),
    rest,
  };
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
  if (header === undefined || header.partition !== key.partition || header.id !== key.id) return undefined;
  const [receivedAt, bornAt, freshUntil, revalidateUntil, usableUntil] = header.offsets.map(
    (offset) => writtenAt + offset,
  );
  return {
    ...header.rest,
    body: bytes.subarray(bodyStart),
    receivedAt: receivedAt!,
    bornAt: bornAt!,
    freshUntil: freshUntil!,
    revalidateUntil: revalidateUntil!,
    usableUntil: usableUntil!,
  };
}

/** Undefined for what has a checksum but was not written by this format: the bytes of somebody else. */
function parseHeader(json: string): Header | undefined {
  try {
    const header = JSON.parse(json) as Partial<Header> | null;
    if (header?.offsets?.length !== INSTANTS.length || typeof header.rest?.status !== "number") return undefined;
    return header as Header;
  } catch {
    return undefined;
  }
}
