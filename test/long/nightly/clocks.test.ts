import { describe, expect, test } from "vitest";
import { TestClock } from "../../support/clock.ts";
import { CANCEL, FACTORY, INFO, LIST } from "../../support/endpoints.ts";
import { startGateway } from "../../support/gateway.ts";
import { startRegistry } from "../../support/registry.ts";
import { until } from "../../support/until.ts";

const HOUR = 3_600_000;

/** What a registry says of an answer's lifetime; each comes to a minute. */
const SAYINGS: Record<string, (wall: number) => readonly string[]> = {
  nothing: () => [],
  "max-age": () => ["Cache-Control", "max-age=60"],
  "Expires and Date": (wall) => ["Date", dateOf(wall), "Expires", dateOf(wall + 60_000)],
  "Expires alone": (wall) => ["Expires", dateOf(wall + 60_000)],
};
const dateOf = (wall: number): string => new Date(wall).toUTCString();

describe.each([
  ["forward", HOUR],
  ["back", -HOUR],
])("a wall clock that jumps %s by an hour", (_where, step) => {
  test.each(Object.entries(SAYINGS))("makes no answer older or younger; the registry says %s", async (_what, say) => {
    const clock = TestClock.running();
    const amulet = await startRegistry();
    amulet.on("instruments", () => ({ date: false, fields: say(clock.wallNow()), body: { instruments: [] } }));
    const gateway = await startGateway(
      { cache: { ttl: { instruments: "60s" }, staleWhileRevalidate: "0s", staleIfError: "0s" }, upstreams: [amulet] },
      { clock },
    );
    expect((await gateway.get(LIST)).cache).toBe("miss");
    clock.stepWall(step);
    const kept = await gateway.get(LIST);
    expect([kept.cache, Number(kept.headers.age) < 10]).toEqual(["hit", true]);
    clock.advance("40s");
    const old = await gateway.get(LIST);
    expect([old.cache, Number(old.headers.age) >= 40, Number(old.headers.age) < 50]).toEqual(["hit", true, true]);
    clock.advance("21s");
    expect((await gateway.get(LIST)).cache).toBe("miss");
    // What is fetched behind the jump lasts as long as ever.
    clock.advance("40s");
    expect((await gateway.get(LIST)).cache).toBe("hit");
    clock.advance("21s");
    expect((await gateway.get(LIST)).cache).toBe("miss");
  });

  test("changes no limit, no pause, no proof and no state, and calls go on", async () => {
    const clock = TestClock.running();
    const [amulet, bonds] = [await startRegistry("amulet"), await startRegistry("bonds")];
    const gateway = await startGateway(
      { upstreams: [amulet.upstream({ rateLimit: { requests: "5/1m" }, timeout: "1s" }), bonds] },
      { clock },
    );
    const call = async (name: string): Promise<string> => (await gateway.post(gateway.base(name) + CANCEL)).outcome;
    // Of five the info was the first.
    let calls = 0;
    while ((await call("amulet")) === "200") calls += 1;
    expect([3, 4]).toContain(calls);
    bonds.on("allocation_cancel", { status: 429, fields: ["Retry-After", "30"], body: { error: "later" } });
    await call("bonds");
    bonds.reset();
    clock.stepWall(step);
    expect(await call("amulet")).toBe("429 rate_limited");
    expect(await call("bonds")).toBe("429 upstream_paused");
    expect(bonds.count("allocation_cancel")).toBe(0);
    // A call counts for its window, and a twentieth of it more.
    clock.advance("65s");
    expect([await call("amulet"), await call("bonds")]).toEqual(["200", "200"]);
    const { upstreams } = (await gateway.operations.status()) as { upstreams: { state: string }[] };
    expect(upstreams.map(({ state }) => state)).toEqual(["up", "up"]);
    expect((await gateway.operations.get("/metrics")).status).toBe(200);
    expect(gateway.lines.filter(({ level }) => level === "error")).toEqual([]);
  });

  test("has a Retry-After that is a date obeyed for a minute at most", async () => {
    const clock = TestClock.running();
    const amulet = await startRegistry();
    const gateway = await startGateway({ upstreams: [amulet] }, { clock });
    // The registry's clock is the one that is right.
    const fields = ["Retry-After", dateOf(clock.wallNow() + 20_000)];
    clock.stepWall(step);
    amulet.on("allocation_cancel", { status: 429, fields, body: { error: "later" } });
    await gateway.post(CANCEL);
    amulet.reset();
    clock.advance("61s");
    expect((await gateway.post(CANCEL)).outcome).toBe("200");
  });
});

test("a machine that slept for an hour serves nothing from before, and hangs on nothing", async () => {
  const clock = TestClock.running();
  const amulet = await startRegistry();
  const gateway = await startGateway({ upstreams: [amulet] }, { clock });
  // The instrument before the page, which would answer for it.
  const paths = [INFO, `${LIST}/AMULET-00000`, LIST];
  for (const path of paths) expect((await gateway.get(path)).cache).toBe("miss");
  expect((await gateway.post(FACTORY, '{"choiceArguments":{}}')).outcome).toBe("200");
  clock.advance(HOUR);
  for (const path of paths) expect([path, (await gateway.get(path)).cache]).toEqual([path, "miss"]);
  expect((await gateway.post(FACTORY, '{"choiceArguments":{}}')).outcome).toBe("200");
  await amulet.close();
  clock.advance(HOUR);
  for (const path of paths) expect((await gateway.get(path)).status).toBeGreaterThanOrEqual(502);
  await amulet.restart();
  await until(async () => {
    clock.advance("1s");
    return (await gateway.get(INFO)).status === 200;
  });
});
