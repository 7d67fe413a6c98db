import { describe, expect, test } from "vitest";
import { useGateways } from "../support/gateways.ts";
import type { GatewayUnderTest } from "../support/gateway.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import type { SampleRegistry } from "../support/sample-registry.ts";
import { DSO } from "../support/sample.ts";
import { errorOf, type ReceivedAnswer, send } from "../support/send.ts";
import { thisReplica } from "../../src/version.ts";

const startRegistry = useSampleRegistries();
const startGateway = useGateways();

const LIST = "/metadata/v1/instruments";

async function startWell(keys: Record<string, unknown> = {}, operations: Record<string, unknown> = {}) {
  const registries = [await startRegistry(), await startRegistry()];
  const gateway = await startGateway({
    upstreams: [{ name: "amulet", admin: DSO, urls: registries.map(({ url }) => url), ...keys }],
    ...operations,
  });
  await expect.poll(() => gateway.gateway.upstreams().all[0]!.state).toBe("up");
  for (const { calls } of registries) calls.clear();
  return { ...gateway, registries };
}

const post = ({ operations }: Pick<GatewayUnderTest, "operations">, path: string, body: unknown, headers = {}) =>
  send(operations, { path, body: typeof body === "string" ? body : JSON.stringify(body), headers });

async function read(base: string, path: string): Promise<Record<string, unknown>> {
  const answer = await send(base, { path });
  expect(answer.status).toBe(200);
  return JSON.parse(answer.text) as Record<string, unknown>;
}

const callsOf = (registries: readonly SampleRegistry[]) => registries.map(({ calls }) => calls.count("instruments"));
const jsonOf = ({ text }: ReceivedAnswer) => JSON.parse(text) as Record<string, unknown>;

