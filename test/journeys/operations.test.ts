import { ENDPOINTS, endpointPath, isOfVersion2 } from "../../src/spec/endpoints.ts";
import { describe, expect, test } from "vitest";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { DSO } from "../support/sample.ts";
import { useGateways } from "../support/gateways.ts";
import { errorOf, type ReceivedAnswer, send } from "../support/send.ts";
import { ADMINS, REGISTRY_NAMES, type RegistryName, useThreeRegistries } from "../support/three-registries.ts";
import { thisReplica } from "../../src/version.ts";

const running = useThreeRegistries();

const base = (name: RegistryName): string => `/api/token-standard/v0/registrars/${name}/registry`;
const resources = (name: RegistryName): string[] => {
  const [first, second] = running().registries[name].catalogue.list();
  const list = `${base(name)}/metadata/v1/instruments`;
  return [
    `${base(name)}/metadata/v1/info`,
    `${list}?pageSize=7`,
    `${list}/${encodeURIComponent(first!.id)}`,
    `${list}/${encodeURIComponent(second!.id)}`,
  ];
};

async function json(path: string): Promise<Record<string, unknown>> {
  const answer = await send(running().operations, { path });
  expect(answer.headers["content-type"]).toMatch(/^application\/json/);
  return JSON.parse(answer.text) as Record<string, unknown>;
}

const purge = (body: string | object): Promise<ReceivedAnswer> =>
  send(running().operations, { path: "/purge", body: typeof body === "string" ? body : JSON.stringify(body) });

const isHit = ({ headers }: ReceivedAnswer): boolean => /;\s*hit\b/.test(String(headers["cache-status"]));

/** Which of the resources of all registries are fetched anew, by their place in {@link resources}. */
async function fetchedAnew(): Promise<string[]> {
  const fetched: string[] = [];
  for (const name of REGISTRY_NAMES) {
    for (const [i, path] of resources(name).entries()) {
      const answer = await send(running().url, { path });
      expect(answer.status).toBe(200);
      if (!isHit(answer)) fetched.push(`${name} ${i}`);
    }
  }
  return fetched;
}

describe("a purge", () => {
  test.each<[object, readonly string[]]>([
    [{}, REGISTRY_NAMES.flatMap((name) => [0, 1, 2, 3].map((i) => `${name} ${i}`))],
    [{ upstream: "bonds" }, [0, 1, 2, 3].map((i) => `bonds ${i}`)],
    [{ upstream: "bonds", endpoint: "info" }, ["bonds 0"]],
    // Pages and instruments hold the same data.
    [{ upstream: "bonds", endpoint: "instruments" }, ["bonds 1", "bonds 2", "bonds 3"]],
    [{ upstream: "bonds", endpoint: "instrument" }, ["bonds 1", "bonds 2", "bonds 3"]],
  ])("of %j clears that and nothing else", async (body, cleared) => {
    await fetchedAnew();
    expect(await fetchedAnew()).toEqual([]);
    const answer = await purge(body);
    const replicas = { took: [expect.objectContaining({ name: thisReplica.name })], missing: [], of: 1 };
    expect([answer.status, JSON.parse(answer.text)]).toEqual([200, { purged: body, scope: "replica", replicas }]);
    // The page holds the instruments, which are filled from it: ask in an order that shows each.
    const anew = await fetchedAnew();
    const filled = cleared.filter((each) => /[23]$/.test(each) && cleared.includes(each.replace(/.$/, "1")));
    expect([...anew, ...filled].toSorted()).toEqual([...new Set([...cleared, ...filled])].toSorted());
  });

  test("of one instrument clears it and the pages, not its neighbour", async () => {
    await fetchedAnew();
    const [first] = running().registries.amulet.catalogue.list();
    const answer = await purge({ upstream: "amulet", endpoint: "instrument", instrument: first!.id });
    expect(answer.status).toBe(200);
    const [info, page, instrument, neighbour] = resources("amulet");
    const outcome = async (path: string): Promise<boolean> => isHit(await send(running().url, { path }));
    expect(await outcome(info!)).toBe(true);
    expect(await outcome(neighbour!)).toBe(true);
    expect(await outcome(instrument!)).toBe(false);
    expect(await outcome(page!)).toBe(false);
  });

  test.each<[string | object, number]>([
    [{ upstream: "nobody" }, 404],
    [{ upstream: ADMINS.amulet }, 404],
    [{ upstream: "__proto__" }, 404],
    [{ endpoint: "info" }, 400],
    [{ instrument: "A" }, 400],
    [{ upstream: "amulet", instrument: "A" }, 400],
    [{ upstream: "amulet", endpoint: "info", instrument: "A" }, 400],
    [{ upstream: "amulet", endpoint: "transfer_factory" }, 400],
    [{ upstream: "amulet", more: 1 }, 400],
    [{ Upstream: "amulet" }, 400],
    [{ upstream: 1 }, 400],
    ["[]", 400],
    ["null", 400],
    ['"all"', 400],
    ["", 400],
    ["{", 400],
    ['{"__proto__":{}}', 400],
  ])("%j is refused: %i", async (body, status) => {
    await fetchedAnew();
    const answer = await purge(body);
    expect(answer.status).toBe(status);
    expect(errorOf(answer)).toMatch(/^registry-gateway: /);
    expect(await fetchedAnew()).toEqual([]);
  });

  test("takes a JSON content type: a page in a browser cannot send it unasked", async () => {
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]) {
      const answer = await send(running().operations, {
        path: "/purge",
        body: "{}",
        headers: { "content-type": type },
      });
      expect(answer.status).toBe(415);
      expect(errorOf(answer)).toMatch(/^registry-gateway: /);
    }
    expect((await send(running().operations, { path: "/purge", method: "POST" })).status).toBe(415);
    expect((await send(running().operations, { path: "/purge" })).status).toBe(404);
  });

  test("is followed by nothing that was asked for before it", async () => {
    const { registries, url } = running();
    const held = Promise.withResolvers<undefined>();
    const path = `${base("amulet")}/metadata/v1/instruments?pageSize=3`;
    registries.amulet.calls.clear();
    registries.amulet.script(() => held.promise);
    const early = send(url, { path });
    await registries.amulet.calls.reached(1);
    expect((await purge({})).status).toBe(200);
    const late = send(url, { path });
    await registries.amulet.calls.reached(2);
    held.resolve(undefined);
    await Promise.all([early, late]);
    registries.amulet.script(undefined);
    expect(registries.amulet.calls.count("instruments")).toBe(2);
  });
});

