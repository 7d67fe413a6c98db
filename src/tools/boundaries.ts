import { globSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

/** What a room may import. */
interface Room {
  /** Other rooms, and files at the root of src/. */
  readonly rooms: readonly string[];
  /** Rooms of which only types may be imported. */
  readonly types?: readonly string[];
  /** Packages; Node's own modules are allowed to all but `spec`. */
  readonly packages?: readonly string[];
}

/** Files at the root of src/ that every room may import; they import nothing but each other. */
const LEAVES = [
  "answer-fields.ts",
  "clock.ts",
  "deadline.ts",
  "digest.ts",
  "errors.ts",
  "fields.ts",
  "json.ts",
  "trace-context.ts",
  "version.ts",
];

/**
 * The one table of what each folder of src/ may import besides the leaves. It is an allowlist: what is not here fails, and
 * so does a folder or a file at the root that is not in it. The direction is main → commands → gateway → http, operations,
 * workers → aggregate → registry → cache, upstream → coordination → bodies, config, spec.
 */
const ROOMS: Readonly<Record<string, Room>> = {
  spec: { rooms: [], packages: ["typebox"] },
  config: { rooms: [], packages: ["typebox", "yaml"] },
  bodies: { rooms: ["spec"], types: ["coordination"], packages: ["lru-cache", "secure-json-parse"] },
  coordination: {
    rooms: ["coordination/redis"],
    types: ["cache", "cache/stores", "config"],
    packages: ["lru-cache", "typebox"],
  },
  "coordination/redis": { rooms: ["cache/stores", "config", "coordination"], types: ["cache"], packages: ["ioredis"] },
  "cache/rfc": { rooms: [], types: ["cache"], packages: ["lru-cache", "structured-headers"] },
  "cache/stores": { rooms: ["cache", "cache/rfc"], types: ["coordination"], packages: ["lru-cache"] },
  cache: { rooms: ["cache/rfc", "cache/stores"], types: ["coordination"], packages: ["lru-cache"] },
  "upstream/limits": { rooms: ["upstream"], types: ["config", "coordination", "spec"], packages: [] },
  "upstream/wire": { rooms: ["bodies", "upstream"], types: ["config", "coordination"], packages: ["undici"] },
  "upstream/credentials": { rooms: ["config", "upstream", "upstream/wire"], types: ["coordination"], packages: [] },
  "upstream/node": {
    rooms: ["bodies", "upstream", "upstream/credentials", "upstream/limits", "upstream/wire"],
    types: ["config"],
    packages: [],
  },
  "upstream/call": {
    rooms: ["bodies", "spec", "upstream", "upstream/credentials", "upstream/limits", "upstream/node", "upstream/wire"],
    packages: ["lru-cache"],
  },
  upstream: {
    rooms: ["spec", "upstream/call", "upstream/credentials", "upstream/limits", "upstream/node"],
    types: ["bodies", "config", "coordination"],
    packages: ["lru-cache"],
  },
  registry: {
    rooms: ["bodies", "cache", "cache/rfc", "cache/stores", "spec", "upstream", "upstream/wire"],
    types: ["config", "coordination"],
    packages: ["lru-cache"],
  },
  aggregate: {
    rooms: ["bodies", "cache/rfc", "registry", "spec", "upstream", "upstream/wire"],
    types: ["cache", "coordination"],
    packages: ["typebox"],
  },
  http: {
    rooms: ["aggregate", "bodies", "cache", "cache/rfc", "config", "registry", "spec", "upstream"],
    types: ["coordination", "observe", "observe/metrics", "observe/tracing"],
    packages: ["fastify", "@fastify/http-proxy", "lru-cache", "structured-headers"],
  },
  operations: {
    rooms: ["bodies", "cache", "config", "coordination", "http", "registry", "spec", "upstream"],
    types: ["cache/stores", "observe"],
    packages: ["fastify", "typebox"],
  },
  workers: {
    rooms: ["cache/stores", "config", "coordination", "http", "observe", "observe/metrics", "operations"],
    types: ["cache", "server.ts", "upstream"],
    packages: ["fastify", "lru-cache", "@prometheus-io/client"],
  },
  observe: {
    rooms: ["cache", "config", "coordination/redis", "observe/metrics", "observe/tracing"],
    types: ["cache/stores", "coordination", "http", "registry", "spec", "upstream"],
    packages: ["pino", "@prometheus-io/client"],
  },
  "observe/metrics": {
    rooms: ["cache", "coordination", "coordination/redis", "observe", "spec", "upstream"],
    types: ["cache/stores", "config"],
    packages: ["@prometheus-io/client"],
  },
  "observe/tracing": {
    rooms: [],
    types: ["cache", "config", "coordination/redis", "observe", "observe/metrics", "upstream"],
    packages: ["@opentelemetry/*"],
  },
  sandbox: { rooms: ["spec"], packages: [] },
  commands: {
    rooms: [
      "bodies",
      "config",
      "coordination",
      "coordination/redis",
      "gateway.ts",
      "http",
      "observe",
      "observe/metrics",
      "sandbox",
      "upstream",
      "workers",
    ],
    packages: ["undici", "yaml"],
  },
  tools: {
    rooms: ["config", "observe", "observe/metrics", "upstream"],
    packages: ["@grafana/grafana-foundation-sdk", "yaml"],
  },
  "main.ts": { rooms: ["commands"], packages: [] },
  // The composition root, what it starts and stops, and what a reload replaces.
  "gateway.ts": { rooms: ["*"], packages: [] },
  "server.ts": { rooms: ["*"], packages: ["fastify"] },
  "snapshots.ts": { rooms: ["*"], packages: [] },
};

const IMPORT =
  /(?:^|\n)\s*(?:import|export)\s+(type\s)?[^;"]*?\bfrom\s+"([^"]+)"|\bimport\(\s*"([^"]+)"\s*\)|(?:^|\n)import\s+"([^"]+)"/g;

interface Import {
  readonly target: string;
  readonly isType: boolean;
}

function importsOf(text: string): readonly Import[] {
  return [...text.matchAll(IMPORT)].map(([, type, from, dynamic, bare]) => ({
    target: (from ?? dynamic ?? bare)!,
    isType: type !== undefined,
  }));
}

/** The room of a file below src/: the longest folder that the table names, else its first folder, or the file. */
function roomOf(file: string): string {
  if (LEAVES.includes(file)) return file;
  for (let folder = dirname(file); folder !== "."; folder = dirname(folder)) if (folder in ROOMS) return folder;
  return file.split("/", 1)[0]!;
}

function isListed(list: readonly string[], name: string): boolean {
  return list.some(
    (entry) => entry === "*" || entry === name || (entry.endsWith("/*") && name.startsWith(entry.slice(0, -1))),
  );
}

function packageOf(target: string): string {
  return target.split("/", target.startsWith("@") ? 2 : 1).join("/");
}

/** Every import of src/ that the table does not allow, as sentences. */
function problemsOf(root: string): string[] {
  return globSync("**/*.ts", { cwd: root }).flatMap((file) => {
    const room = roomOf(file);
    const rules = LEAVES.includes(room) ? { rooms: [] } : ROOMS[room];
    if (rules === undefined) return [`src/${file} is in no room: add ${room} to the table`];
    return importsOf(readFileSync(join(root, file), "utf8")).flatMap(({ target, isType }) => {
      if (target.startsWith("node:")) return room === "spec" ? [`src/${file} imports ${target}`] : [];
      if (!target.startsWith(".")) {
        return isListed(rules.packages ?? [], packageOf(target)) ? [] : [`src/${file} imports the package ${target}`];
      }
      const other = roomOf(normalize(join(dirname(file), target)));
      const allowed = [...(room === "spec" ? [] : LEAVES), ...rules.rooms, ...(isType ? (rules.types ?? []) : [])];
      return other === room || isListed(allowed, other)
        ? []
        : [`src/${file} imports ${isType ? "types of " : ""}${other}`];
    });
  });
}

const problems = problemsOf(join(import.meta.dirname, ".."));
for (const problem of problems) console.error(`${problem}, which src/tools/boundaries.ts does not allow`);
process.exitCode = problems.length === 0 ? 0 : 1;
