import { describe, expect, test } from "vitest";
import { TestClock } from "../../support/clock.ts";
import { ACCEPT, CANCEL, DRAFT, INFO, LIST } from "../../support/endpoints.ts";
import { load, NOTHING_KEPT, type TestGateway, useGateway } from "../../support/gateway.ts";
import { type Answer, expectOwnError } from "../../support/http.ts";
import { startRegistry } from "../../support/registry.ts";
import { until } from "../../support/until.ts";

const clock = TestClock.standing();
const serve = useGateway(clock);

async function start(rateLimit: object, options: { nodes?: number; keys?: object } = {}) {
  const amulet = await startRegistry("amulet", { nodes: options.nodes ?? 1 });
  // What the tests before have used up is free again.
  clock.advance("10m");
  const at: number[] = [];
  for (const operation of ["info", "*"]) amulet.on(operation, () => void at.push(clock.now()));
  const gateway = await serve({ ...NOTHING_KEPT, ...options.keys, upstreams: [amulet.upstream({ rateLimit })] });
  return { amulet, gateway, at };
}

/** How far the clock is moved at once: a call may arrive so much later than it was granted. */
const STEP = 100;

/** In no window of `per` there are more than `requests` of these instants of arrival, which are in order. */
function expectWithin(instants: readonly number[], requests: number, per: number): void {
  for (let i = requests; i < instants.length; i += 1) {
    expect(instants[i]! - instants[i - requests]!).toBeGreaterThanOrEqual(per - STEP);
  }
}

/** The answer, while the clock goes on in steps. */
async function moved(answer: Promise<Answer>, clock: TestClock, step: number): Promise<Answer> {
  let settled: Answer | undefined;
  void answer.then((value) => (settled = value));
  return until(() => {
    if (settled === undefined) clock.advance(step);
    return settled;
  });
}

