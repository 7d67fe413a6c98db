import { hash, randomBytes } from "node:crypto";
import { crc32 } from "node:zlib";

// rgk_ · 32 random bytes as 43 characters of base64url · _ · CRC-32 of all that is before it, as 8 hex digits.
const FORM = /^rgk_[A-Za-z0-9_-]{43}_[0-9a-f]{8}$/;

const BEFORE_CHECKSUM = "rgk_".length + 43 + "_".length;

function checksumOf(text: string): string {
  return crc32(text).toString(16).padStart(8, "0");
}

/** A new key of 256 random bits. */
export function createKey(): string {
  const text = `rgk_${randomBytes(32).toString("base64url")}_`;
  return text + checksumOf(text);
}

/** Whether `text` is whole: a typing error shows here, so that it costs no look into the table of keys. */
export function isKey(text: string): boolean {
  if (!FORM.test(text)) return false;
  const checksum = Number.parseInt(text.slice(BEFORE_CHECKSUM), 16);
  // Tools that make keys may leave the last `_` out of what they sum up.
  return checksum === crc32(text.slice(0, BEFORE_CHECKSUM)) || checksum === crc32(text.slice(0, BEFORE_CHECKSUM - 1));
}

/** What the keys file holds of a key: `sha256:` and the hex digest of the whole key. */
export function digestOfKey(key: string): string {
  return `sha256:${hash("sha256", key, "hex")}`;
}
