import { describe, expect, test } from "vitest";
import { TestClock } from "../../support/clock.ts";
import { CANCEL, LIST } from "../../support/endpoints.ts";
import { startGateway, useGateway } from "../../support/gateway.ts";
import { send } from "../../support/http.ts";
import { startRegistry } from "../../support/registry.ts";
import { until } from "../../support/until.ts";

const TOKENS = [
  { name: "ops", token: "operator-token-0001" },
  { name: "viewer", token: "viewer-token-000001", readonly: true },
];
const basic = (name: string, token: string): string => `Basic ${Buffer.from(`${name}:${token}`).toString("base64")}`;

describe("readiness", () => {
  test("comes when a node of some registry has named its admin, and stays when registries go", async () => {
    const amulet = await startRegistry("amulet");
    const release = amulet.hold("info");
    const clock = TestClock.standing();
    const gateway = await startGateway({ upstreams: [amulet] }, { clock });
    const ready = async () => (await gateway.operations.get("/readyz")).status;
    expect(await ready()).toBe(503);
    expect((await gateway.operations.get("/livez")).status).toBe(200);
    release();
    await until(async () => (await ready()) === 200);
    await amulet.close();
    expect((await gateway.post(CANCEL)).status).toBeGreaterThan(500);
    expect(await ready()).toBe(200);
  });

  test("comes after 5 s where none does", async () => {
    const amulet = await startRegistry("amulet");
    await amulet.close();
    const clock = TestClock.standing();
    const gateway = await startGateway({ upstreams: [amulet] }, { clock });
    expect((await gateway.operations.get("/readyz")).status).toBe(503);
    clock.advance("5s");
    expect((await gateway.operations.get("/readyz")).status).toBe(200);
  });
});

const serve = useGateway();

describe("with tokens", () => {
  const start = async () => {
    const amulet = await startRegistry("amulet");
    return serve({ operations: { tokens: TOKENS }, upstreams: [amulet] });
  };

  test("all but probes and metrics needs one, as Basic or Bearer", async () => {
    const { operations } = await start();
    for (const path of ["/livez", "/readyz", "/metrics"]) expect((await operations.get(path)).status).toBe(200);
    for (const path of ["/status", "/requests", "/clients", "/config", `/explain?path=${LIST}`]) {
      expect([path, (await operations.get(path)).status]).toEqual([path, 401]);
      for (const authorization of [
        `Bearer ${TOKENS[0]!.token}`,
        basic("ops", TOKENS[0]!.token),
        basic("viewer", TOKENS[1]!.token),
      ]) {
        expect([path, (await operations.get(path, { authorization })).status]).toEqual([path, 200]);
      }
      for (const authorization of ["Bearer wrong", basic("ops", TOKENS[1]!.token), basic("nobody", TOKENS[0]!.token)]) {
        expect([path, (await operations.get(path, { authorization })).status]).toEqual([path, 401]);
      }
    }
  });

  test("a readonly one purges nothing; a page of another origin is 403", async () => {
    const { operations, lines } = await start();
    const purge = (headers: Record<string, string>) =>
      operations.post("/purge", "{}", headers).then(({ status }) => status);
    expect(await purge({})).toBe(401);
    expect(await purge({ authorization: `Bearer ${TOKENS[1]!.token}` })).toBe(403);
    const authorization = `Bearer ${TOKENS[0]!.token}`;
    expect(await purge({ authorization, origin: "https://evil.example" })).toBe(403);
    expect(await purge({ authorization, "sec-fetch-site": "cross-site" })).toBe(403);
    expect(await purge({ authorization })).toBe(200);
    const told = lines.filter(({ msg }) => /purge/i.test(String(msg)));
    expect(JSON.stringify(told)).toContain('"ops"');
    expect(JSON.stringify(lines)).not.toContain(TOKENS[0]!.token);
  });

  test("another Host than its own is 421", async () => {
    const gateway = await serve({ operations: { hosts: ["ops.example"] }, upstreams: [await startRegistry()] });
    const { url } = gateway.operations;
    const by = async (host: string, path = "/status") => (await send(url, { path, headers: { host } })).status;
    for (const host of ["localhost", "127.0.0.1:9", "[::1]", "ops.example", "ops.example:9090"])
      expect(await by(host)).toBe(200);
    for (const host of ["evil.example", "localhost.evil.example"]) expect(await by(host)).toBe(421);
    for (const path of ["/livez", "/metrics"]) expect(await by("evil.example", path)).toBe(200);
  });
});

test("what the operations listener shows of requests has neither queries nor secrets, and hits by their share", async () => {
  const amulet = await startRegistry("amulet");
  const upstream = amulet.upstream({ auth: { bearer: "s3cret-of-the-upstream" } });
  const gateway = await serve({ upstreams: [upstream] });
  await gateway.get(`${LIST}?pageToken=&x=s3cret-in-a-query`);
  await gateway.get(LIST);
  for (let round = 0; round < 5; round += 1) await gateway.get(LIST);
  await gateway.post(CANCEL);
  const { json, text } = await gateway.operations.get("/requests");
  expect((json.requests as { operation?: string }[]).map(({ operation }) => operation)).toEqual(
    expect.arrayContaining(["allocation_cancel", "instruments"]),
  );
  expect(gateway.lines.filter(({ outcome }) => outcome === "hit")).toEqual([]);
  const told = await Promise.all(
    ["/config", "/status", "/metrics"].map(async (path) => (await gateway.operations.get(path)).text),
  );
  expect(text + told.join("") + JSON.stringify(gateway.lines)).not.toContain("s3cret");
});

test("metrics count requests by operation, upstream and status, errors by code, and answers of the cache", async () => {
  const amulet = await startRegistry("amulet");
  const gateway = await startGateway({ upstreams: [amulet] });
  await gateway.get(LIST);
  for (let round = 0; round < 3; round += 1) await gateway.get(LIST);
  await gateway.get("/nothing");
  const { operations } = gateway;
  const of = (name: string, ...labels: string[]) => operations.metric(`registry_gateway_${name}`, ...labels);
  expect(await of("requests_total", 'operation="instruments"', 'upstream="amulet"', 'status="2xx"')).toBe(4);
  expect(await of("errors_total", 'code="no_such_path"')).toBe(1);
  expect(await of("cache_answers_total", 'outcome="hit"', 'operation="instruments"')).toBe(3);
  expect(await of("cache_answers_total", 'outcome="miss"', 'operation="instruments"')).toBe(1);
  const { text } = await operations.get("/metrics");
  expect(text).not.toContain(amulet.admin);
  expect(text).not.toMatch(/AMULET-0/);
});
