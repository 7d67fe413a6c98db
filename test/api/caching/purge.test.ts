import { describe, expect, test } from "vitest";
import { CACHED, ONE, useStartCached } from "../../support/caching.ts";
import { INFO, LIST } from "../../support/endpoints.ts";
import { useGateway } from "../../support/gateway.ts";
import { startRegistry } from "../../support/registry.ts";
import { until } from "../../support/until.ts";

const startCached = useStartCached();
const serve = useGateway();

describe("a purge", () => {
  test("of a registry leaves nothing of it, and all of the others", async () => {
    const [amulet, bonds] = [await startRegistry("amulet"), await startRegistry("bonds")];
    const gateway = await serve({ upstreams: [amulet, bonds] });
    const all = ["amulet", "bonds"].flatMap((name) =>
      CACHED.map(({ path }) => [name, gateway.base(name) + path.replace("AMULET", name.toUpperCase())] as const),
    );
    for (const [, path] of all) expect((await gateway.get(path)).status).toBe(200);
    for (const [, path] of all) expect((await gateway.get(path)).cache).toBe("hit");
    expect((await gateway.operations.purge("amulet")).status).toBe(200);
    for (const [name, path] of all)
      expect([path, (await gateway.get(path)).cache]).toEqual([path, name === "amulet" ? "miss" : "hit"]);
  });

  test("of all leaves nothing of any", async () => {
    const [amulet, bonds] = [await startRegistry("amulet"), await startRegistry("bonds")];
    const gateway = await serve({ upstreams: [amulet, bonds] });
    const paths = ["amulet", "bonds"].map((name) => gateway.base(name) + LIST);
    for (const path of paths) await gateway.get(path);
    expect((await gateway.operations.purge()).status).toBe(200);
    for (const path of paths) expect((await gateway.get(path)).cache).toBe("miss");
  });

  test("is not undone by a fetch that began before it", async () => {
    const { amulet, gateway } = await startCached();
    await gateway.get(INFO);
    let answerOld = (): void => undefined;
    const held = new Promise<void>((resolve) => (answerOld = resolve));
    amulet.on("instruments", async () => {
      await held;
      return { body: { instruments: [], from: "before" } };
    });
    const before = gateway.get(LIST);
    await amulet.reached(1);
    expect((await gateway.operations.purge("amulet")).status).toBe(200);
    amulet.on("instruments", { body: { instruments: [], from: "after" } });
    expect((await gateway.get(LIST)).json.from).toBe("after");
    answerOld();
    expect((await before).status).toBe(200);
    for (let round = 0; round < 3; round += 1) expect((await gateway.get(LIST)).json.from).toBe("after");
  });

  test("ends what is stale, too", async () => {
    const { amulet, gateway, clock } = await startCached({}, { upstream: { retries: 0 } });
    await gateway.get(LIST);
    clock.advance("31s");
    await gateway.operations.purge();
    amulet.on("instruments", { status: 500, body: { error: "no" } });
    expect((await gateway.get(LIST)).status).toBe(500);
  });

  test("of a registry that is not used because another has its admin, too, is done: the admin is known", async () => {
    const amulet = await startRegistry("amulet", { nodes: 2 });
    const [first, second] = amulet.urls;
    const upstreams = [
      { name: "one", urls: [first] },
      { name: "two", urls: [second] },
    ];
    const gateway = await serve({ upstreams });
    await until(async () => (await gateway.operations.upstream("one")).state === "disabled");
    expect((await gateway.operations.purge("one")).json).toEqual({ purged: "one" });
    const explained = await gateway.operations.get(`/explain?path=${gateway.base("one")}${LIST}`);
    expect(explained.json.text[0]).toMatch(/^The next request is answered 503: the registry is disabled/);
  });

  test("is one log line with who and from where", async () => {
    const { gateway } = await startCached();
    await gateway.operations.purge("amulet");
    const told = await until(() => {
      const lines = gateway.lines.filter(({ msg }) => /purge/i.test(String(msg)));
      return lines.length > 0 && lines;
    });
    expect(told).toHaveLength(1);
    expect(JSON.stringify(told[0])).toContain("amulet");
    expect(JSON.stringify(told[0])).toContain("127.0.0.1");
  });

  test("of anything else than a registry or all is refused, and purges nothing", async () => {
    const { gateway } = await startCached();
    await gateway.get(LIST);
    for (const [body, status] of [
      ['{"upstream":"nobody"}', 404],
      ['{"upstream":5}', 400],
      ['{"upstream":"amulet","endpoint":"info"}', 400],
      ['{"upstream":"amulet","upstream":"amulet"}', 400],
      ["[]", 400],
      ["{", 400],
    ] as const) {
      expect([body, (await gateway.operations.post("/purge", body)).status]).toEqual([body, status]);
    }
    expect((await gateway.get(LIST)).cache).toBe("hit");
  });
});

