import { asData, isOff } from "../src/config/keys.ts";
import type { Schema } from "../src/config/keys.ts";
import { configSchema } from "../src/config/schema.ts";

type Row = readonly [key: string, byDefault: string, description: string];

/** What most gateways need, in the order in which they come to it. */
const FIRST_KEYS = [
  "upstreams[].name",
  "upstreams[].admin",
  "upstreams[].urls",
  "upstreams[].timeout",
  "upstreams[].rateLimit.requests",
  "upstreams[].auth.bearerTokenFile",
  "listen.port",
  "listen.tls",
  "listen.trustedProxies",
  "operations.tokenFile",
  "redis.url",
  "cache.memory.maxBytes",
  "cache.ttl.instruments",
  "cache.staleIfError",
  "log.level",
];

/** By marker: the keys of a topic, each with all below it. */
const TOPICS = {
  registries: ["upstreams"],
  listeners: ["listen", "operations"],
  routing: ["routing", "aggregate"],
  caching: ["cache"],
  redis: ["redis"],
  clients: ["clients", "cors"],
  discovery: ["discovery"],
  process: ["limits", "log", "metrics", "tracing", "docs", "shutdown"],
  // What few need: on a page of its own.
  seals: ["redis.sealKeyFile"],
  "redis-logins": ["redis.sentinel.sentinelAuth"],
  agreement: ["upstreams[].agreement", "upstreams[].contexts", "upstreams[].proof"],
  contracts: ["routing.learn", "routing.probe"],
  sources: [
    "discovery.sources[].cns",
    "discovery.sources[].credentials",
    "discovery.sources[].admins",
    "discovery.sources[].agree",
  ],
  groups: ["upstreams[].rateLimit.group", "upstreams[].rateLimit.perEndpoint"],
  tuning: ["upstreams[].retry", "upstreams[].hedge", "upstreams[].concurrency", "upstreams[].http2"],
  "client-caching": ["cache.honorClient", "cache.clientFloor", "cache.errors", "cache.forwardRequestHeaders"],
} as const satisfies Readonly<Record<string, readonly string[]>>;

type Topic = keyof typeof TOPICS;

function describeDefault(schema: Schema): string {
  if (isOff(schema)) return "_off_";
  if (schema.inherits === true || schema.repeats === true) return "`{}`";
  if (schema.properties !== undefined) return "";
  if (schema.default === undefined) return "_required_";
  if (schema.values !== undefined) return "";
  const text = typeof schema.default === "string" ? schema.default : JSON.stringify(schema.default);
  return `\`${text}\``;
}

/** Where the keys below are, and how their paths begin. */
function stepBelow(path: string, schema: Schema): readonly [Schema, string] {
  if (schema.values !== undefined) return [schema.values, `${path}.<name>`];
  return schema.items?.properties === undefined ? [schema, path] : [schema.items, `${path}[]`];
}

function listRows(path: string, schema: Schema): Row[] {
  const restart = schema.restart === true ? " _Takes effect at the next start._" : "";
  const description = `${schema.description ?? ""}${restart}`.replaceAll("|", String.raw`\|`);
  const row: Row = [path, describeDefault(schema), description];
  if (schema.inherits === true || schema.repeats === true) return [row];
  const [below, prefix] = stepBelow(path, schema);
  const keys = Object.entries(below.properties ?? {});
  return [row, ...keys.flatMap(([key, keySchema]) => listRows(`${prefix}.${key}`, keySchema))];
}

const ROWS = Object.entries(asData(configSchema).properties ?? {}).flatMap(([key, schema]) => listRows(key, schema));

/** The topic whose keys say most of this one. */
function topicOf(path: string): Topic {
  const isBelow = (key: string) => path === key || path.startsWith(`${key}.`) || path.startsWith(`${key}[]`);
  const lengths = (Object.keys(TOPICS) as Topic[]).map(
    (topic) => [topic, Math.max(...TOPICS[topic].map((key: string) => (isBelow(key) ? key.length : -1)))] as const,
  );
  const [topic, length] = lengths.toSorted(([, one], [, other]) => other - one)[0]!;
  if (length === -1) throw new Error(`tools/config-table.ts has no topic for the key ${path}`);
  return topic;
}

function render(rows: readonly Row[]): string {
  const lines = rows.map(([key, ...rest]) => `| \`${key}\` | ${rest.join(" | ")} |`);
  return ["| key | default | what it does |", "| --- | --- | --- |", ...lines].join("\n");
}

/** The keys that most need, as a Markdown table. */
export function renderFirstKeys(): string {
  return render(
    FIRST_KEYS.map((key) => {
      const row = ROWS.find(([path]) => path === key);
      if (row === undefined) throw new Error(`tools/config-table.ts: there is no key ${key}`);
      return row;
    }),
  );
}

/** Every key of a topic with its default and what it does, as a Markdown table. */
export function renderTopic(topic: Topic): string {
  return render(ROWS.filter(([path]) => topicOf(path) === topic));
}
