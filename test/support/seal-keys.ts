import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";

/** A line of a `sealKeyFile`; the same for the same name. */
export function sealKey(name: string): string {
  return createHash("sha256").update(name).digest("base64");
}

/** Writes files for `redis.sealKeyFile`, gone after the tests of this file. */
export function useSealKeys(): (file: string, ...keys: string[]) => string {
  const folder = mkdtempSync(join(tmpdir(), "gateway-seal-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return (file, ...keys) => {
    const path = join(folder, file);
    writeFileSync(path, `${keys.map(sealKey).join("\n")}\n`, { mode: 0o600 });
    return path;
  };
}
