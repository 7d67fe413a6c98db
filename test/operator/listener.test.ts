import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { CacheExplanation } from "../../src/cache/types.ts";
import { loadConfig } from "../../src/config/load.ts";
import { GatewayError } from "../../src/errors.ts";
import { createLog } from "../../src/observe/log.ts";
import { Metrics } from "../../src/observe/metrics.ts";
import { RecentRequests } from "../../src/observe/recent-requests.ts";
import { createOperations } from "../../src/operations/listener.ts";
import { Readiness } from "../../src/operations/readiness.ts";
import type { Status } from "../../src/operations/types.ts";
import type { MetadataRequest } from "../../src/registry/registry.ts";
import type { Snapshot } from "../../src/requests/snapshot.ts";
import { anUpstream, aState } from "../rules/observe/states.ts";
import { TestClock } from "../support/clock.ts";
import { atEnd } from "../support/closing.ts";
import { Site } from "../support/http.ts";
import { until } from "../support/until.ts";

const TOKENS = [
  { name: "ops", token: "ops-token-0123456789" },
  { name: "viewer", token: "viewer-token-012345", readonly: true },
];
const OPS = { authorization: "Bearer ops-token-0123456789" };
const VIEWER = { authorization: "Bearer viewer-token-012345" };

const PARTY = "DSO::1220aa";

/** The console as it is built: a page, and a script beside it. */
function consoleFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "console-"));
  mkdirSync(join(folder, "assets"));
  writeFileSync(join(folder, "index.html"), "<!doctype html><title>Registry Gateway</title>");
  writeFileSync(join(folder, "assets/main.js"), "export {};");
  writeFileSync(join(folder, ".secret"), "secret");
  atEnd(() => rmSync(folder, { recursive: true }));
  return folder;
}

interface Given {
  readonly operations?: object;
  readonly upstreams?: readonly object[];
  readonly routing?: object;
  readonly purge?: "done" | "pending";
  readonly isUp?: boolean;
  readonly explanation?: Partial<CacheExplanation>;
}

/** The operations listener over HTTP; what lies behind it are stubs. */
async function start(given: Given = {}) {
  const { operations = {}, upstreams = [{ name: "amulet" }], routing = {}, purge = "done", isUp = true } = given;
  const listed = upstreams.map((each) => Object.assign({ admin: PARTY, urls: ["https://a.example"] }, each));
  const values = { operations, routing, upstreams: listed };
  const loaded = loadConfig({ values, folder: tmpdir() }, {});
  const state = aState({ upstreams: [anUpstream({ nodes: [{ state: isUp ? "up" : "out" }] })] });
  const stubs = loaded.config.upstreams.map(({ name, admin }) => ({
    name,
    admin,
    learnAdmin: async () => {
      if (admin !== undefined) return admin;
      throw new GatewayError("upstream_unreachable", "refused the connection");
    },
    status: () => state.upstreams[0],
  }));
  const asked: MetadataRequest[] = [];
  const explain = async (request: MetadataRequest) => {
    asked.push(request);
    return { party: PARTY, name: "info", epoch: 1, entries: [], isFetching: false, ...given.explanation };
  };
  const snapshot = {
    loaded,
    upstreams: {
      all: stubs,
      byName: (name: string) => stubs.find((each) => each.name === name),
      byAdmin: (party: string) => stubs.find((each) => each.admin === party),
      sole: stubs.length === 1 ? stubs[0] : undefined,
    },
    registries: new Map(stubs.map(({ name }) => [name, { explain }])),
    clients: undefined,
  } as unknown as Snapshot;
  const lines: Record<string, unknown>[] = [];
  const { log } = createLog(
    { level: "info", hits: 0, addresses: false },
    { write: (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>) },
  );
  const clock = TestClock.standing();
  const lifecycle = { isDraining: false };
  const isDraining = () => lifecycle.isDraining;
  const purged: (string | undefined)[] = [];
  const metrics = new Metrics();
  const recent = new RecentRequests();
  const app = await createOperations({
    snapshot: () => snapshot,
    state: () => state,
    readiness: new Readiness({ clock, upstreams: () => snapshot.upstreams, isDraining }),
    isDraining,
    sharing: {
      purges: {
        epochOf: () => 0,
        purge: async (party?: string) => {
          purged.push(party);
          return purge;
        },
      },
    },
    metrics,
    recent,
    log,
    clock,
    console: consoleFolder(),
  });
  atEnd(() => app.close());
  const site = new Site(await app.listen({ host: "127.0.0.1", port: 0 }));
  return { site, lines, purged, asked, metrics, recent, clock, lifecycle };
}

