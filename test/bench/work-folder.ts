import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A new folder for files that servers need while they run. */
export function useFolder(name: string): { readonly folder: string; remove(): void } {
  const folder = mkdtempSync(join(tmpdir(), `registry-gateway-${name}-`));
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}