describe("an operator", () => {
  test("cordons a node, sees it everywhere, and undoes it", async () => {
    const gateway = await startWell({ cache: { ttl: { instruments: "0s" } } });
    const cordoned = await post(gateway, "/nodes", {
      upstream: "amulet",
      node: 0,
      state: "cordoned",
      for: "30m",
      reason: "new disk",
    });
    expect(cordoned.status).toBe(200);
    const action = {
      upstream: "amulet",
      node: 0,
      state: "cordoned",
      weight: null,
      mode: null,
      reason: "new disk",
      by: "no token",
      from: "loopback",
    };
    const replicas = { took: [expect.objectContaining({ name: thisReplica.name })], missing: [], of: 1 };
    expect(jsonOf(cordoned)).toMatchObject({ scope: "replica", action, replicas });
    for (let i = 0; i < 10; i++)
      await send(gateway.registrar(DSO), {
        path: `/api/token-standard/v0/registrars/amulet/registry${LIST}?pageSize=${i + 1}`,
      });
    expect(callsOf(gateway.registries)).toEqual([0, 10]);

    const status = await read(gateway.operations, "/status");
    expect(status).toMatchObject({
      inForce: [action],
      upstreams: [{ mode: "normal", nodes: [{ cordoned: true, weight: 1 }, { cordoned: false }] }],
    });
    const [{ since, until }] = status.inForce as [{ since: string; until: string }];
    expect(Date.parse(until) - Date.parse(since)).toBeGreaterThan(1_799_000);
    expect(Date.parse(until) - Date.parse(since)).toBeLessThan(1_801_000);
    const { text } = await send(gateway.operations, { path: "/metrics" });
    expect(text).toContain('registry_gateway_node_cordoned{upstream="amulet",node="0"} 1');
    expect(text).toContain('registry_gateway_node_cordoned{upstream="amulet",node="1"} 0');
    expect(text).toContain('registry_gateway_upstream_mode{upstream="amulet",mode="normal"} 1');

    expect((await post(gateway, "/nodes", { upstream: "amulet", node: 0, state: "active" })).status).toBe(200);
    expect(await read(gateway.operations, "/status")).toMatchObject({ inForce: [] });
    expect(await read(gateway.operations, "/audit")).toEqual({
      next: null,
      isShared: false,
      unreadable: 0,
      actions: [
        expect.objectContaining({
          did: "node",
          what: { upstream: "amulet", node: 0, state: "active" },
          scope: "replica",
        }),
        expect.objectContaining({
          did: "node",
          by: "no token",
          from: "loopback",
          what: expect.objectContaining({ for: "30m" }),
        }),
      ],
    });
    expect(gateway.lines.filter(({ msg }) => msg === "operator action")).toEqual([
      expect.objectContaining({
        did: "node",
        upstream: "amulet",
        node: 0,
        state: "cordoned",
        reason: "new disk",
        from: "loopback",
        reach: "replica",
      }),
      expect.objectContaining({ did: "node", upstream: "amulet", node: 0, state: "active" }),
    ]);
  });

  // It counted as ejected, and the alert whose runbook says to cordon it went on.
  test("cordons a node that is out, which is counted as cordoned then", async () => {
    const [registry, other] = [await startRegistry(), await startRegistry({ admin: `odd::1220${"c3".repeat(32)}` })];
    const gateway = await startGateway({
      upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url, other.url] }],
    });
    const counted = async () => {
      const { text } = await send(gateway.operations, { path: "/metrics" });
      const lines = text.matchAll(/^registry_gateway_upstream_nodes\{.*state="([a-z-]+)"\} 1$/gm);
      return [...lines].map(([, state]) => state!);
    };
    await expect.poll(counted).toEqual(["up", "wrong-admin"]);
    expect((await post(gateway, "/nodes", { upstream: "amulet", node: 1, state: "cordoned" })).status).toBe(200);
    expect(await counted()).toEqual(["up", "cordoned"]);
  });

  // Nodes were named by their place alone: after a reload another one was hit, and nothing said so.
  test("acts on the node that was seen, and on no other that has its place by now", async () => {
    const gateway = await startWell();
    const urls = gateway.registries.map(({ url }) => url);
    const cordon = (url: string) => post(gateway, "/nodes", { upstream: "amulet", node: 1, url, state: "cordoned" });
    const moved = await cordon(urls[0]!);
    expect([moved.status, moved.headers["registry-gateway-error"]]).toEqual([409, "node_moved"]);
    expect(errorOf(moved)).toContain(`node 1 of upstream "amulet" is ${urls[1]!} now`);
    expect(await read(gateway.operations, "/status")).toMatchObject({ inForce: [] });
    expect(jsonOf(await cordon(urls[1]!))).toMatchObject({ action: { node: 1, url: urls[1] } });
    // A log goes to more people than the configuration does.
    expect(gateway.lines.find(({ msg }) => msg === "operator action")).not.toHaveProperty("url");
  });

  test("cannot cordon the last node but by force", async () => {
    const gateway = await startWell();
    expect((await post(gateway, "/nodes", { upstream: "amulet", node: 1, state: "cordoned" })).status).toBe(200);
    const last = await post(gateway, "/nodes", { upstream: "amulet", node: 0, state: "cordoned" });
    expect(last.status).toBe(409);
    expect(last.headers["registry-gateway-error"]).toBe("last_node");
    expect(errorOf(last)).toContain('"force": true');
    expect(
      (await post(gateway, "/nodes", { upstream: "amulet", node: 0, state: "cordoned", force: true })).status,
    ).toBe(200);
    const answer = await send(gateway.url, { path: `/registry${LIST}` });
    expect(answer.status).toBe(503);
    expect(answer.headers["retry-after"]).toBe("30");
  });

  test("serves from the cache alone, however stale, and everything else is 503 with the reason", async () => {
    const gateway = await startWell({
      cache: { ttl: { instruments: "1s" }, staleWhileRevalidate: "0s", staleIfError: "0s" },
    });
    const path = `/registry${LIST}?pageSize=3`;
    const before = await send(gateway.url, { path });
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    for (const { calls } of gateway.registries) calls.clear();
    const body = { upstream: "amulet", mode: "cache-only", for: "10m", reason: "they migrate" };
    expect((await post(gateway, "/upstreams", body)).status).toBe(200);
    const stale = await send(gateway.url, { path });
    expect([stale.status, stale.text]).toEqual([200, before.text]);
    expect(stale.headers["cache-status"]).toMatch(/^registry-gateway; ?hit; ?ttl=-\d+; ?detail=cache-only$/);
    expect(Number(stale.headers.age)).toBeGreaterThan(0);
    for (const other of [`/registry${LIST}?pageSize=4`, "/registry/draft/v9/echo"]) {
      const refused = await send(gateway.url, { path: other });
      expect(refused.status).toBe(503);
      expect(errorOf(refused)).toContain("they migrate");
      expect(Number(refused.headers["retry-after"])).toBeGreaterThan(590);
      expect(refused.headers["registry-gateway-error"]).toBe("cache_only");
    }
    expect(gateway.registries.map(({ calls }) => calls.count("instruments") + calls.count("info"))).toEqual([0, 0]);
    expect(await read(gateway.operations, "/status")).toMatchObject({ upstreams: [{ mode: "cache-only" }] });
    expect((await post(gateway, "/upstreams", { upstream: "amulet", mode: "normal" })).status).toBe(200);
    const after = await send(gateway.url, { path });
    expect(after.headers["cache-status"]).not.toContain("cache-only");
  });

  test("is reminded every ten minutes of what is in force", async () => {
    const registry = await startRegistry();
    const clock = new ManualClock();
    const gateway = await startGateway(
      { upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url] }] },
      { clock },
    );
    await post(gateway, "/upstreams", { upstream: "amulet", mode: "cache-only", reason: "they migrate", for: "25m" });
    const reminders = () => gateway.lines.filter(({ msg }) => msg === "operator action in force");
    clock.advance(601_000);
    expect(reminders()).toEqual([
      expect.objectContaining({ upstream: "amulet", mode: "cache-only", reason: "they migrate" }),
    ]);
    clock.advance(600_000);
    expect(reminders()).toHaveLength(2);
    clock.advance(600_000);
    expect(reminders()).toHaveLength(2);
  });

  test("keeps what is in force over a reload, for what is still there", async () => {
    const gateway = await startWell();
    await post(gateway, "/nodes", { upstream: "amulet", node: 1, state: "cordoned" });
    const { config } = gateway.gateway;
    const [upstream] = config.upstreams;
    const [first, second] = upstream!.urls;
    await gateway.gateway.reload({ ...config, upstreams: [{ ...upstream!, urls: [second!, first!] }] });
    expect(await read(gateway.operations, "/status")).toMatchObject({
      inForce: [{ node: 0, state: "cordoned" }],
      upstreams: [{ nodes: [{ cordoned: true }, { cordoned: false }] }],
    });
    await gateway.gateway.reload({ ...config, upstreams: [{ ...upstream!, urls: [first!] }] });
    expect(await read(gateway.operations, "/status")).toMatchObject({ inForce: [] });
    const { text } = await send(gateway.operations, { path: "/metrics" });
    expect(text).not.toContain('node_cordoned{upstream="amulet",node="1"}');
  });

  test("shows a token, and it is named nowhere", async () => {
    const gateway = await startWell({}, { operations: { host: "127.0.0.1", port: 0, token: "a-secret-of-operators" } });
    const body = { upstream: "amulet", node: 0, state: "active", weight: 5 };
    expect((await post(gateway, "/nodes", body)).status).toBe(401);
    const headers = { authorization: "Bearer a-secret-of-operators" };
    const done = await post(gateway, "/nodes", body, headers);
    expect(jsonOf(done)).toMatchObject({ action: { weight: 5, by: "operations token", from: "loopback" } });
    const audit = await send(gateway.operations, { path: "/audit", headers });
    expect(JSON.parse(audit.text)).toMatchObject({ actions: [{ by: "operations token", what: body }] });
    expect(JSON.stringify(gateway.lines) + audit.text).not.toContain("a-secret-of-operators");
  });
});

