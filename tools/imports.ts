import { globSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

/** What a room may import. */
interface Room {
  /** Other rooms, and files at the root of src/. */
  readonly rooms: readonly string[];
  /** Rooms and packages of which only types may be imported. */
  readonly types?: readonly string[];
  /** Packages. Node's own modules are allowed to all but those of {@link ANYWHERE}. */
  readonly packages?: readonly string[];
}

/** Files at the root of src/ that every room may import; they import nothing but each other and what bounds a map. */
const LEAVES = [
  "clock.ts",
  "digest.ts",
  "errors.ts",
  "fields.ts",
  "host-names.ts",
  "json.ts",
  "recurrence.ts",
  "trace-context.ts",
  "units.ts",
  "version.ts",
];

/**
 * The one table of what each folder of src/ may import besides the leaves. It is an allowlist: what is not here fails, and
 * so does a folder or a file at the root that is not in it. The direction is main → commands → gateway → requests, operations,
 * clients, aggregate → registry → cache, upstream → limits, sharing → bodies, config, spec.
 */
const ROOMS: Readonly<Record<string, Room>> = {
  spec: { rooms: ["json.ts"], packages: [] },
  config: { rooms: ["spec"], packages: ["yaml"] },
  bodies: { rooms: ["spec"], packages: ["lru-cache", "secure-json-parse", "undici"] },
  sharing: {
    rooms: ["sharing/redis"],
    types: ["config"],
    packages: ["lru-cache"],
  },
  "sharing/redis": {
    rooms: ["config", "sharing"],
    packages: ["ioredis", "lru-cache"],
  },
  "cache/rfc": { rooms: [], types: ["cache", "sharing"], packages: ["lru-cache", "structured-headers"] },
  "cache/stores": { rooms: ["cache", "cache/rfc", "sharing"], packages: ["lru-cache"] },
  cache: { rooms: ["cache/rfc", "cache/stores"], types: ["sharing"], packages: ["lru-cache"] },
  limits: { rooms: ["spec"], types: ["config", "sharing"], packages: ["lru-cache"] },
  "upstream/wire": {
    rooms: ["words", "bodies", "upstream"],
    types: ["config", "sharing"],
    packages: ["lru-cache", "structured-headers", "undici"],
  },
  "upstream/credentials": {
    rooms: ["config", "upstream", "limits", "upstream/wire"],
    types: ["sharing"],
    packages: [],
  },
  "upstream/nodes": {
    rooms: ["bodies", "config", "upstream", "upstream/credentials", "limits", "upstream/wire"],
    types: ["sharing"],
    packages: ["lru-cache"],
  },
  "upstream/call": {
    rooms: ["bodies", "spec", "upstream", "upstream/credentials", "limits", "upstream/nodes", "upstream/wire"],
    packages: ["lru-cache"],
  },
  upstream: {
    rooms: ["bodies", "config", "sharing", "spec", "upstream/call", "upstream/credentials", "limits", "upstream/nodes"],
    types: ["upstream/wire"],
    packages: ["lru-cache"],
  },
  discovery: {
    rooms: ["bodies", "config", "sharing", "upstream", "upstream/nodes", "upstream/wire", "words"],
    packages: [],
  },
  registry: {
    rooms: ["bodies", "cache", "cache/rfc", "cache/stores", "sharing", "spec", "upstream", "upstream/wire"],
    types: ["config", "limits"],
    packages: ["lru-cache"],
  },
  aggregate: {
    rooms: ["bodies", "cache/rfc", "limits", "registry", "spec", "upstream", "upstream/wire"],
    types: ["cache", "sharing"],
    packages: [],
  },
  clients: { rooms: ["bodies", "config", "sharing"], packages: ["ipaddr.js", "jose", "lru-cache"] },
  connections: { rooms: ["config"], packages: ["fastify"] },
  requests: {
    rooms: [
      "aggregate",
      "bodies",
      "cache",
      "cache/rfc",
      "clients",
      "config",
      "connections",
      "registry",
      "spec",
      "upstream",
    ],
    types: ["sharing", "observe", "observe/metrics", "observe/tracing"],
    packages: ["fastify", "@fastify/http-proxy", "lru-cache", "structured-headers"],
  },
  operations: {
    rooms: [
      "bodies",
      "clients",
      "cache",
      "config",
      "connections",
      "sharing",
      "requests",
      "observe/metrics",
      "registry",
      "spec",
      "upstream",
      "words",
    ],
    types: ["discovery", "cache/stores", "observe"],
    packages: ["fastify"],
  },
  observe: {
    rooms: ["cache", "config", "sharing/redis", "discovery", "observe/metrics", "observe/tracing", "spec", "words"],
    types: ["bodies", "cache/stores", "clients", "connections", "sharing", "registry", "upstream"],
    packages: ["pino", "@prometheus-io/client"],
  },
  "observe/metrics": {
    rooms: ["bodies", "cache", "config", "sharing", "sharing/redis", "discovery", "observe", "spec", "upstream"],
    types: ["cache/stores", "clients", "connections", "limits"],
    packages: ["@prometheus-io/client", "@opentelemetry/*"],
  },
  "observe/tracing": {
    rooms: ["observe"],
    types: ["cache", "config", "sharing/redis", "observe", "observe/metrics", "upstream"],
    packages: ["@opentelemetry/*"],
  },
  sandbox: { rooms: ["bodies", "spec"], packages: [] },
  words: { rooms: [], packages: [] },
  // Runs in a browser: what it takes from the rest besides types has to be small, and know nothing of Node.
  console: { rooms: ["spec", "words"], types: ["operations"], packages: ["preact", "uplot"] },
  viewer: { rooms: [], packages: ["swagger-ui-dist"] },
  commands: {
    rooms: [
      "bodies",
      "clients",
      "config",
      "sharing",
      "sharing/redis",
      "discovery",
      "connections",
      "gateway",
      "requests",
      "observe",
      "observe/metrics",
      "sandbox",

      "spec",
      "upstream",
      "words",
    ],
    types: ["operations"],
    packages: ["undici", "yaml"],
  },
  tools: {
    rooms: ["config", "observe", "observe/metrics", "operations", "spec", "upstream"],
    packages: ["@grafana/grafana-foundation-sdk", "playwright-core", "yaml"],
  },
  "main.ts": { rooms: ["commands"], packages: [] },
  // The composition root, and what it starts and stops.
  gateway: { rooms: ["*"], types: ["fastify"], packages: [] },
};

/** What data is, every room may say. */
const SCHEMAS = "typebox";

/** Rooms that run in browsers as well, or say nothing of where they run. */
const ANYWHERE = new Set(["console", "spec", "viewer", "words"]);

const FROM = /(?:^|\n)(?:import|export)\s+(type\s)?([^;"]*?)\bfrom\s+"([^"]+)"/g;
const WITHOUT_NAMES = /\bimport\(\s*"([^"]+)"\s*\)|(?:^|\n)import\s+"([^"]+)"/g;
const EXPORT = /(?:^|\n)export\s+(?:async\s+|abstract\s+)?(?:function|const|class)\s+(\w+)/g;

interface Import {
  /** A package, or the path of a file from the root of the project. */
  readonly target: string;
  readonly isType: boolean;
  /** What is imported by name; undefined: all of it. */
  readonly names: readonly string[] | undefined;
}

function importsOf(file: string, text: string): readonly Import[] {
  const resolve = (target: string) => (target.startsWith(".") ? normalize(join(dirname(file), target)) : target);
  const named = [...text.matchAll(FROM)].map(([, type, list, target]) => ({
    target: resolve(target!),
    isType: type !== undefined,
    names: list!.includes("*") ? undefined : namesIn(list!),
  }));
  const others = [...text.matchAll(WITHOUT_NAMES)].map(([, dynamic, bare]) => ({
    target: resolve((dynamic ?? bare)!),
    isType: false,
    names: undefined,
  }));
  return [...named, ...others];
}

/** Of `{ a, type B, c as d }`: a, B and c. */
function namesIn(list: string): readonly string[] {
  return list
    .replaceAll(/[{}]/g, "")
    .split(",")
    .map(
      (each) =>
        each
          .trim()
          .replace(/^type\s+/, "")
          .split(/\s/, 1)[0]!,
    )
    .filter((name) => name !== "");
}

/** Of the program, the console or the tools: neither a test nor a package. */
function isOwn(path: string): boolean {
  return /^(?:src|console|tools|viewer)\//.test(path);
}

/** The room of a file: the longest folder below src/ that the table names, else its first folder, or the file. */
function roomOf(file: string): string {
  const below = file.startsWith("src/") ? file.slice("src/".length) : file;
  if (LEAVES.includes(below)) return below;
  for (let folder = dirname(below); folder !== "."; folder = dirname(folder)) if (folder in ROOMS) return folder;
  return below.split("/", 1)[0]!;
}

function isListed(list: readonly string[], name: string): boolean {
  return list.some(
    (entry) => entry === "*" || entry === name || (entry.endsWith("/*") && name.startsWith(entry.slice(0, -1))),
  );
}

function packageOf(target: string): string {
  return target.split("/", target.startsWith("@") ? 2 : 1).join("/");
}

/** Why `file` may not import this; undefined where it may. */
function refusalOf(file: string, { target, isType }: Import): string | undefined {
  const room = roomOf(file);
  const rules = LEAVES.includes(room) ? { rooms: [], packages: ["lru-cache"] } : ROOMS[room];
  if (rules === undefined) return `${file} is in no room: add ${room} to the table`;
  if (target.startsWith("node:")) return ANYWHERE.has(room) ? `${file} imports ${target}` : undefined;
  if (!isOwn(target)) {
    const name = packageOf(target);
    const packages = [SCHEMAS, ...(rules.packages ?? []), ...(isType ? (rules.types ?? []) : [])];
    if (!isListed(packages, name)) return `${file} imports the package ${target}`;
    // The tools are no part of the package, and of what the console uses the package has a copy in it.
    const isInstalled = isType || ["tools", "console", "viewer"].includes(room) || Object.hasOwn(dependencies, name);
    return isInstalled ? undefined : `${file} imports ${name}, a package for development`;
  }
  const other = roomOf(target);
  const leaves = room === "spec" ? [] : LEAVES;
  const allowed = [...leaves, ...rules.rooms, ...(isType ? (rules.types ?? []) : [])];
  if (other === room || isListed(allowed, other)) return undefined;
  return `${file} imports ${isType ? "types of " : ""}${other}`;
}

/** Values that src/ exports and no other file imports, tests and benches included. A type may be part of a signature. */
function unusedExports(texts: ReadonlyMap<string, string>): readonly string[] {
  const used = new Map<string, Set<string> | "all">();
  for (const [file, text] of texts) {
    for (const { target, names } of importsOf(file, text)) {
      const known = used.get(target) ?? new Set();
      if (names === undefined || known === "all") used.set(target, "all");
      else used.set(target, new Set([...known, ...names]));
    }
  }
  return [...texts].flatMap(([file, text]) => {
    const names = used.get(file);
    if (!isOwn(file) || names === "all") return [];
    const exported = [...text.matchAll(EXPORT)].map(([, name]) => name!);
    return exported
      .filter((name) => names?.has(name) !== true)
      .map((name) => `${file} exports ${name}, which nothing imports`);
  });
}

const root = join(import.meta.dirname, "..");
const { dependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { dependencies: object };
const files = globSync(["{src,console,tools,viewer}/**/*.{ts,tsx}", "test/**/*.ts"], { cwd: root });
const texts = new Map(files.map((file) => [file, readFileSync(join(root, file), "utf8")]));
const refusals = [...texts].flatMap(([file, text]) =>
  isOwn(file)
    ? importsOf(file, text)
        .map((each) => refusalOf(file, each))
        .filter((each) => each !== undefined)
    : [],
);
for (const refusal of refusals) console.error(`${refusal}, which tools/imports.ts does not allow`);
const unused = unusedExports(texts);
for (const problem of unused) console.error(problem);
process.exitCode = refusals.length + unused.length === 0 ? 0 : 1;
