import { describe, expect, test } from "vitest";
import { CACHED, outcomes, useCached, useStartCached } from "../../support/caching.ts";
import { CANCEL, LIST } from "../../support/endpoints.ts";
import type { Script } from "../../support/registry.ts";
import { until } from "../../support/until.ts";

const startCached = useStartCached();

const PAGE = { instruments: [{ id: "A", name: "n", symbol: "s", decimals: 1, supportedApis: {} }] };
const NO_SWR = { cache: { staleWhileRevalidate: "0s", staleIfError: "10m" } };

describe("stale while revalidate", () => {
  const usual = useCached();

  test.each(CACHED)("an expired $operation is served at once while one refresh runs", async ({ path, operation }) => {
    const { amulet, gateway, clock, refreshed } = await startCached({ cache: { ttl: { info: "30s" } } });
    await gateway.get(path);
    clock.advance("31s");
    const before = amulet.count(operation);
    const release = amulet.hold(operation);
    const answers = await Promise.all(Array.from({ length: 20 }, () => gateway.get(path)));
    for (const answer of answers) expect([answer.status, answer.cache]).toEqual([200, "stale"]);
    await until(() => amulet.count(operation) === before + 1);
    release();
    await refreshed(path);
    expect(amulet.count(operation)).toBe(before + 1);
  });

  test("ends with its window, which runs from expiry", async () => {
    const cached = await startCached({ cache: { staleWhileRevalidate: "30s", staleIfError: "0s" } });
    expect(await outcomes(cached, LIST, ["0s", "62s"])).toEqual(["miss", "miss"]);
    cached.clock.advance("55s");
    expect((await cached.gateway.get(LIST)).cache).toBe("stale");
  });

  test.each<[string, string, readonly string[], readonly string[]]>([
    ["the registry's window", "max-age=10, stale-while-revalidate=100", ["0s", "105s"], ["miss", "stale"]],
    [
      "the registry's, beside s-maxage",
      "public, s-maxage=10, stale-while-revalidate=100",
      ["0s", "105s"],
      ["miss", "stale"],
    ],
    ["no window beside s-maxage alone", "s-maxage=10", ["0s", "12s"], ["miss", "miss"]],
    ["none with must-revalidate", "max-age=10, must-revalidate", ["0s", "12s"], ["miss", "miss"]],
    [
      "none with must-revalidate beside one",
      "max-age=10, must-revalidate, stale-while-revalidate=100",
      ["0s", "12s"],
      ["miss", "miss"],
    ],
    ["none with proxy-revalidate", "max-age=10, proxy-revalidate", ["0s", "12s"], ["miss", "miss"]],
    ["at most 10 min", "max-age=10, stale-while-revalidate=99999", ["0s", "700s"], ["miss", "miss"]],
  ])("obeys %s", async (_what, control, spans, expected) => {
    const cached = usual();
    cached.amulet.on("instruments", { fields: ["Cache-Control", control], body: PAGE });
    const seen = await outcomes(cached, LIST, spans);
    expect(seen.map((each) => (each === "revalidated" ? "miss" : each))).toEqual(expected);
  });
});