describe("status, probes and metrics", () => {
  test("livez and readyz", async () => {
    expect(await json("/livez")).toEqual({ status: "ok" });
    expect(await json("/readyz")).toEqual({
      ready: true,
      upstreams: REGISTRY_NAMES.map((name) => ({ name, state: "up" })),
    });
  });

  test("metrics say which build runs", async () => {
    const build = `registry_gateway_build_info{version="0.0.0-test",revision="${thisReplica.revision}"} 1`;
    expect((await send(running().operations, { path: "/metrics" })).text).toContain(build);
  });

  test("status names every upstream and node, and Redis", async () => {
    const status = await json("/status");
    expect(status).toMatchObject({
      version: "0.0.0-test",
      uptimeSeconds: expect.any(Number),
      // It names the process that answers.
      replica: { name: expect.stringMatching(/\/[0-9]+$/), version: expect.any(String), revision: expect.any(String) },
      redis: expect.any(Object),
      upstreams: REGISTRY_NAMES.map((name) => ({
        name,
        admin: ADMINS[name],
        state: "up",
        lastError: null,
        breaker: "closed",
        budgetLeft: null,
        rateLimitGroup: null,
        nodes: [{ url: running().registries[name].url, state: "up", inFlight: 0 }],
      })),
    });
  });

  test("metrics count requests by operation, alias, status and outcome, and by nothing of a client's", async () => {
    const secret = "instrument-of-nobody";
    for (const path of [...resources("amulet"), `${base("amulet")}/metadata/v1/instruments/${secret}`, "/nothing"]) {
      await send(running().url, { path });
    }
    await send(running().url, { path: `${base("amulet")}/allocations/v1/00ab/choice-contexts/cancel`, body: "{}" });
    const { text, headers } = await send(running().operations, { path: "/metrics" });
    expect(headers["content-type"]).toContain("text/plain");
    const names = [...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name!);
    expect(names.length).toBeGreaterThan(10);
    expect(names.filter((name) => !/^(registry_gateway|process|nodejs)_/.test(name))).toEqual([]);
    expect(text).toMatch(/^registry_gateway_requests_total\{.*operation="instrument".*upstream="amulet".*\} \d+$/m);
    expect(text).toMatch(/^registry_gateway_requests_total\{.*operation="allocation_cancel".*\} \d+$/m);
    expect(text).toMatch(/^registry_gateway_requests_total\{.*operation="none".*status="4xx".*\} \d+$/m);
    for (const hidden of [secret, "00ab", ...Object.values(ADMINS)]) expect(text).not.toContain(hidden);
  });

  test("there is nothing else", async () => {
    const root = await send(running().operations, { path: "/" });
    expect([root.status, root.headers["location"]]).toEqual([302, "/console/"]);
    for (const path of ["/registry/metadata/v1/info", "/debug", "/status/x"]) {
      const answer = await send(running().operations, { path });
      expect(answer.status).toBe(404);
      expect(errorOf(answer)).toMatch(/^registry-gateway: /);
    }
    for (const path of ["/livez", "/readyz", "/metrics", "/status", "/purge", "/explain"]) {
      expect((await send(running().url, { path })).status).toBe(404);
    }
  });
});

