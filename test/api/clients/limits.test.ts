import { request } from "node:http";
import { describe, expect, test } from "vitest";
import { TestClock } from "../../support/clock.ts";
import { ACCEPT, DRAFT, LIST } from "../../support/endpoints.ts";
import { startGateway, temporaryFolder, useGateway, type Values } from "../../support/gateway.ts";
import { expectOwnError, type Request } from "../../support/http.ts";
import { keyLine, newKey, writeKeys } from "../../support/keys.ts";
import { startRegistry } from "../../support/registry.ts";
import { until } from "../../support/until.ts";

const KEYS = { one: newKey(), two: newKey() };

const clock = TestClock.standing();
const serve = useGateway(clock);

async function start(tiers: Record<string, object>, begin = serve) {
  const amulet = await startRegistry("amulet");
  const folder = temporaryFolder();
  const keysFile = writeKeys(folder, [keyLine(KEYS.one, "one", "wallet"), keyLine(KEYS.two, "two", "wallet")]);
  const clients = { keysFile, tiers: { anonymous: {}, wallet: {}, ...tiers } };
  const values = { upstreams: [amulet], clients };
  const gateway = await begin(values);
  const by = (key?: string) => (sent: Request) =>
    gateway.send({ ...sent, headers: { ...(key !== undefined && { "x-api-key": key }), ...sent.headers } });
  return { amulet, gateway, values, one: by(KEYS.one), two: by(KEYS.two), anonymous: by() };
}

describe("a client that has sent what its tier allows in a window", () => {
  test("is refused at once, is told when to come back, and costs the registry nothing", async () => {
    const { amulet, one } = await start({ wallet: { requests: "5/1m" } });
    for (let left = 4; left >= 0; left -= 1) {
      const answer = await one({ path: LIST });
      expect(answer.status).toBe(200);
      expect(answer.headers["ratelimit"]).toMatch(new RegExp(`r=${left}\\b`));
      expect(answer.headers["ratelimit-policy"]).toMatch(/q=5.*w=60/);
    }
    clock.advance("20s");
    amulet.calls.length = 0;
    for (const sent of [
      { path: LIST },
      { path: ACCEPT, body: "{}" },
      { path: DRAFT },
      { path: "/" },
      { path: "/no/such/path" },
    ]) {
      const answer = await one(sent);
      expectOwnError(answer, 429, "client_rate_limited");
      expect(Number(answer.headers["retry-after"])).toBeGreaterThanOrEqual(40);
      expect(Number(answer.headers["retry-after"])).toBeLessThanOrEqual(43);
      expect(answer.headers["ratelimit"]).toMatch(/r=0\b/);
      expect(answer.error).toContain("wallet");
    }
    expect(amulet.asked).toEqual([]);
    clock.advance("44s");
    expect((await one({ path: LIST })).status).toBe(200);
  });

  test("slides: what was sent a window ago is free again, and nothing before it", async () => {
    const { one } = await start({ wallet: { requests: "4/1m" } });
    const seen: number[] = [];
    for (const span of ["0s", "20s", "20s", "10s", "5s", "8s", "1s", "19s"]) {
      clock.advance(span);
      seen.push((await one({ path: LIST })).status);
    }
    // At 0, 20, 40, 50 four; at 55 refused; at 63 the first is a minute ago, at 83 the second.
    expect(seen).toEqual([200, 200, 200, 200, 429, 200, 429, 200]);
  });

  test("leaves the others theirs: each key, and each address without one", async () => {
    const { one, two, anonymous } = await start({ wallet: { requests: "2/1m" }, anonymous: { requests: "3/1m" } });
    const statuses = async (ask: typeof one) => {
      const all = [];
      for (let round = 0; round < 4; round += 1) all.push((await ask({ path: LIST })).status);
      return all;
    };
    expect(await statuses(one)).toEqual([200, 200, 429, 429]);
    expect(await statuses(two)).toEqual([200, 200, 429, 429]);
    expect(await statuses(anonymous)).toEqual([200, 200, 200, 429]);
  });

  test("is told apart by the address that a trusted proxy names", async () => {
    const listen = { trustedProxies: ["127.0.0.1"] };
    const begin = (values: Values) => startGateway({ ...values, listen }, { clock });
    const { anonymous } = await start({ anonymous: { requests: "1/1m" } }, begin);
    const from = async (address: string) =>
      (await anonymous({ path: LIST, headers: { "x-forwarded-for": address } })).status;
    expect(await from("192.0.2.1")).toBe(200);
    expect(await from("192.0.2.2")).toBe(200);
    expect(await from("192.0.2.1")).toBe(429);
    // What a client writes before the proxy's own word counts for nothing.
    expect(await from("6.6.6.6, 192.0.2.2")).toBe(429);
    expect(await from("2001:db8:1:2::1")).toBe(200);
    expect(await from("2001:db8:1:2::2")).toBe(429);
    expect(await from("2001:db8:1:3::1")).toBe(200);
  });

  // Each port was a client of its own, with a limit of its own.
  test.each(["192.0.2.1", "[2001:db8::1]"])(
    "is the same one from every port that a proxy writes, as %s:1",
    async (is) => {
      const begin = (values: Values) =>
        startGateway({ ...values, listen: { trustedProxies: ["127.0.0.1"] }, log: { addresses: true } }, { clock });
      const { anonymous, gateway } = await start({ anonymous: { requests: "1/1m" } }, begin);
      const statuses: number[] = [];
      for (const address of [`${is}:1`, `${is}:65535`, is])
        statuses.push((await anonymous({ path: LIST, headers: { "x-forwarded-for": address } })).status);
      expect(statuses).toEqual([200, 429, 429]);
      const logged = new Set(gateway.requestLines.map(({ address }) => address));
      expect(logged).toEqual(new Set([is.replace(/[[\]]/g, "")]));
    },
  );

  test("preflights, probes and the docs do not count", async () => {
    const { anonymous, gateway } = await start({ anonymous: { requests: "1/1m" } });
    expect((await anonymous({ path: LIST })).status).toBe(200);
    const headers = { origin: "https://wallet.example", "access-control-request-method": "GET" };
    expect((await anonymous({ method: "OPTIONS", path: LIST, headers })).status).toBe(204);
    expect((await gateway.get("/docs/")).status).toBe(200);
    expect((await anonymous({ path: LIST })).status).toBe(429);
  });

  test("keeps its count over a reload", async () => {
    const { one, gateway, values } = await start({ wallet: { requests: "2/1m" } });
    for (let round = 0; round < 2; round += 1) expect((await one({ path: LIST })).status).toBe(200);
    gateway.reload({ ...values, cors: { origins: ["https://a.example"] } });
    expect((await one({ path: LIST })).status).toBe(429);
  });

  test("has no fields where its tier has no limit", async () => {
    const { one } = await start({});
    expect((await one({ path: LIST })).headers["ratelimit"]).toBeUndefined();
  });
});