describe("probes", () => {
  it("say that the process lives, whatever its registries are", async () => {
    const { site } = await start({ isUp: false, operations: { tokens: TOKENS } });
    expect((await site.get("/livez")).status).toBe(200);
  });

  it("say ready when a node of some registry is up", async () => {
    const { site } = await start();
    const answer = await site.get("/readyz");
    expect([answer.status, answer.json]).toEqual([200, { ready: true }]);
  });

  it("say ready after 5 s without any registry, and unready while draining", async () => {
    const { site, clock, lifecycle } = await start({ isUp: false });
    expect((await site.get("/readyz")).status).toBe(503);
    clock.advance("5s");
    expect((await site.get("/readyz")).status).toBe(200);
    lifecycle.isDraining = true;
    expect([(await site.get("/readyz")).status, (await site.get("/livez")).status]).toEqual([503, 200]);
  });

  it("and metrics need no token and no name", async () => {
    const { site } = await start({ operations: { tokens: TOKENS } });
    for (const path of ["/livez", "/readyz", "/metrics"]) {
      expect((await site.get(path, { host: "10.0.0.7.nip.example" })).status, path).toBe(200);
    }
    const metrics = await site.get("/metrics");
    expect(metrics.headers["content-type"]).toMatch(/^text\/plain/);
    expect(metrics.text).toContain("registry_gateway_build_info");
  });
});

describe("what operators look at", () => {
  it("is the status, with the same sentence everywhere", async () => {
    const { site } = await start();
    const status = (await site.get("/status")).json as Status;
    expect(status).toMatchObject({
      version: expect.stringMatching(/^\d+\.\d+\.\d+$/) as string,
      digest: "aaaaaaaaaaaa",
      isReady: true,
      isDraining: false,
      health: { level: "well", sentence: "All is well: 1 registry." },
      totals: { requests: 0 },
      upstreams: [{ name: "amulet", state: "up", totals: { attempts: 0 } }],
    });
  });

  it("is the configuration without secrets", async () => {
    const { site } = await start({ operations: { tokens: TOKENS } });
    const { text, status } = await site.get("/config", VIEWER);
    expect(status).toBe(200);
    expect(text).toContain("amulet");
    expect(text).not.toContain("token-0123");
  });

  it("is the last requests and the clients", async () => {
    const { site, recent } = await start();
    recent.add({ at: "", requestId: "r-1", method: "GET", path: "/", status: 404, ms: 1, bytes: 0 });
    expect((await site.get("/requests")).json).toEqual({
      requests: [{ at: "", requestId: "r-1", method: "GET", path: "/", status: 404, ms: 1, bytes: 0 }],
    });
    expect((await site.get("/clients")).json).toEqual({ isConfigured: false, clients: [] });
  });

  it("is kept by nobody and taken for nothing else", async () => {
    const { site } = await start();
    for (const path of ["/status", "/console/", "/nothing"]) {
      const { headers } = await site.get(path);
      expect(headers, path).toMatchObject({
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
      });
      expect(headers["content-security-policy"]).toMatch(/default-src 'none'; script-src 'self'; style-src 'self';/);
      expect(headers["content-security-policy"]).not.toContain("unsafe");
    }
  });
});

describe("the console", () => {
  it("is a folder of files, and where / leads", async () => {
    const { site } = await start();
    const root = await site.get("/");
    expect([root.status, root.headers.location]).toEqual([302, "/console/"]);
    expect((await site.get("/console/")).text).toContain("<title>");
    expect((await site.get("/console")).headers.location).toBe("/console/");
    const script = await site.get("/console/assets/main.js");
    expect(script.headers["content-type"]).toMatch(/javascript/);
  });

  it.each(["/console/.secret", "/console/../package.json", "/console/%2e%2e/package.json", "/console/none.js"])(
    "has nothing at %s",
    async (path) => {
      const { site } = await start();
      const answer = await site.get(path);
      expect([answer.status, answer.code]).toEqual([404, "no_such_path"]);
    },
  );

  it("asks its user by Basic, which its own calls carry then", async () => {
    const { site } = await start({ operations: { tokens: TOKENS } });
    const refused = await site.get("/console/");
    expect([refused.status, refused.headers["www-authenticate"]]).toEqual([
      401,
      'Basic realm="registry-gateway", charset="UTF-8", Bearer',
    ]);
    const authorization = `Basic ${Buffer.from("ops:ops-token-0123456789").toString("base64")}`;
    expect((await site.get("/console/", { authorization })).status).toBe(200);
    expect((await site.post("/purge", "{}", { authorization, origin: site.url })).status).toBe(200);
    expect((await site.post("/purge", "{}", { authorization, origin: "https://evil.example" })).status).toBe(403);
  });
});