describe("explain", () => {
  const explain = (path: string): Promise<ReceivedAnswer> =>
    send(running().operations, { path: `/explain?path=${encodeURIComponent(path)}` });

  test("says which registry a path means and what the cache has, and asks nobody", async () => {
    await purge({});
    const [, path] = resources("funds");
    running().clearCalls();
    const before = JSON.parse((await explain(path!)).text) as Record<string, unknown>;
    expect(before).toMatchObject({ upstream: "funds", admin: ADMINS.funds, operation: "instruments", cached: true });
    expect(running().called()).toEqual([]);
    await send(running().url, { path: path! });
    running().clearCalls();
    const after = JSON.parse((await explain(path!)).text) as Record<string, unknown>;
    expect(after).toMatchObject({ upstream: "funds", cached: true });
    expect(after.explanation).not.toEqual(before.explanation);
    expect(running().called()).toEqual([]);
  });

  test("says that POSTs and drafts are not cached", async () => {
    for (const [path, operation] of [
      [`${base("bonds")}/allocations/v1/x/choice-contexts/cancel`, "allocation_cancel"],
      [`${base("bonds")}/drafts/v1/x`, "pass_through"],
    ] as const) {
      const explained: unknown = JSON.parse((await explain(path)).text);
      expect(explained).toMatchObject({ upstream: "bonds", operation, cached: false, reason: expect.any(String) });
    }
  });

  test("says of every endpoint of version 2 where it goes, and why no answer is kept", async () => {
    for (const endpoint of ENDPOINTS.filter(({ operation }) => isOfVersion2(operation))) {
      const { operation } = endpoint;
      const path = `${base("bonds")}${endpointPath(endpoint, "00ab").slice("/registry".length)}`;
      expect(JSON.parse((await explain(path)).text)).toEqual({
        upstream: "bonds",
        admin: ADMINS.bonds,
        operation,
        cached: false,
        reason: expect.stringContaining("no answer is kept"),
      });
      // At the plain base URL of several registries the body or a contract decides.
      expect((await explain(endpointPath(endpoint, "00ab"))).status).toBe(400);
    }
  });

  test.each([
    ["/api/token-standard/v0/registrars/nobody/registry/metadata/v1/info", 404],
    ["/nothing", 404],
    ["/api/token-standard/v0/registrars/amulet/registry/metadata/v1/instruments/..", 400],
    ["/api/token-standard/v0/registrars/amulet/registry/metadata/v1/instruments?pageSize=0", 400],
    ["", 400],
  ])("refuses %s as a request would be: %i", async (path, status) => {
    const answer = await explain(path);
    expect(answer.status).toBe(status);
    expect(errorOf(answer)).toMatch(/^registry-gateway: /);
  });

  test("needs a path, once", async () => {
    for (const path of ["/explain", "/explain?path=/a&path=/b", "/explain?path=/a?pageSize=10&pageToken=b"]) {
      expect((await send(running().operations, { path })).status).toBe(400);
    }
  });
});

describe("readyz over real sockets", () => {
  const startRegistry = useSampleRegistries();
  const startGateway = useGateways();

  test("is 503 while every registry serves another admin, and names the states", async () => {
    const registry = await startRegistry();
    await registry.faults.set({ kind: "wrong-admin" });
    const { operations } = await startGateway({ upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url] }] });
    const answer = async (): Promise<unknown> => JSON.parse((await send(operations, { path: "/readyz" })).text);
    await expect.poll(answer).toMatchObject({ ready: false, upstreams: [{ name: "amulet", state: "wrong-admin" }] });
    expect((await send(operations, { path: "/readyz" })).status).toBe(503);
    expect((await send(operations, { path: "/livez" })).status).toBe(200);
    expect((await send(operations, { path: "/status" })).text).toContain("wrong-admin");
  });
});