describe("explain", () => {
  const explain = async (path: string, gateway: Awaited<ReturnType<typeof startCached>>["gateway"]) =>
    gateway.operations.get(`/explain?path=${encodeURIComponent(path)}`);

  test("shows the entry, and why it would or would not be used", async () => {
    const { gateway, clock } = await startCached();
    expect(JSON.stringify((await explain(LIST, gateway)).json)).not.toContain('"fresh"');
    await gateway.get(LIST);
    expect((await explain(LIST, gateway)).text).toMatch(/fresh/);
    clock.advance("31s");
    expect((await explain(LIST, gateway)).text).toMatch(/stale-while-revalidate|stale/);
    await gateway.operations.purge("amulet");
    expect((await explain(LIST, gateway)).text).not.toMatch(/"use":"(fresh|stale)/);
  });

  const outlook = async (path: string, gateway: Awaited<ReturnType<typeof startCached>>["gateway"]) =>
    ((await explain(path, gateway)).json as { text: string[] }).text[0];

  test("says that an instrument is answered from the listing that it stands on, as it is", async () => {
    const { gateway, clock } = await startCached();
    await gateway.get(LIST);
    expect((await gateway.get(ONE)).cache).toBe("hit");
    expect(await outlook(ONE, gateway)).toMatch(
      /^The next request is answered from memory: the first page .* 30 s\.|2\d s\.$/,
    );
    expect(await outlook(`${LIST}/none`, gateway)).toMatch(/^The next request asks the registry/);
    clock.advance("31s");
    expect(await outlook(ONE, gateway)).toMatch(/^The next request asks the registry/);
  });

  test("says that a cache-only registry is asked nothing: what is stored is served, all else is 503", async () => {
    const { amulet, gateway, clock } = await startCached();
    await gateway.get(LIST);
    clock.advance("3h");
    gateway.reload({ upstreams: [amulet.upstream({ mode: "cache-only" })] });
    expect((await gateway.get(LIST)).cache).toBe("stale");
    expect(await outlook(LIST, gateway)).toBe(
      "The next request is answered from memory, stale: the registry is cache-only.",
    );
    expect((await gateway.get(INFO)).code).toBe("cache_only");
    expect(await outlook(INFO, gateway)).toBe(
      "The next request is answered 503: the registry is cache-only, and the cache has no answer to it.",
    );
  });

  test("says that a registry that has just failed is not waited for", async () => {
    const { amulet, gateway, clock } = await startCached({}, { upstream: { retries: 0 } });
    await gateway.get(LIST);
    amulet.on("instruments", { status: 500, body: { error: "no" } });
    clock.advance("100s");
    expect(await outlook(LIST, gateway)).toMatch(/^The next request asks the registry\. If that fails/);
    expect((await gateway.get(LIST)).headers["cache-status"]).toContain("fwd=stale");
    expect(await outlook(LIST, gateway)).toMatch(
      /^The next request is answered from memory, stale, while the registry fails/,
    );
    expect((await gateway.get(LIST)).headers["cache-status"]).toContain(";hit;");
  });

  test("asks nothing of a registry, and refuses what is no path", async () => {
    const { amulet, gateway } = await startCached();
    for (const path of [LIST, INFO, "/registry/drafts/v1/x", `${gateway.base("nobody")}${LIST}`]) {
      expect((await explain(path, gateway)).status).toBeLessThan(500);
    }
    expect((await gateway.operations.get("/explain")).status).toBe(400);
    expect(amulet.asked).toEqual([]);
  });
});
