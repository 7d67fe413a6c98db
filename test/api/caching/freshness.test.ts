import { describe, expect, test } from "vitest";
import { CACHED, ONE, outcomes, useCached, useStartCached } from "../../support/caching.ts";
import { INFO, LIST } from "../../support/endpoints.ts";
import { load } from "../../support/gateway.ts";

const startCached = useStartCached();

const PAGE = { instruments: [{ id: "A", name: "n", symbol: "s", decimals: 1, supportedApis: {} }] };
const NO_WINDOWS = { cache: { staleWhileRevalidate: "0s", staleIfError: "0s" } };
const DATE = "Fri, 20 Nov 2026 10:00:00 GMT";

describe("where the registry says nothing, an answer is fresh for its ttl", () => {
  const plain = useCached(NO_WINDOWS);

  test.each([
    [INFO, "info", ["0s", "530s", "71s"]],
    [LIST, "instruments", ["0s", "26s", "5s"]],
    [ONE, "instrument", ["0s", "26s", "5s"]],
  ] as const)("%s, shortened by up to a tenth", async (path, _operation, spans) => {
    expect(await outcomes(plain(), path, spans)).toEqual(["miss", "hit", "miss"]);
  });

  test("and each has the ttl of its own key, globally or of its upstream", async () => {
    const upstream = { cache: { ttl: { instruments: "10m" } } };
    const cached = await startCached(
      { cache: { ...NO_WINDOWS.cache, ttl: { instruments: "1s", instrument: "5m" } } },
      { upstream },
    );
    expect(await outcomes(cached, LIST, ["0s", "530s", "80s"])).toEqual(["miss", "hit", "miss"]);
    expect(await outcomes(cached, ONE, ["0s", "11m"])).toEqual(["hit", "miss"]);
  });

  test.each(CACHED)("a ttl of 0s keeps nothing: $operation", async ({ path, operation }) => {
    const { amulet, gateway } = await startCached({
      cache: { ttl: { info: "0s", instruments: "0s", instrument: "0s" } },
    });
    await gateway.get(path);
    const before = amulet.count(operation);
    for (let round = 0; round < 3; round += 1) expect((await gateway.get(path)).cache).toBe("miss");
    expect(amulet.count(operation) - before).toBe(3);
  });
});