describe("calls of one client at once", () => {
  test("beyond what its tier allows are 429, and a place is free again when a call ends", async () => {
    const { amulet, gateway, one, two } = await start({ wallet: { concurrency: 2 } });
    expect((await one({ path: LIST })).status).toBe(200);
    const release = amulet.hold("transfer_accept");
    const running = [one({ path: ACCEPT, body: "{}" }), one({ path: ACCEPT, body: "{}" })];
    await amulet.reached(3);
    for (const sent of [{ path: ACCEPT, body: "{}" }, { path: DRAFT }, { path: `${LIST}/other` }]) {
      const answer = await one(sent);
      expectOwnError(answer, 429, "client_concurrency");
      expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
    }
    // A hit costs no place.
    expect((await one({ path: LIST })).cache).toBe("hit");
    const others = two({ path: ACCEPT, body: "{}" });
    await amulet.reached(4);
    release();
    for (const answer of [...running, others]) expect((await answer).status).toBe(200);
    expect((await one({ path: ACCEPT, body: "{}" })).status).toBe(200);
    const refusals = { name: "registry_gateway_client_refusals_total", label: 'code="client_concurrency"' };
    expect(await gateway.operations.metric(refusals.name, refusals.label)).toBe(3);
  });

  test("a client that goes gives its place back", async () => {
    const { amulet, gateway, one } = await start({ wallet: { concurrency: 1 } });
    amulet.on("transfer_accept", "hang");
    const { hostname, port } = new URL(gateway.url);
    const headers = { "x-api-key": KEYS.one, "content-type": "application/json" };
    const sent = request({ hostname, port, path: ACCEPT, method: "POST", headers, agent: false });
    sent.on("error", () => undefined);
    sent.end("{}");
    await amulet.reached(1);
    expect((await one({ path: ACCEPT, body: "{}" })).status).toBe(429);
    sent.destroy();
    amulet.on("transfer_accept", undefined);
    await until(async () => (await one({ path: ACCEPT, body: "{}" })).status === 200);
  });

  test("150 at once by key over one listener are 150 answers", async () => {
    const { one } = await start({ wallet: {} });
    const answers = await Promise.all(Array.from({ length: 150 }, () => one({ path: ACCEPT, body: "{}" })));
    expect(new Set(answers.map(({ outcome }) => outcome))).toEqual(new Set(["200"]));
  });
});
