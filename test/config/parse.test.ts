import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { loadConfig, parseConfig } from "../../src/config/parse.ts";
import type { Config } from "../../src/config/schema.ts";
import { readSecret } from "../../src/config/secret.ts";
import { tlsFolder } from "../support/redis.ts";

const folder = mkdtempSync(join(tmpdir(), "gateway-config-"));
afterAll(() => rmSync(folder, { recursive: true }));
writeFileSync(join(folder, "token"), "s3cret\n");

function parse(text: string, env: Record<string, string> = {}): Config {
  const { config, problems } = parseConfig({ text, file: join(folder, "gateway.yaml"), env });
  expect(problems).toEqual([]);
  return config!;
}

const A = "upstreams: [{ name: a, urls: ['https://a.example'] }]\n";

const CACHE = {
  ttl: { info: 600_000, instruments: 30_000, instrument: 30_000, notFound: 5_000 },
  maxTtl: { info: 86_400_000, instruments: 600_000, instrument: 600_000 },
  honorUpstream: true,
  errors: "never",
  honorClient: false,
  clientFloor: 5_000,
  clientTtl: 0,
  staleWhileRevalidate: 30_000,
  staleIfError: 600_000,
  forwardRequestHeaders: [],
  forwardResponseHeaders: [],
  warmUp: false,
};

test("what a file leaves out has the documented defaults, and what is off is absent", () => {
  expect(parse(A)).toStrictEqual({
    listen: {
      host: "0.0.0.0",
      port: 8080,
      reusePort: false,
      keepAliveTimeout: 72_000,
      headersTimeout: 15_000,
      maxConnections: 10_000,
      trustedProxies: [],
    },
    operations: { host: "127.0.0.1", port: 9090, hosts: [], readonly: false, tokens: [] },
    routing: {
      prefix: "/api/token-standard/v0/registrars",
      adminHeader: "x-instrument-admin",
      plain: "aggregate",
      learn: false,
      probe: false,
    },
    cache: { memory: { maxBytes: 64 * 2 ** 20, maxObject: 4 * 2 ** 20 }, ...CACHE },
    aggregate: { partial: false, maxSubscribers: 1_000 },
    limits: { requestBody: 2 ** 20, responseBody: 8 * 2 ** 20, uri: 8192 },
    cors: { origins: ["*"], allowHeaders: [] },
    log: { level: "info", hits: 0 },
    docs: true,
    tracing: { ratio: 1 },
    shutdown: { grace: 5_000, timeout: 20_000 },
    upstreams: [
      {
        name: "a",
        enabled: true,
        urls: ["https://a.example"],
        timeout: 15_000,
        attemptTimeout: 5_000,
        cache: CACHE,
        concurrency: { max: 64, queue: 256 },
        retry: { attempts: 3, budget: 0.2 },
        hedge: { enabled: true, quantile: 0.95, budget: 0.05 },
        http2: "auto",
        agreement: { admin: 1, metadata: 1, contexts: 1, observe: 0 },
        contexts: { share: false, maxAge: 0 },
        basePaths: [],
        extraPaths: [],
        proof: { every: 300_000 },
        forwardClientAddress: false,
        forwardAuthorization: false,
        validation: "lenient",
      },
    ],
  });
});

test("a group that is on has the documented defaults", () => {
  const config = parse(
    "redis: { url: 'redis://h' }\nupstreams: [{ name: a, urls: ['https://a.example'], rateLimit: {} }]\n",
  );
  expect(config.redis).toStrictEqual({ url: "redis://h", keyPrefix: "rg:" });
  expect(config.upstreams[0]!.rateLimit).toStrictEqual({
    requests: 120,
    per: 60_000,
    maxWait: 2_000,
    perEndpoint: false,
  });
});

test("an upstream's cache is the global one with its own keys put over it, one by one", () => {
  const config = parse(`
cache: { ttl: { info: 1h, instrument: 7s }, staleIfError: 2m, memory: { maxBytes: 1MiB } }
upstreams:
  - name: a
    urls: ["https://a.example"]
    cache: { ttl: { instrument: 0s }, maxTtl: { info: 2h }, errors: honor, forwardRequestHeaders: [X-Tenant] }
  - { name: b, urls: ["https://b.example"] }
`);
  expect(config.upstreams[0]!.cache).toStrictEqual({
    ...CACHE,
    ttl: { ...CACHE.ttl, info: 3_600_000, instrument: 0 },
    maxTtl: { ...CACHE.maxTtl, info: 7_200_000 },
    staleIfError: 120_000,
    errors: "honor",
    forwardRequestHeaders: ["x-tenant"],
  });
  expect(config.upstreams[1]!.cache).toStrictEqual({
    ...CACHE,
    ttl: { ...CACHE.ttl, info: 3_600_000, instrument: 7_000 },
    staleIfError: 120_000,
  });
});

test.each([
  ["https://a.example", "https://a.example"],
  ["https://a.example/", "https://a.example"],
  ["https://a.example/registry", "https://a.example"],
  ["https://a.example/registry/", "https://a.example"],
  ["https://a.example//registry//", "https://a.example"],
  ["https://A.Example:443/", "https://a.example"],
  ["http://127.0.0.1:7001/registry/", "http://127.0.0.1:7001"],
  ["http://[::1]:7001/", "http://[::1]:7001"],
  ["https://x.example/api/v0", "https://x.example/api/v0"],
  ["https://x.example/api/v0/registry/", "https://x.example/api/v0"],
  ["https://x.example/my-registry/", "https://x.example/my-registry"],
  ["https://x.example/registry/registry/", "https://x.example/registry"],
  ["https://x.example/a%2Fb/DSO::1220ab/", "https://x.example/a%2Fb/DSO::1220ab"],
])("the node %s has the base %s", (url, base) => {
  expect(parse(`upstreams: [{ name: a, urls: ['${url}'] }]`).upstreams[0]!.urls).toEqual([base]);
});

