import { describe, expect, test } from "vitest";
import type { CachePolicy } from "../../src/cache/policy.ts";
import { CacheFixture, field } from "./support/cache-fixture.ts";
import { MINUTE, SECOND } from "./support/policy.ts";

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

  test("no-store keeps the answer out of the store, and to itself", async () => {
    const fixture = new CacheFixture({ policy: HONOR, script: () => ({ delay: SECOND }) });
    const answers = Promise.all([fixture.get(asking("no-store")), fixture.get(asking("no-store")), fixture.get()]);
    await fixture.advance(SECOND);
    expect((await answers).map((answer) => answer.body?.toString())).toEqual(["body 1", "body 2", "body 3"]);
    expect((await fixture.get()).body?.toString()).toBe("body 3");
    expect(fixture.observer.events).toContain("skipped request");
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