describe("a purge", () => {
  it("of a registry goes by its admin, and one log line says who did it and from where", async () => {
    const { site, purged, lines, metrics } = await start({ operations: { tokens: TOKENS } });
    const answer = await site.post("/purge", '{"upstream": "amulet"}', OPS);
    expect([answer.status, answer.json]).toEqual([200, { purged: "amulet" }]);
    expect(purged).toEqual([PARTY]);
    expect(lines).toEqual([
      expect.objectContaining({ msg: "purged", upstream: "amulet", by: "ops", from: "127.0.0.1", outcome: "done" }),
    ]);
    expect(await metrics.text(aState())).toContain('purges_total{outcome="done"} 1');
  });

  it("of everything is {}", async () => {
    const { site, purged } = await start();
    expect((await site.post("/purge", "{}")).json).toEqual({ purged: null });
    expect(purged).toEqual([undefined]);
  });

  it("says so when other replicas learn of it later", async () => {
    const { site, lines } = await start({ purge: "pending" });
    const answer = await site.post("/purge", "{}");
    expect([answer.status, answer.code]).toEqual([503, "purge_pending"]);
    expect(answer.error).toContain("Redis is away");
    expect(lines[0]).toMatchObject({ msg: "purged", outcome: "pending" });
  });

  it.each([
    { body: "", is: "400 invalid_request" },
    { body: "null", is: "400 invalid_request" },
    { body: "[]", is: "400 invalid_request" },
    { body: "{", is: "400 invalid_request" },
    { body: '{"upstream": 1}', is: "400 invalid_request" },
    { body: '{"upstream": null}', is: "400 invalid_request" },
    { body: '{"endpoint": "info"}', is: "400 invalid_request" },
    { body: '{"upstream": "amulet", "soft": true}', is: "400 invalid_request" },
    { body: '{"upstream": "amulet", "upstream": "amulet"}', is: "400 invalid_request" },
    { body: '{"upstream": "other"}', is: "404 unknown_upstream" },
    { body: '{"upstream": "unlearned"}', is: "503 admin_not_known_yet" },
    { body: `{"upstream": "${"x".repeat(20_000)}"}`, is: "413 body_too_large" },
    { body: "{}", type: "text/plain", is: "415 unsupported_media_type" },
    { body: "upstream=amulet", type: "application/x-www-form-urlencoded", is: "415 unsupported_media_type" },
  ])("that is no purge, $body $type, does nothing: $is", async ({ body, type = "application/json", is }) => {
    const { site, purged, lines } = await start({
      upstreams: [{ name: "amulet" }, { name: "unlearned", admin: undefined }],
    });
    const answer = await site.post("/purge", body, { "content-type": type });
    expect(answer.outcome).toBe(is);
    expect(answer.json).toMatchObject({ code: answer.code, requestId: answer.headers["x-request-id"] });
    expect([purged, lines]).toEqual([[], []]);
  });

  it("is not for operators who may read alone, nor for strangers", async () => {
    const { site, purged } = await start({ operations: { tokens: TOKENS } });
    expect((await site.post("/purge", "{}", VIEWER)).outcome).toBe("403 forbidden");
    expect((await site.post("/purge", "{}")).outcome).toBe("401 unauthenticated");
    expect(purged).toEqual([]);
  });
});