describe("rateLimit", () => {
  test("is never exceeded in any window, whatever is asked: infos, metadata, calls and what passes through", async () => {
    const { amulet, gateway, at } = await start({ requests: "10/10s" });
    const outcomes = new Set<string>();
    for (let round = 0; round < 12; round += 1) {
      const requests = [{ path: INFO }, { path: LIST }, { path: ACCEPT, body: "{}" }, { path: DRAFT }];
      const answers = requests.map((request) => gateway.send(request));
      for (const answer of answers) outcomes.add((await moved(answer, clock, STEP)).outcome);
      clock.advance(100 + (round % 3) * 400);
    }
    expectWithin(at, 10, 10_000);
    expect(at.length).toBe(amulet.calls.length);
    // Most of what fits is granted.
    expect(amulet.calls.length).toBeGreaterThan(12);
    expect(outcomes).toEqual(new Set(["200", "429 rate_limited"]));
  });

  test("has a burst beside it", async () => {
    const { gateway, at } = await start({ requests: "100/1m", burst: "3/1s" });
    for (let round = 0; round < 20; round += 1) {
      expect((await moved(gateway.post(ACCEPT), clock, STEP)).status).toBe(200);
    }
    expectWithin(at, 3, 1_000);
  });

  test("lets a call wait within its deadline, at most 2 s, else it is 429 that says when to come back", async () => {
    const { amulet, gateway } = await start({ requests: "2/10s" });
    expect((await gateway.post(ACCEPT)).status).toBe(200);
    // The info and one call: the next is free after ten seconds.
    const refused = await moved(gateway.post(ACCEPT), clock, 500);
    expectOwnError(refused, 429, "rate_limited");
    expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
    expect(Number(refused.headers["retry-after"])).toBeLessThanOrEqual(12);
    expect(refused.error).toMatch(/registry.*again in \d+ s/);
    clock.advance("9s");
    const waiting = gateway.post(ACCEPT);
    expect((await moved(waiting, clock, 250)).status).toBe(200);
    expect(amulet.count()).toBe(2);
  });

  test("a call whose own deadline is nearer than its turn is 429 as well, never 504", async () => {
    const { gateway } = await start({ requests: "2/10s" });
    expect((await gateway.post(ACCEPT)).status).toBe(200);
    const answer = await moved(gateway.post(ACCEPT, "{}", { "request-timeout": "1" }), clock, 100);
    expectOwnError(answer, 429, "rate_limited");
  });

  test("is one for all upstreams of a group", async () => {
    const [amulet, bonds] = [await startRegistry("amulet"), await startRegistry("bonds")];
    const rateLimit = { requests: "6/1m", group: "host" };
    const upstreams = [amulet, bonds].map((each) => each.upstream({ rateLimit }));
    const gateway = await serve({ ...NOTHING_KEPT, upstreams });
    for (let round = 0; round < 8; round += 1) {
      const name = round % 2 === 0 ? "amulet" : "bonds";
      await moved(gateway.post(gateway.base(name) + CANCEL), clock, 500);
    }
    expect(amulet.calls.length + bonds.calls.length).toBe(6);
  });

  test("leaves cached metadata alone, and calls come before refreshes", async () => {
    const { amulet, gateway } = await start(
      { requests: "4/10s" },
      { keys: { cache: { ttl: { instruments: "30s" } } } },
    );
    expect((await gateway.get(LIST)).status).toBe(200);
    for (let round = 0; round < 6; round += 1) await moved(gateway.post(ACCEPT), clock, 500);
    for (let round = 0; round < 10; round += 1) expect((await gateway.get(LIST)).cache).toBe("hit");
    expect(amulet.calls.length).toBeLessThanOrEqual(8);
  });

  test("is kept over a reload, of the same upstream and of the same group", async () => {
    const { amulet, gateway } = await start({ requests: "3/10m" });
    const upstream = (keys: object) => amulet.upstream({ rateLimit: { requests: "3/10m" }, ...keys });
    for (let round = 0; round < 2; round += 1) expect((await gateway.post(ACCEPT)).status).toBe(200);
    gateway.reload({ ...NOTHING_KEPT, upstreams: [upstream({ timeout: "9s", auth: { bearer: "new" } })] });
    expectOwnError(await moved(gateway.post(ACCEPT), clock, 500), 429, "rate_limited");
    expect(amulet.calls.length).toBe(3);
  });

  test("of upstreams of a group that give other numbers is bad configuration", () => {
    const upstreams = ["1/1m", "2/1m"].map((requests, at) => ({
      name: `u${at}`,
      urls: [`http://127.0.0.1:${at + 1}`],
      rateLimit: { requests, group: "host" },
    }));
    expect(() => load({ upstreams })).toThrow(/group/);
  });

  test("is shown at /status, and never said to be a registry's 429", async () => {
    const { gateway } = await start({ requests: "2/10s", burst: "2/1s" });
    await gateway.post(ACCEPT);
    const { error } = await moved(gateway.post(ACCEPT), clock, 500);
    expect(error).not.toMatch(/answered 429/);
    expect((await gateway.operations.upstream("amulet")).limit).toMatchObject({ requests: "2/10s", burst: "2/1s" });
  });
});