describe("what is no action", () => {
  const node = { upstream: "amulet", node: 0, state: "cordoned" };
  const mode = { upstream: "amulet", mode: "cache-only" };
  test("is refused, and nothing is done", async () => {
    const gateway = await startWell();
    const cases: readonly (readonly [path: string, body: unknown, status: number])[] = [
      ["/nodes", { ...node, upstream: "nobody" }, 404],
      ["/nodes", { ...node, upstream: "__proto__" }, 404],
      ["/nodes", { ...node, node: 2 }, 404],
      ["/nodes", { ...node, node: -1 }, 400],
      ["/nodes", { ...node, node: "0" }, 400],
      ["/nodes", { ...node, node: 0.5 }, 400],
      ["/nodes", { ...node, state: "up" }, 400],
      ["/nodes", { upstream: "amulet", node: 0 }, 400],
      ["/nodes", { ...node, weight: 101 }, 400],
      ["/nodes", { ...node, weight: -1 }, 400],
      ["/nodes", { ...node, more: 1 }, 400],
      ["/nodes", { ...node, for: "soon" }, 400],
      ["/nodes", { ...node, for: "0s" }, 400],
      ["/nodes", { ...node, for: "721h" }, 400],
      ["/nodes", { ...node, for: 30 }, 400],
      ["/nodes", { ...node, state: "active", for: "30m" }, 400],
      ["/nodes", { ...node, reason: "" }, 400],
      ["/nodes", { ...node, reason: "x".repeat(201) }, 400],
      ["/nodes", { ...node, reason: "a\nb" }, 400],
      ["/nodes", { ...node, reason: "\u001b[2J" }, 400],
      ["/nodes", { ...node, reason: "a\u202eb" }, 400],
      ["/nodes", { ...node, force: "yes" }, 400],
      ["/nodes", [node], 400],
      ["/nodes", "null", 400],
      ["/nodes", "{", 400],
      ["/upstreams", { ...mode, upstream: "nobody" }, 404],
      ["/upstreams", { ...mode, mode: "off" }, 400],
      ["/upstreams", { ...mode, force: true }, 400],
      ["/upstreams", { ...mode, mode: "normal", for: "1m" }, 400],
      ["/upstreams", { upstream: "amulet" }, 400],
    ];
    for (const [path, body, status] of cases) {
      const answer = await post(gateway, path, body);
      expect([body, answer.status]).toEqual([body, status]);
      expect(errorOf(answer)).toMatch(/^registry-gateway: /);
    }
    expect((await post(gateway, "/nodes", node, { "content-type": "text/plain" })).status).toBe(415);
    expect((await post(gateway, "/nodes", node, { origin: "https://evil.example" })).status).toBe(403);
    expect(await read(gateway.operations, "/audit")).toMatchObject({ actions: [], next: null });
    expect(await read(gateway.operations, "/status")).toMatchObject({ inForce: [] });
  });
});

describe("a soft purge", () => {
  test("has what is stored served stale, and refreshed", async () => {
    const gateway = await startWell();
    const path = `/registry${LIST}?pageSize=3`;
    await send(gateway.url, { path });
    const answer = await post(gateway, "/purge", { upstream: "amulet", soft: true });
    expect([answer.status, jsonOf(answer)]).toEqual([
      200,
      { purged: { upstream: "amulet", soft: true }, scope: "replica", replicas: expect.objectContaining({ of: 1 }) },
    ]);
    const stale = await send(gateway.url, { path });
    expect(stale.headers["cache-status"]).toContain("detail=stale-while-revalidate");
    await expect.poll(async () => (await send(gateway.url, { path })).headers["cache-status"]).not.toContain("detail");
    expect(callsOf(gateway.registries).reduce((sum, each) => sum + each)).toBe(2);
    expect((await post(gateway, "/purge", { soft: 1 })).status).toBe(400);
    expect(await read(gateway.operations, "/audit")).toMatchObject({
      actions: [{ did: "purge", what: { soft: true } }],
    });
  });
});
