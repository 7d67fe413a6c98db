import { describe, expect, test } from "vitest";
import type { CachePolicy } from "../../src/cache/resource.ts";
import { localCoordinator } from "../../src/sharing/alone.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { CacheFixture, field, RemoteStore, type Script } from "../support/cache-fixture.ts";
import { MINUTE, SECOND } from "../support/cache-policy.ts";

const HONOR: Partial<CachePolicy> = { honorClient: true, ttl: MINUTE, clientFloor: 5 * SECOND };

function asking(cacheControl: string): { headers: Record<string, string> } {
  return { headers: { "cache-control": cacheControl } };
}

test("requests' Cache-Control means nothing unless it is honoured", async () => {
  const fixture = new CacheFixture({ policy: { ttl: MINUTE } });
  await fixture.get();
  await fixture.advance(30 * SECOND);
  for (const value of ["no-cache", "no-store", "max-age=0", "min-fresh=9999"]) {
    expect((await fixture.get(asking(value))).outcome).toBe("hit");
  }
  expect((await fixture.get({ headers: { pragma: "no-cache" } })).outcome).toBe("hit");
  expect((await new CacheFixture({ policy: { ttl: MINUTE } }).get(asking("only-if-cached"))).outcome).toBe("miss");
});

describe("where requests' Cache-Control is honoured", () => {
  test.for([
    ["no-cache", "no-cache", 10, "miss"],
    ["no-cache within the floor", "no-cache", 4, "hit"],
    ["max-age=0", "max-age=0", 10, "miss"],
    ["max-age larger than the age", "max-age=11", 10, "hit"],
    ["min-fresh that is left", "min-fresh=50", 10, "hit"],
    ["min-fresh that is not left", "min-fresh=51", 10, "miss"],
    ["max-stale on a fresh entry", "max-stale=5", 10, "hit"],
    ["max-stale", "max-stale=5", 64, "stale"],
    ["max-stale that is too short", "max-stale=3", 64, "miss"],
    ["only-if-cached", "only-if-cached", 10, "hit"],
    ["only-if-cached and max-stale", "only-if-cached, max-stale", 100, "stale"],
    ["no-store may be answered from the store", "no-store", 10, "hit"],
    ["a malformed directive", "max-age=foo", 10, "hit"],
  ] as const)("%s", async ([, value, seconds, outcome]) => {
    const fixture = new CacheFixture({ policy: HONOR });
    await fixture.get();
    await fixture.advance(seconds * SECOND);
    const answer = await fixture.get(asking(value));
    expect(answer.outcome).toBe(outcome);
    if (outcome === "miss" && seconds < 60) expect(field(answer, "cache-status")).toContain("fwd=request");
  });

  test("Pragma asks like no-cache", async () => {
    const fixture = new CacheFixture({ policy: HONOR });
    await fixture.get();
    await fixture.advance(10 * SECOND);
    expect((await fixture.get({ headers: { pragma: "no-cache" } })).outcome).toBe("miss");
  });

  test("a forced refresh validates what is stored", async () => {
    const fixture = new CacheFixture({
      policy: HONOR,
      script: (_r, n) => ({ status: n === 1 ? 200 : 304, fields: ["etag", '"a"'] }),
    });
    await fixture.get();
    await fixture.advance(10 * SECOND);
    const answer = await fixture.get(asking("no-cache"));
    expect(field(answer, "cache-status")).toBe("registry-gateway;fwd=request;fwd-status=304;ttl=60");
  });

  test("there is one forced refresh at a time, and none within the floor after it", async () => {
    const fixture = new CacheFixture({ policy: HONOR, script: (_r, n) => (n === 1 ? {} : { delay: SECOND }) });
    await fixture.get();
    await fixture.advance(10 * SECOND);
    const answers = Promise.all(Array.from({ length: 20 }, () => fixture.get(asking("no-cache"))));
    await fixture.advance(SECOND);
    expect(new Set((await answers).map((answer) => answer.body?.toString()))).toEqual(new Set(["body 2"]));
    expect((await fixture.get(asking("no-cache"))).outcome).toBe("hit");
    expect(fixture.upstream.requests).toHaveLength(2);
  });

  test("a forced refresh that fails leaves what is fresh", async () => {
    const fixture = new CacheFixture({ policy: HONOR, script: (_r, n) => (n === 1 ? {} : { fails: 502 }) });
    await fixture.get();
    await fixture.advance(10 * SECOND);
    expect(await fixture.get(asking("no-cache"))).toMatchObject({ status: 200, outcome: "hit" });
  });

  test("only-if-cached without anything usable is a 504 that says so", async () => {
    const fixture = new CacheFixture({ policy: HONOR });
    await expect(fixture.get(asking("only-if-cached"))).rejects.toMatchObject({ status: 504 });
    await fixture.get();
    await fixture.advance(70 * SECOND);
    await expect(fixture.get(asking("only-if-cached"))).rejects.toMatchObject({ status: 504 });
    expect(fixture.upstream.requests).toHaveLength(1);
  });

  test("no-store asks for nothing: the answer is for all, and stored as any other", async () => {
    const fixture = new CacheFixture({ policy: HONOR, script: () => ({ delay: SECOND }) });
    const answers = Promise.all([fixture.get(asking("no-store")), fixture.get(asking("no-store")), fixture.get()]);
    await fixture.advance(SECOND);
    expect((await answers).map((answer) => answer.body?.toString())).toEqual(["body 1", "body 1", "body 1"]);
    expect(await fixture.get()).toMatchObject({ outcome: "hit", body: Buffer.from("body 1") });
  });

  describe("the upstream is asked once per floor, whatever a client insists on", () => {
    const INSISTENCE = "no-cache, no-store, max-age=0, min-fresh=9999";

    /** Upstream calls that 100 requests cause, one after the other within the floor. */
    async function callsOf(fixture: CacheFixture, cacheControl = INSISTENCE): Promise<number> {
      const before = fixture.upstream.requests.length;
      for (let i = 0; i < 100; i += 1) {
        await fixture.get(asking(cacheControl)).catch(() => undefined);
        await fixture.advance(40);
      }
      return fixture.upstream.requests.length - before;
    }

    test("for a missing instrument", async () => {
      const fixture = new CacheFixture({
        policy: { ...HONOR, notFoundTtl: 5 * SECOND },
        script: () => ({ status: 404 }),
      });
      expect(await callsOf(fixture)).toBe(1);
    });

    test("for one that is there, and for a cold one", async () => {
      const fixture = new CacheFixture({ policy: HONOR });
      expect(await callsOf(fixture)).toBe(1);
      await fixture.advance(10 * SECOND);
      expect(await callsOf(fixture)).toBe(1);
    });

    test.for<[string, Script]>([
      ["the upstream fails", () => ({ fails: 502 })],
      ["the upstream answers 503", () => ({ status: 503 })],
      ["the answer may no longer be stored", () => ({ fields: ["cache-control", "no-store"] })],
      ["the answer is private", () => ({ fields: ["cache-control", "private"] })],
    ])("where %s", async ([, later]) => {
      const fixture = new CacheFixture({ policy: HONOR, script: (r, n) => (n === 1 ? {} : later(r, n)) });
      await fixture.get();
      await fixture.advance(10 * SECOND);
      expect(await callsOf(fixture)).toBe(1);
    });

    test("where what is stored is stale, and the upstream fails", async () => {
      const fixture = new CacheFixture({
        policy: { ...HONOR, ttl: 2 * SECOND, clientFloor: 10 * SECOND, staleWhileRevalidate: MINUTE },
        script: (_r, n) => (n === 1 ? {} : { fails: 502 }),
      });
      await fixture.get();
      await fixture.advance(10 * SECOND);
      // What clients do not ask for goes on at its own pace.
      const unasked = await callsOf(fixture, "");
      await fixture.advance(10 * SECOND);
      expect(await callsOf(fixture)).toBeLessThanOrEqual(unasked);
    });

    test("where clients go away before the answer comes", async () => {
      const fixture = new CacheFixture({ policy: HONOR, script: (_r, n) => (n === 1 ? {} : { delay: SECOND }) });
      await fixture.get();
      await fixture.advance(10 * SECOND);
      for (let i = 0; i < 20; i += 1) {
        const gone = new AbortController();
        const asked = fixture.get({ ...asking("no-cache"), signal: gone.signal }).catch(() => undefined);
        await fixture.settle();
        gone.abort();
        await asked;
      }
      expect(fixture.upstream.requests).toHaveLength(2);
    });

    test("over all processes", async () => {
      const clock = new ManualClock();
      const options = {
        policy: HONOR,
        clock,
        shared: new RemoteStore(),
        coordinator: localCoordinator(clock),
      };
      const replicas = [1, 2, 3].map(() => new CacheFixture(options));
      for (const replica of replicas) await replica.get();
      await replicas[0]!.advance(10 * SECOND);
      const answers = [];
      for (const replica of replicas) answers.push((await replica.get(asking(INSISTENCE))).outcome);
      expect(answers).toEqual(["miss", "hit", "hit"]);
    });
  });

  test("max-stale never lifts a prohibition", async () => {
    const fields = ["cache-control", "max-age=5, must-revalidate"];
    const fixture = new CacheFixture({ policy: HONOR, script: (_r, n) => (n === 1 ? { fields } : { fails: 502 }) });
    await fixture.get();
    await fixture.advance(6 * SECOND);
    await expect(fixture.get(asking("max-stale"))).rejects.toMatchObject({ status: 502 });
  });

  test("stale-if-error of the request opens a window of its own", async () => {
    const fixture = new CacheFixture({
      policy: HONOR,
      script: (_r, n) => (n === 1 ? { fields: ["cache-control", "max-age=0", "etag", '"a"'] } : { status: 500 }),
    });
    await fixture.get();
    await fixture.advance(2 * SECOND);
    expect((await fixture.get(asking("stale-if-error=3600"))).status).toBe(200);
    expect((await fixture.get(asking("stale-if-error=1"))).status).toBe(500);
    expect((await fixture.get()).status).toBe(500);
  });
});
