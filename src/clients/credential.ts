import { hash, randomBytes } from "node:crypto";
import { crc32 } from "node:zlib";
import { GatewayError } from "../errors.ts";

/**
 * API keys are `rgk_`, 43 characters of base64url (256 random bits), `_`, and the CRC-32 of all before that `_` as 8 hex
 * digits: a typing error shows without a look into the table, and scanners of repositories find them without false alarms.
 */
const WHOLE = /^(rgk_[A-Za-z0-9_-]{43})_([0-9a-f]{8})$/;
const BEGINNING = "rgk_";

/** A key of ours anywhere in a text, also one that is cut off. */
const ANYWHERE = /rgk_[A-Za-z0-9_-]{20,}/g;

/** A new key of 256 random bits. */
export function newKey(): string {
  const text = `${BEGINNING}${randomBytes(32).toString("base64url")}`;
  return `${text}_${checksumOf(text)}`;
}

/** Digest of a key, as the keys file holds it: its SHA-256, base64url. */
export function digestOf(key: string): string {
  return hash("sha256", key, "base64url");
}

/** Whether a key is whole, by its form and checksum. */
export function isWholeKey(text: string): boolean {
  const [, before, checksum] = WHOLE.exec(text) ?? [];
  return before !== undefined && checksumOf(before) === checksum;
}

function checksumOf(text: string): string {
  return crc32(text).toString(16).padStart(8, "0");
}

/** A text of others without the keys of ours that stand in it. */
export function withoutKeys(text: string): string {
  return text.includes(BEGINNING) ? text.replaceAll(ANYWHERE, "rgk_…") : text;
}

/** Whether a key of ours stands in a field, whatever its scheme, as it is or in the pair of Basic (RFC 7617). */
export function showsKey(field: string): boolean {
  if (field.includes(BEGINNING)) return true;
  const pair = /^basic +([A-Za-z0-9+/_=-]+)$/i.exec(field)?.[1];
  return pair !== undefined && Buffer.from(pair, "base64").includes(BEGINNING);
}

/** Makes a 401, once for each text: it says nothing of a credential, and a flood of bad ones is to cost little. */
export function invalid(text: string): GatewayError {
  return new GatewayError("credential_invalid", text);
}

/** A credential by its form: a key of ours, good or not, or whatever else stands there. */
export interface Shown {
  readonly kind: "key" | "other";
  readonly text: string;
}

/**
 * The credentials that a request shows as `X-API-Key` or `Authorization: Bearer`, each once. Fields are read from the raw
 * list: of two `Authorization` Node keeps the first.
 */
export function credentialsIn(rawHeaders: readonly string[]): Shown[] {
  const shown: Shown[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const text = credentialOf(rawHeaders[i]!, rawHeaders[i + 1]!);
    if (text === undefined || text === "" || shown.some((each) => each.text === text)) continue;
    shown.push({ kind: text.startsWith(BEGINNING) ? "key" : "other", text });
  }
  return shown;
}

function credentialOf(name: string, value: string): string | undefined {
  // Their lengths alone leave out nearly all fields.
  if (name.length === "x-api-key".length && name.toLowerCase() === "x-api-key") return value.trim();
  if (name.length !== "authorization".length || name.toLowerCase() !== "authorization") return undefined;
  return /^bearer +(\S+)$/i.exec(value)?.[1];
}