describe("what the registry says about freshness is obeyed:", () => {
  const plain = useCached(NO_WINDOWS);

  test.each<[string, readonly string[], readonly string[], readonly string[]]>([
    ["max-age", ["Cache-Control", "max-age=100"], ["0s", "99s", "2s"], ["miss", "hit", "miss"]],
    [
      "s-maxage before max-age",
      ["Cache-Control", "max-age=5, s-maxage=100"],
      ["0s", "99s", "2s"],
      ["miss", "hit", "miss"],
    ],
    ["Age", ["Cache-Control", "max-age=100", "Age", "60"], ["0s", "39s", "2s"], ["miss", "hit", "miss"]],
    [
      "Expires",
      ["Date", DATE, "Expires", "Fri, 20 Nov 2026 10:01:40 GMT"],
      ["0s", "99s", "2s"],
      ["miss", "hit", "miss"],
    ],
    ["Expires that is none", ["Expires", "0"], ["0s", "0s"], ["miss", "miss"]],
    ["max-age before Expires", ["Cache-Control", "max-age=100", "Expires", "0"], ["0s", "99s"], ["miss", "hit"]],
    ["no-store", ["Cache-Control", "no-store"], ["0s", "0s"], ["miss", "miss"]],
    ["private", ["Cache-Control", "private, max-age=100"], ["0s", "0s"], ["miss", "miss"]],
    ["no-cache", ["Cache-Control", "no-cache"], ["0s", "0s"], ["miss", "miss"]],
    ["max-age=0", ["Cache-Control", "max-age=0"], ["0s", "0s"], ["miss", "miss"]],
    ["at most 10 min for a page", ["Cache-Control", "max-age=86400"], ["0s", "599s", "2s"], ["miss", "hit", "miss"]],
    ["Vary: *", ["Vary", "*", "Cache-Control", "max-age=100"], ["0s", "0s"], ["miss", "miss"]],
    [
      "another Vary, since nothing of a client takes part",
      ["Vary", "Accept, Origin", "Cache-Control", "max-age=100"],
      ["0s", "9s"],
      ["miss", "hit"],
    ],
    [
      "directives in any letters, quoted",
      ["Cache-Control", 'Public, Max-Age="100"'],
      ["0s", "99s", "2s"],
      ["miss", "hit", "miss"],
    ],
    [
      "a negative Age as none",
      ["Cache-Control", "max-age=100", "Age", "-60"],
      ["0s", "99s", "2s"],
      ["miss", "hit", "miss"],
    ],
  ])("%s", async (_what, fields, spans, expected) => {
    const cached = plain();
    cached.amulet.on("instruments", { fields, body: PAGE });
    const seen = await outcomes(cached, LIST, spans);
    // What is stale on arrival may be asked for by its validators.
    expect(seen.map((each) => (each === "revalidated" ? "miss" : each))).toEqual(expected);
  });

  test("an info for a day at most", async () => {
    const cached = plain();
    const { amulet } = cached;
    amulet.on("info", {
      fields: ["Cache-Control", "max-age=9999999"],
      body: { adminId: amulet.admin, supportedApis: {} },
    });
    expect(await outcomes(cached, INFO, ["0s", "86390s", "20s"])).toEqual(["miss", "hit", "miss"]);
  });

  test("and not where honorUpstream is off", async () => {
    const cached = await startCached({ cache: { ...NO_WINDOWS.cache, honorUpstream: false } });
    cached.amulet.on("instruments", { fields: ["Cache-Control", "no-store", "Age", "500"], body: PAGE });
    expect(await outcomes(cached, LIST, ["0s", "26s", "5s"])).toEqual(["miss", "hit", "miss"]);
    // Its lifetime is ours, its age is not.
    expect((await cached.gateway.get(LIST)).headers["age"]).toBe("500");
  });
});

describe("a client is told", () => {
  test("the registry's Cache-Control where there is one, and an Age that grows", async () => {
    const { amulet, gateway, clock } = await startCached();
    amulet.on("instruments", { fields: ["Cache-Control", "max-age=100", "Age", "7"], body: PAGE });
    expect((await gateway.get(LIST)).headers).toMatchObject({ "cache-control": "max-age=100", age: "7" });
    clock.advance("20s");
    const later = await gateway.get(LIST);
    expect(later.headers["cache-control"]).toBe("max-age=100");
    expect(Number(later.headers.age)).toBeGreaterThanOrEqual(27);
  });

  test("no-cache where the registry says nothing, or the clientTtl", async () => {
    const { gateway } = await startCached();
    for (let round = 0; round < 2; round += 1)
      expect((await gateway.get(LIST)).headers["cache-control"]).toBe("no-cache");
    const kept = await startCached({ cache: { clientTtl: "10s" } });
    expect((await kept.gateway.get(LIST)).headers["cache-control"]).toBe("max-age=10");
    kept.clock.advance("20s");
    const later = await kept.gateway.get(LIST);
    // Never beyond what is fresh here.
    expect(Number(/max-age=(\d+)/.exec(String(later.headers["cache-control"]))?.[1] ?? 0)).toBeLessThanOrEqual(30);
  });

  test("what the cache did, by RFC 9211", async () => {
    const { gateway } = await startCached();
    expect((await gateway.get(LIST)).headers["cache-status"]).toMatch(
      /^registry-gateway;fwd=uri-miss;.*ttl=(2[6-9]|30);stored/,
    );
    expect((await gateway.get(LIST)).headers["cache-status"]).toMatch(/^registry-gateway;hit;ttl=(2[6-9]|30)/);
  });
});

test.each(["cache.ttl.info", "cache.nothing", "cache.memory"])("%s is checked", (path) => {
  const [, key, deeper] = path.split(".");
  const cache = { [key!]: deeper === undefined ? "never" : { [deeper]: "never" } };
  expect(() => load({ cache, upstreams: [{ name: "a", urls: ["http://127.0.0.1:1"] }] })).toThrow();
});
