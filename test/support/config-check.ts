import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { parseConfig } from "../../src/config/parse.ts";
import type { Config } from "../../src/config/schema.ts";

/**
 * Reads a configuration that is meant for another machine: its secret files are replaced by others.
 *
 * @throws Error with every problem
 */
export function readDeployedConfig(file: string): Config {
  const folder = mkdtempSync(join(tmpdir(), "secrets-"));
  try {
    const text = readFileSync(file, "utf8").replaceAll(/\/run\/(?:secrets|credentials)\/[\w./-]+/g, (path) => {
      const secret = join(folder, basename(path));
      writeFileSync(secret, path.endsWith("redis-url") ? "redis://redis:6379" : "secret");
      return secret;
    });
    const { config, problems } = parseConfig({ text, file, env: {} });
    if (config === undefined) throw new Error(JSON.stringify(problems));
    return config;
  } finally {
    rmSync(folder, { recursive: true });
  }
}
