import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { createGateway } from "../../src/gateway/gateway.ts";
import { temporaryFolder } from "../support/gateway.ts";

const ROOT = join(import.meta.dirname, "../..");

/** One line of the sources, and what a mistaken build has in its place. */
export interface PlantedFault {
  readonly name: string;
  readonly file: string;
  readonly line: string;
  readonly mistaken: string;
  /** How the oracle says that. */
  readonly shows: RegExp;
  readonly needsRedis?: boolean;
}

/** What the model has to find, by itself, within the steps of a push. */
export const FAULTS: readonly PlantedFault[] = [
  {
    name: "ignores the purge epoch",
    shows: /asked for before a purge/,
    file: "cache/tiers.ts",
    line: "return epoch === this.epochOf(key) && generation === key.generation;",
    mistaken: "return generation === key.generation;",
  },
  {
    name: "shares two pages",
    shows: /the answer to another question/,
    file: "registry/key.ts",
    line: 'return `page ${request.pageSize ?? ""} ${request.pageToken ?? ""}`;',
    mistaken: 'return `page ${request.pageSize ?? ""}`;',
  },
  {
    name: "takes the first node for proved",
    shows: /its admin was named|has named|no connection/,
    file: "upstream/proving.ts",
    line: "if (holds(proof, now, config.proofEvery)) return undefined;",
    mistaken: "if (holds(proof, now, config.proofEvery) || config.urls[0] === node.url) return undefined;",
  },
  {
    name: "forgets the limit of a replica",
    shows: /calls within/,
    file: "sharing/redis/limits.ts",
    line: "redis.takeCall(this.keys.limit(key), ...numbers)",
    mistaken: "redis.takeCall(this.keys.limit(key + this.replicas.id), ...numbers)",
    needsRedis: true,
  },
];

/** The product with one line mistaken, from a copy of its sources. @throws where the line is not there once */
export async function plant({ file, line, mistaken }: PlantedFault): Promise<typeof createGateway> {
  const folder = temporaryFolder();
  cpSync(join(ROOT, "src"), join(folder, "src"), { recursive: true });
  cpSync(join(ROOT, "package.json"), join(folder, "package.json"));
  mkdirSync(join(folder, "dist/console"), { recursive: true });
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  const place = join(folder, "src", file);
  const text = readFileSync(place, "utf8");
  if (text.split(line).length !== 2) throw new Error(`${file} does not have this line once: ${line}`);
  writeFileSync(
    place,
    text.replace(line, () => mistaken),
  );
  const copy = (await import(pathToFileURL(join(folder, "src/gateway/gateway.ts")).href)) as {
    createGateway: typeof createGateway;
  };
  return copy.createGateway;
}