test("text from the environment becomes the number, flag, duration or size that its key wants", () => {
  const env = { PORT: "8181", DOCS: "false", GRACE: "3s", MAX: "32MiB", HITS: "0.5", HOST: "a", P: "" };
  const config = parse(
    `
listen: { port: "\${PORT}" }
docs: \${DOCS}
shutdown: { grace: "\${GRACE}", timeout: "\${TIMEOUT:-1m}" }
cache: { memory: { maxBytes: "\${MAX}" } }
log: { hits: "\${HITS}", level: "\${LEVEL:-warn}" }
operations: { port: "\${P:-9191}", token: "a-\${HOST}-$\${HOST}" }
upstreams:
  - name: \${HOST}
    urls: ["https://\${HOST}.example:\${URL_PORT:-8443}/\${P:-x}"] # \${NOT_A_VALUE}
`,
    env,
  );
  expect(config.listen.port).toBe(8181);
  expect(config.docs).toBe(false);
  expect(config.shutdown).toEqual({ grace: 3_000, timeout: 60_000 });
  expect(config.cache.memory.maxBytes).toBe(32 * 2 ** 20);
  expect(config.log).toEqual({ hits: 0.5, level: "warn" });
  expect(config.operations).toMatchObject({ port: 9191, token: "a-a-${HOST}" });
  expect(config.upstreams[0]).toMatchObject({ name: "a", urls: ["https://a.example:8443/x"] });
});

test("a variable is text, whatever it holds: no reference and no YAML in it is looked at", () => {
  const token = 'a: {b} #c ${HOME} "quoted"';
  const config = parse(`operations: { token: "\${TOKEN}" }\n${A}`, { TOKEN: token });
  expect(config.operations.token).toBe(token);
});

test("keys that are off may say so, or stand without value, or come off from the environment", () => {
  const config = parse(
    `
listen:
redis: "\${REDIS:-off}"
aggregate: { adminId: off }
tracing: { endpoint: }
routing: { plain: off }
upstreams: [{ name: a, urls: ['https://a.example'], admin: off, rateLimit: off, auth: , tls: off }]
`,
  );
  expect(config).toStrictEqual({ ...parse(A), routing: { ...parse(A).routing, plain: "off" } });
});

test("files are taken from the folder of the configuration, whatever the working directory", () => {
  const file = join(folder, "with-files.yaml");
  for (const name of ["ca.pem", "client.pem", "client-key.pem"])
    copyFileSync(join(tlsFolder, name), join(folder, name));
  writeFileSync(join(folder, "redis-url"), "redis://r.example\n");
  writeFileSync(
    file,
    `
operations: { tokenFile: ./token }
redis: { urlFile: ${join(folder, "redis-url")}, tls: { caFile: ca.pem } }
upstreams:
  - name: a
    urls: ["https://a.example"]
    auth: { oauth2: { tokenUrl: "https://l.example/t?x=1", clientId: i, clientSecretFile: token } }
    tls: { certFile: client.pem, keyFile: client-key.pem }
`,
  );
  const config = loadConfig(file, {});
  const token = join(folder, "token");
  expect(config.operations.tokenFile).toBe(token);
  const [ca, cert, key] = ["ca.pem", "client.pem", "client-key.pem"].map((name) => join(folder, name));
  expect(config.redis).toMatchObject({ urlFile: join(folder, "redis-url"), tls: { caFile: ca } });
  expect(config.upstreams[0]!.tls).toEqual({ certFile: cert, keyFile: key });
  expect(config.upstreams[0]!.auth?.oauth2?.clientSecretFile).toBe(token);
  expect(readSecret(token)).toBe("s3cret");
});

test("a secret file that is empty is not read as a secret", () => {
  const file = join(folder, "blank");
  writeFileSync(file, " \n");
  expect(() => readSecret(file)).toThrow(/is empty/);
});

test("a default gives way to a smaller bound that the file sets", () => {
  const config = parse(
    "cache: { memory: { maxBytes: 1MiB } }\nupstreams: [{ name: a, urls: ['https://a.example'], timeout: 2s }]",
  );
  expect(config.cache.memory.maxObject).toBe(2 ** 20);
  expect(config.upstreams[0]!.attemptTimeout).toBe(2_000);
});

test('all headers are "*", alone in a list too', () => {
  const config = parse(`
cache: { forwardRequestHeaders: ["*"] }
upstreams:
  - { name: a, urls: ['https://a.example'] }
  - { name: b, urls: ['https://b.example'], cache: { forwardRequestHeaders: "*" } }
  - { name: c, urls: ['https://c.example'], cache: { forwardRequestHeaders: [] } }
`);
  expect(config.upstreams.map(({ cache }) => cache.forwardRequestHeaders)).toEqual(["*", "*", []]);
});

test("anchors and aliases stand for what they name", () => {
  const config = parse(`
upstreams:
  - { name: a, urls: ['https://a.example'], retry: &retry { attempts: 5, budget: 0.1 } }
  - { name: b, urls: ['https://b.example'], retry: *retry }
`);
  expect(config.upstreams[1]!.retry).toEqual({ attempts: 5, budget: 0.1 });
});

test("upstreams that share a name only in another case, or an admin's name only, are different", () => {
  const config = parse(`
upstreams:
  - { name: a, admin: "x::12", urls: ['https://a.example'] }
  - { name: A, admin: "X::12", urls: ['https://b.example'] }
`);
  expect(config.upstreams).toHaveLength(2);
});