describe("a registry's 429", () => {
  const paused = (after?: string) => ({
    status: 429,
    fields: ["content-type", "text/plain", ...(after === undefined ? [] : ["Retry-After", after])],
    body: "Too Many Requests: Server is busy",
  });

  const clock = TestClock.running();
  const serve = useGateway(clock);
  const start429 = async (nodes = 1) => {
    const amulet = await startRegistry("amulet", { nodes });
    const bonds = await startRegistry("bonds");
    const gateway = await serve({ upstreams: [amulet, bonds] });
    const post = (name = "amulet") => gateway.post(gateway.base(name) + CANCEL);
    for (let round = 0; round < 4; round += 1) expect((await post()).status).toBe(200);
    expect((await gateway.get(gateway.base("amulet") + LIST)).status).toBe(200);
    return { amulet, bonds, gateway, post };
  };

  test("is obeyed for its Retry-After: nothing is asked of that node, then calls are 429 that say so", async () => {
    const { amulet, gateway, post } = await start429();
    amulet.on("allocation_cancel", paused("30"));
    const first = await post();
    expect([first.status, first.headers["retry-after"]]).toEqual([429, "30"]);
    amulet.on("allocation_cancel", undefined);
    const before = amulet.calls.length;
    for (let round = 0; round < 5; round += 1) {
      const answer = await post();
      expectOwnError(answer, 429, "upstream_paused");
      expect(Number(answer.headers["retry-after"])).toBeLessThanOrEqual(30);
      expect(answer.error).toMatch(/429/);
    }
    expect(amulet.calls.length).toBe(before);
    // Cached metadata goes on, and other registries are untouched.
    expect((await gateway.get(gateway.base("amulet") + LIST)).cache).toBe("hit");
    expect((await post("bonds")).status).toBe(200);
    clock.advance("31s");
    expect((await post()).status).toBe(200);
  });

  test("is told by /status and metrics as what it is", async () => {
    const { amulet, gateway, post } = await start429();
    amulet.on("allocation_cancel", paused("30"));
    await post();
    const { nodes } = await gateway.operations.upstream("amulet");
    expect((nodes as { pausedUntil?: number }[])[0]!.pausedUntil).toBeGreaterThan(0);
    const { text } = await gateway.operations.get("/status");
    expect(text).toMatch(/answered 429/);
    expect(text).not.toMatch(/used up/);
    expect(await gateway.operations.metric("registry_gateway_upstream_paused_nodes", 'upstream="amulet"')).toBe(1);
  });

  test("pauses its node alone: another is asked", async () => {
    const { amulet, post } = await start429(2);
    amulet.on("allocation_cancel", paused("30"), 0);
    for (let round = 0; round < 20; round += 1) expect((await post()).status).toBe(200);
    expect(
      amulet.calls.filter(({ node, operation }) => node === 0 && operation === "allocation_cancel").length,
    ).toBeLessThanOrEqual(6);
  });

  test.each([
    ["without a Retry-After for a second", undefined, "1100ms"],
    ["for a minute at most", "99999", "61s"],
  ])("holds %s", async (_what, after, span) => {
    const { amulet, post } = await start429();
    amulet.on("allocation_cancel", paused(after));
    expect((await post()).status).toBe(429);
    amulet.on("allocation_cancel", undefined);
    clock.advance(span);
    expect((await post()).status).toBe(200);
  });

  test("a short pause is waited for as the limit is", async () => {
    const { amulet, gateway, post } = await start429();
    amulet.on("allocation_cancel", paused("1"));
    await post();
    amulet.on("allocation_cancel", undefined);
    const before = amulet.count();
    const waiting = post();
    // What was sent before this one waits by now.
    await gateway.get("/nothing");
    expect(amulet.count()).toBe(before);
    clock.advance("1s");
    expect((await waiting).status).toBe(200);
  });
});

describe("concurrency", () => {
  const clock = TestClock.running();
  const serve = useGateway(clock);
  const startFull = async () => {
    const amulet = await startRegistry("amulet");
    const gateway = await serve({ upstreams: [amulet.upstream({ concurrency: 3, hedgeAfter: "0s" })] });
    expect((await gateway.get(LIST)).status).toBe(200);
    return { amulet, gateway };
  };
  const many = (gateway: TestGateway, count: number) => Array.from({ length: count }, () => gateway.post(CANCEL));

  test("so many calls run at once, as many again wait, and the rest are 503 at once", async () => {
    const { amulet, gateway } = await startFull();
    const release = amulet.hold("allocation_cancel");
    const running = many(gateway, 3);
    await amulet.reached(4);
    const waiting = many(gateway, 3);
    await until(async () => (await gateway.operations.upstream("amulet")).waiting === 3);
    for (const answer of many(gateway, 4)) expectOwnError(await answer, 503, "queue_full");
    expect(amulet.count("allocation_cancel")).toBe(3);
    expect((await gateway.get(LIST)).cache).toBe("hit");
    release();
    for (const answer of [...running, ...waiting]) expect((await answer).status).toBe(200);
  });

  test("one that waits to its deadline is 504", async () => {
    const { amulet, gateway } = await startFull();
    amulet.hold("allocation_cancel");
    void Promise.allSettled(many(gateway, 3));
    await amulet.reached(4);
    const late = gateway.post(CANCEL, "{}", { "request-timeout": "2" });
    await until(async () => (await gateway.operations.upstream("amulet")).waiting === 1);
    clock.advance("2s");
    expectOwnError(await late, 504, "queue_timeout");
  });
});
