import { createHash, randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";

/** A key as the contract writes it: `rgk_`, 43 characters of base64url, `_`, CRC-32 in hex of what stands before. */
export function newKey(): string {
  const secret = randomBytes(32).toString("base64url");
  return `rgk_${secret}_${crc32(`rgk_${secret}`).toString(16).padStart(8, "0")}`;
}

/** A line of the keys file. */
export function keyLine(key: string, name: string, tier: string, expires?: string): string {
  const digest = createHash("sha256").update(key).digest("base64url");
  return JSON.stringify({ name, tier, digest, ...(expires !== undefined && { expires }) });
}

/** Writes a keys file into the folder; its path. */
export function writeKeys(folder: string, lines: readonly string[]): string {
  const file = join(folder, "clients.jsonl");
  writeFileSync(file, lines.map((line) => `${line}\n`).join(""));
  return file;
}
