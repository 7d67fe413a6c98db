import { expect, test } from "vitest";
import { diffConfig } from "../../src/config/diff.ts";
import type { Change } from "../../src/config/diff.ts";
import { parseConfig } from "../../src/config/parse.ts";
import type { Config } from "../../src/config/schema.ts";

const A = "{ name: a, urls: ['https://a.example'] }";
const B = "{ name: b, urls: ['https://b.example', 'https://b2.example'] }";

function parse(text: string): Config {
  const { config, problems } = parseConfig({ text, file: "gateway.yaml", env: {} });
  expect(problems).toEqual([]);
  return config!;
}

function diff(before: string, after: string): Change[] {
  return diffConfig(parse(before), parse(after));
}

const rows: [about: string, before: string, after: string, changes: Change[]][] = [
  ["the same, written differently", `upstreams: [${A}]`, `docs: true\nlog: {}\nupstreams: [${A}]`, []],
  [
    "a key that a reload takes over",
    `upstreams: [${A}]`,
    `log: { level: debug }\nlimits: { requestBody: 4KiB }\nupstreams: [${A}]`,
    [
      { path: "limits.requestBody", before: "1MiB", after: "4KiB", effect: "reload" },
      { path: "log.level", before: "info", after: "debug", effect: "reload" },
    ],
  ],
  [
    "keys that need a restart",
    `upstreams: [${A}]`,
    `listen: { port: 81 }
operations: { host: "::1" }
redis: { url: "redis://r.example" }
routing: { prefix: /r, learn: true }
limits: { uri: 4KiB }
tracing: { ratio: 0.5 }
upstreams: [${A}]`,
    [
      { path: "listen.port", before: "8080", after: "81", effect: "restart" },
      { path: "operations.host", before: "127.0.0.1", after: "::1", effect: "restart" },
      { path: "redis.url", before: undefined, after: "redis://r.example", effect: "restart" },
      { path: "redis.keyPrefix", before: undefined, after: "rg:", effect: "restart" },
      { path: "routing.prefix", before: "/api/token-standard/v0/registrars", after: "/r", effect: "restart" },
      { path: "routing.learn", before: "false", after: "true", effect: "reload" },
      { path: "limits.uri", before: "8KiB", after: "4KiB", effect: "restart" },
      { path: "tracing.ratio", before: "1", after: "0.5", effect: "restart" },
    ],
  ],
  [
    "upstreams that come and go",
    `upstreams: [${A}]`,
    `upstreams: [${B}]`,
    [
      { path: "upstreams[a]", before: "https://a.example", after: undefined, effect: "reload" },
      { path: "upstreams[b]", before: undefined, after: "https://b.example, https://b2.example", effect: "reload" },
    ],
  ],
  [
    "upstreams in another order",
    `upstreams: [${A}, ${B}]`,
    `upstreams: [${B}, ${A}]`,
    [{ path: "upstreams", before: "a, b", after: "b, a", effect: "reload" }],
  ],
  [
    "keys of an upstream, wherever in the list it is",
    `upstreams: [${A}]`,
    `upstreams: [${B}, { name: a, urls: ['https://a2.example'], timeout: 20s, rateLimit: { requests: 5 } }]`,
    [
      { path: "upstreams[a].urls", before: "https://a.example", after: "https://a2.example", effect: "reload" },
      { path: "upstreams[a].timeout", before: "15s", after: "20s", effect: "reload" },
      { path: "upstreams[a].rateLimit.requests", before: undefined, after: "5", effect: "reload" },
      { path: "upstreams[a].rateLimit.per", before: undefined, after: "1m", effect: "reload" },
      { path: "upstreams[a].rateLimit.maxWait", before: undefined, after: "2s", effect: "reload" },
      { path: "upstreams[a].rateLimit.perEndpoint", before: undefined, after: "false", effect: "reload" },
      { path: "upstreams[b]", before: undefined, after: "https://b.example, https://b2.example", effect: "reload" },
    ],
  ],
  [
    "a key of the global cache, once, and where an upstream's own goes another way",
    `upstreams: [${A}, { name: b, urls: ['https://b.example'], cache: { ttl: { info: 1h } } }]`,
    `cache: { ttl: { info: 2m } }\nupstreams: [${A}, { name: b, urls: ['https://b.example'] }]`,
    [
      { path: "cache.ttl.info", before: "10m", after: "2m", effect: "reload" },
      { path: "upstreams[b].cache.ttl.info", before: "1h", after: "2m", effect: "reload" },
    ],
  ],
  [
    "secrets, without telling them",
    `redis: { url: "redis://u:one@r.example" }\nupstreams: [{ name: a, urls: ['https://a.example'], auth: { bearerToken: one } }]`,
    `redis: { url: "redis://u:two@r.example" }\nupstreams: [{ name: a, urls: ['https://a.example'], auth: { bearerToken: two } }]`,
    [
      { path: "redis.url", before: "redis://u:***@r.example", after: "redis://u:***@r.example", effect: "restart" },
      { path: "upstreams[a].auth.bearerToken", before: "***", after: "***", effect: "reload" },
    ],
  ],
];

test.each(rows)("a diff shows %s", (_about, before, after, changes) => {
  expect(diff(before, after).sort((a, b) => a.path.localeCompare(b.path))).toEqual(
    changes.toSorted((a, b) => a.path.localeCompare(b.path)),
  );
});
