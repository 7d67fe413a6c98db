import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { parseConfig } from "../../src/config/parse.ts";
import { printConfig } from "../../src/config/print.ts";
import type { Config } from "../../src/config/schema.ts";
import { tlsFolder } from "../support/redis.ts";

const folder = mkdtempSync(join(tmpdir(), "gateway-config-"));
afterAll(() => rmSync(folder, { recursive: true }));
writeFileSync(join(folder, "file"), "content\n");
const pem = (name: string) => join(tlsFolder, `${name}.pem`);

function parse(text: string, env: Record<string, string> = {}): Config {
  const { config, problems } = parseConfig({ text, file: join(folder, "gateway.yaml"), env });
  expect(problems).toEqual([]);
  return config!;
}

const WITHOUT_SECRETS = `
listen: { port: 0, keepAliveTimeout: 1500ms }
operations: { tokenFile: file }
redis: { sentinel: { name: m, nodes: ["[::1]:26379", "s:26379"] }, keyPrefix: "x:", tls: { caFile: ${pem("ca")}, servername: r } }
routing: { prefix: /r, adminHeader: X-Admin, plain: "a", learn: true }
cache: { memory: { maxBytes: 1500B }, ttl: { info: 90s }, forwardRequestHeaders: "*" }
aggregate: { adminId: "gateway::1220$\${ab}" }
cors: { origins: ["https://w.example", "http://localhost:3000"] }
tracing: { endpoint: "http://o.example/v1/traces", ratio: 0.25 }
upstreams:
  - name: a
    admin: "DSO::1220AB"
    urls: ["https://a.example/api/v0/registry/"]
    cache: { ttl: { notFound: 0s }, forwardRequestHeaders: [x-a] }
    rateLimit: { requests: 7 }
    auth: { header: { name: X-Key, valueFile: file } }
    tls: { caFile: ${pem("ca")}, certFile: ${pem("client")}, keyFile: ${pem("client-key")} }
    httpProxy: http://p.example:3128
  - { name: "12", enabled: false, urls: ["http://b.example"], validation: strict }
`;

test("a printed configuration is read again as the same", () => {
  const config = parse(WITHOUT_SECRETS);
  const printed = printConfig(config);
  expect(parse(printed)).toStrictEqual(config);
  expect(printConfig(parse(printed))).toBe(printed);
});

test.each([
  "clients: { tiers: { x: { concurrency: 4 } } }",
  "clients: { anonymous: x, tiers: { x: { burst: { requests: 2 }, posts: { requests: 1 } } } }",
  "clients: { anonymous: false, jwt: [{ issuer: i, jwksUrl: 'https://l.example/keys', audience: g }] }",
  "discovery: { sources: [{ cns: ['https://s.example'], admins: ['DSO::1220ab'] }], defaults: { timeout: 1s } }",
  "discovery: { sources: [{ url: 'https://l.example/assets.json' }], defaults: { rateLimit: { requests: 1, group: g } } }",
  "cache: { memory: { maxBytes: 1KiB } }",
  "redis: { sentinel: { name: m, nodes: ['s:26379'] } }",
])("no default that is printed of %s is refused when it is read again", (text) => {
  const config = parse(`${text}\nupstreams: [{ name: a, urls: ['https://a.example'], timeout: 100ms, hedge: {} }]\n`);
  expect(parse(printConfig(config))).toStrictEqual(config);
});

test("durations and sizes are printed as they are written", () => {
  const printed = printConfig(parse(WITHOUT_SECRETS));
  for (const line of ["keepAliveTimeout: 1500ms", "info: 90s", "maxBytes: 1500B", "uri: 8KiB", "grace: 5s"]) {
    expect(printed).toContain(`${line}\n`);
  }
});

test("no secret is printed, wherever it comes from", () => {
  const secret = "hunter2";
  const rows = [
    `operations: { token: ${secret} }\n`,
    `tracing: { endpoint: "https://o.example/v1/${secret}/traces" }\n`,
    `tracing: { endpoint: "https://o.example/v1/traces?key=${secret}" }\n`,
    `discovery: { sources: [{ url: "https://l.example/assets.json?token=\${SECRET}" }], pinFile: /pins.json }\n`,
    `clients: { jwt: [{ issuer: i, audience: a, tier: anonymous, jwksUrl: "https://l.example/keys?token=${secret}" }] }\n`,
    `redis: { url: "redis://user:${secret}@r.example/0" }\n`,
    `redis: { url: "rediss://:${secret}@r.example" }\n`,
    `redis: { url: "redis://${secret}@r.example" }\n`,
    `redis: { url: "redis://user:${secret}@x@r.example" }\n`,
    `redis: { sentinel: { name: m, nodes: ["s:26379"] }, username: u, password: ${secret} }\n`,
    `redis: { sentinel: { name: m, nodes: ["s:26379"], sentinelAuth: { password: "\${SECRET}" } } }\n`,
    `redis: { cluster: { nodes: ["redis://u:\${SECRET}@h.example", "redis://u:\${SECRET}@r.example"] } }\n`,
  ].map((text) => `${text}upstreams: [{ name: a, urls: ['https://a.example'] }]`);
  const upstreams = [
    `auth: { bearerToken: "\${SECRET}" }`,
    `auth: { header: { name: x-key, value: ${secret} } }`,
    `auth: { oauth2: { tokenUrl: "https://l.example", clientId: id, clientSecret: ${secret} } }`,
    `httpProxy: "http://user:${secret}@p.example:3128"`,
  ].map((text) => `upstreams: [{ name: a, urls: ['https://a.example'], ${text} }]`);
  for (const text of [...rows, ...upstreams]) {
    const printed = printConfig(parse(text, { SECRET: secret }));
    expect(printed).not.toContain(secret);
    expect(printed).toContain("***");
    // Still a configuration, to begin a new one from.
    parse(printed);
  }
});

test("a redacted URL keeps what is no secret", () => {
  const printed = printConfig(
    parse(`redis: { url: "rediss://user:pw@r.example:6380/2" }\nupstreams: [{ name: a, urls: ['https://a.example'] }]`),
  );
  expect(printed).toContain("url: rediss://user:***@r.example:6380/2\n");
});