describe("stale if error", () => {
  const failing = useCached(NO_SWR, { upstream: { retries: 0 } });

  const failures: readonly [string, Script][] = [
    ["500", { status: 500, body: { error: "no" } }],
    ["503", { status: 503, body: { error: "no" } }],
    ["429", { status: 429, body: { error: "no" } }],
    ["400", { status: 400, body: { error: "no" } }],
    ["401", { status: 401, body: { error: "no" } }],
    ["a page's 404", { status: 404, body: { error: "no" } }],
    ["an HTML 404", { status: 404, fields: ["content-type", "text/html"], body: "<html>" }],
    ["a redirect", { status: 302, fields: ["location", "/x"], body: "" }],
    ["what is no JSON", { body: "no" }],
    ["a cut-off answer", { raw: "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{" }],
    ["a broken connection", "reset"],
  ];
  test.each(failures)("no %s displaces what is usable", async (_what, script) => {
    const { amulet, gateway, clock } = failing();
    const good = await gateway.get(LIST);
    amulet.on("instruments", script);
    clock.advance("60s");
    for (let round = 0; round < 3; round += 1) {
      const answer = await gateway.get(LIST);
      expect([answer.status, answer.text, answer.cache]).toEqual([200, good.text, "stale"]);
    }
    clock.advance("11m");
    expect((await gateway.get(LIST)).status).not.toBe(200);
  });

  test("while the registry is dead, all that is stored is served with its true age, for its window", async () => {
    const { amulet, gateway, clock } = await startCached(NO_SWR, { upstream: { retries: 0 } });
    const good = await Promise.all(CACHED.map(({ path }) => gateway.get(path)));
    await amulet.close();
    clock.advance("601s");
    for (const [at, { path, operation }] of CACHED.entries()) {
      const answer = await gateway.get(path);
      if (operation === "info") expect(answer.status).toBe(200);
      if (answer.status === 200) expect(answer.text).toBe(good[at]!.text);
      if (answer.status === 200) expect(Number(answer.headers.age)).toBeGreaterThanOrEqual(600);
    }
    expect((await gateway.post(CANCEL)).status).toBeGreaterThanOrEqual(502);
    await amulet.restart();
    clock.advance("10s");
    await until(async () => (await gateway.get(LIST)).cache === "miss" || (await gateway.get(LIST)).cache === "hit");
  });

  test.each<[string, string, string]>([
    ["the registry's window", "max-age=10, stale-if-error=200", "stale"],
    ["none with must-revalidate", "max-age=10, must-revalidate", "503"],
    ["none with no-cache", "no-cache", "503"],
    ["none beside s-maxage", "s-maxage=10", "503"],
    ["the registry's beside s-maxage", "s-maxage=10, stale-if-error=200", "stale"],
  ])("obeys %s", async (_what, control, expected) => {
    const cached = failing();
    cached.amulet.on("instruments", { fields: ["Cache-Control", control], body: PAGE });
    await cached.gateway.get(LIST);
    cached.amulet.on("instruments", { status: 503, body: { error: "no" } });
    expect(await outcomes(cached, LIST, ["100s"])).toEqual([expected]);
  });

  test("an instrument that is gone is gone: its 404 displaces it", async () => {
    const { amulet, gateway, clock } = await startCached(NO_SWR);
    const path = `${LIST}/AMULET-00001`;
    expect((await gateway.get(path)).status).toBe(200);
    amulet.instruments = amulet.instruments.filter(({ id }) => id !== "AMULET-00001");
    clock.advance("31s");
    expect((await gateway.get(path)).status).toBe(404);
    expect((await gateway.get(path)).status).toBe(404);
    expect(amulet.count("instrument")).toBe(2);
    clock.advance("6s");
    await gateway.get(path);
    expect(amulet.count("instrument")).toBe(3);
  });

  test("an instrument that is gone is gone, in whatever form the registry says so", async () => {
    const { amulet, gateway, clock } = await startCached(NO_SWR);
    const path = `${LIST}/AMULET-00001`;
    expect((await gateway.get(path)).status).toBe(200);
    amulet.on("instrument", { status: 404, body: { message: "not found" } });
    clock.advance("31s");
    expect((await gateway.get(path)).outcome).toBe("404 upstream_error");
  });
});

describe("cache-only", () => {
  test("asks nothing of the registry, not even its info; what is stored is served however stale, all else is 503", async () => {
    const { amulet, gateway, clock } = await startCached();
    const good = await gateway.get(LIST);
    gateway.reload({ upstreams: [amulet.upstream({ mode: "cache-only" })] });
    amulet.calls.length = 0;
    clock.advance("5h");
    const answer = await gateway.get(LIST);
    expect([answer.status, answer.text, answer.cache]).toEqual([200, good.text, "stale"]);
    for (const request of [
      { path: CANCEL, body: "{}" },
      { path: `${LIST}/other` },
      { path: "/registry/drafts/v1/x" },
    ]) {
      expect((await gateway.send(request)).outcome).toBe("503 cache_only");
    }
    expect(amulet.calls).toEqual([]);
    gateway.reload({ upstreams: [amulet] });
    expect((await gateway.post(CANCEL)).status).toBe(200);
  });

  test("needs an admin", async () => {
    const upstream = { name: "a", urls: ["http://127.0.0.1:1"], mode: "cache-only" };
    const { load } = await import("../../support/gateway.ts");
    expect(() => load({ upstreams: [upstream] })).toThrow(/admin/);
  });
});