describe("explain", () => {
  const entry = {
    tier: "memory",
    use: "fresh",
    status: 200,
    bytes: 120,
    etag: '"a"',
    age: 5_000,
    freshFor: 25_000,
    refreshFor: 55_000,
    errorFor: 625_000,
    hasValidators: true,
  } as const;
  const explain = async (path: string, given: Given = {}) => {
    const { site, asked } = await start(given);
    const answer = await site.get(`/explain?path=${encodeURIComponent(path)}`);
    return { answer, asked, text: (answer.status === 200 ? (answer.json as { text: string[] }).text : []).join(" ") };
  };
  const prefix = "/api/token-standard/v0/registrars";

  it.each([
    { what: "nothing stored", explanation: {}, text: /^The next request asks the registry: nothing is stored\.$/ },
    { what: "a fresh entry", explanation: { entries: [entry] }, text: /from memory, for another 25 s.*5 s old, fresh/ },
    {
      what: "a stale one in Redis",
      explanation: { entries: [{ ...entry, tier: "redis", use: "stale-while-revalidate", freshFor: -5_000 } as const] },
      text: /from Redis, stale, while the registry is asked; so for another 55 s\. In Redis: .* stale for 5 s/,
    },
    {
      what: "one for failures alone",
      explanation: { entries: [{ ...entry, use: "stale-if-error", freshFor: -5_000 } as const] },
      text: /If that fails, it is answered from memory, stale; so for another 10 min 25 s/,
    },
    {
      what: "one for failures after a failure",
      explanation: { entries: [{ ...entry, use: "stale-if-error", freshFor: -5_000 } as const], retryIn: 1_000 },
      text: /from memory, stale, while the registry fails; so for another 10 min 25 s.*next try is in 1 s/,
    },
    {
      what: "a purged one",
      explanation: { entries: [{ ...entry, use: "purged" } as const], isFetching: true },
      text: /not used any more.*purged.*being asked now/,
    },
  ])("says what becomes of the next request with $what", async ({ explanation, text }) => {
    const { text: said } = await explain("/registry/metadata/v1/info", { explanation });
    expect(said).toMatch(text);
  });

  it.each([
    { path: `${prefix}/amulet/registry/metadata/v1/info`, asked: { operation: "info" } },
    { path: `${prefix}/DSO%3A%3A1220aa/registry/metadata/v1/info`, asked: { operation: "info" } },
    { path: `https://gateway.example${prefix}/amulet/registry/metadata/v1/info`, asked: { operation: "info" } },
    { path: "/registry/metadata/v1/instruments/Amulet%2FUSD", asked: { operation: "instrument", id: "Amulet/USD" } },
    { path: "/registry/metadata/v1/instruments?pageSize=10&x=1", asked: { operation: "instruments", pageSize: "10" } },
  ])("takes $path for what it is", async ({ path, asked: wanted }) => {
    const { asked, answer } = await explain(path);
    expect(answer.json).toMatchObject({ upstream: "amulet", admin: PARTY, operation: wanted.operation });
    expect(asked).toEqual([wanted]);
  });

  it.each([
    { path: "/registry/transfer-instruction/v1/transfer-factory", text: /each request is a call/ },
    { path: "/registry/drafts/v0/anything", text: /passed through/ },
    { path: "/api/utilities/v0/operator", text: /passed through/ },
    { path: "/api/utilities/v0/registry/burn", text: /passed through/ },
  ])("says of $path that nothing is kept", async ({ path, text }) => {
    const { text: said, asked } = await explain(path, {
      upstreams: [
        { name: "amulet", extraPaths: ["/api/utilities/v0/operator", "POST /api/utilities/v0/registry/burn"] },
      ],
    });
    expect(said).toMatch(text);
    expect(asked).toEqual([]);
  });

  it.each([
    { path: "/nothing", is: "404 no_such_path" },
    { path: `${prefix}/nobody/registry/metadata/v1/info`, is: "404 unknown_upstream" },
    { path: "/registry/metadata/v1/info", is: "400 admin_missing", two: true },
    { path: "/registry/metadata/v1/instruments/%2e%2e", is: "400 malformed_path" },
    { path: "/registry/metadata/v1/instruments?pageSize=0", is: "400 invalid_query" },
  ])("refuses $path as $is", async ({ path, is, two = false }) => {
    const upstreams = [{ name: "amulet" }, ...(two ? [{ name: "gold", admin: "GOLD::1220bb" }] : [])];
    expect((await explain(path, { upstreams })).answer.outcome).toBe(is);
  });

  it("asks for a path, once", async () => {
    const { site } = await start();
    expect((await site.get("/explain")).outcome).toBe("400 invalid_query");
    expect((await site.get("/explain?path=/a&path=/b")).outcome).toBe("400 invalid_query");
  });
});

describe("the listener", () => {
  it.each([
    { path: "/audit", is: "404 no_such_path" },
    { path: "/status%ff", is: "400 malformed_path" },
    { method: "POST", path: "/status", is: "404 no_such_path" },
    { path: "/status", headers: { host: "evil.example" }, is: "421 misdirected_request" },
    { path: "/nothing", headers: { host: "evil.example" }, is: "421 misdirected_request" },
  ])("answers $method $path $headers with $is, in the form of every error", async ({ is, ...request }) => {
    const { site } = await start();
    const answer = await site.send(request);
    expect(answer.outcome).toBe(is);
    expect(answer.error).toMatch(/^registry-gateway: /);
  });

  it("writes no line of a request that its client breaks off", async () => {
    const { site, lines } = await start();
    const { port } = new URL(site.url);
    const socket = connect(Number(port), "127.0.0.1");
    socket.on("error", () => undefined);
    socket.write(
      "POST /purge HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{",
    );
    await new Promise((resolve) => socket.once("connect", resolve));
    expect((await site.get("/livez")).status).toBe(200);
    socket.resetAndDestroy();
    await until(() => socket.destroyed);
    expect((await site.get("/livez")).status).toBe(200);
    expect(lines).toEqual([]);
  });
});
