import { describe, expect, test } from "vitest";
import type { Fetched, Resource } from "../../src/cache/resource.ts";
import { localCoordinator } from "../../src/sharing/alone.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { CacheFixture, field, RemoteStore } from "../support/cache-fixture.ts";
import { MINUTE, SECOND } from "../support/cache-policy.ts";

/** A page that fills the instrument in it, as the metadata layer does. */
function paging(fixture: CacheFixture): { page: Resource; instrument: Resource } {
  const instrument = fixture.resourceOf("instrument:A", { policy: { ...fixture.policy, ttl: 20 * SECOND } });
  const page = fixture.resourceOf("page", {
    stored: (entry, fetched) =>
      fixture.cache.fill(instrument, {
        entryOf: fetched,
        body: entry.body.subarray(0, 4),
        maxLifetime: entry.freshUntil - entry.receivedAt,
      }),
  });
  return { page, instrument };
}

describe("an entry filled out of another answer", () => {
  test("is a hit with its own bytes and its own ETag", async () => {
    const fixture = new CacheFixture({
      policy: { ttl: MINUTE },
      script: () => ({ fields: ["etag", '"page"', "x-a", "1"] }),
    });
    const { page, instrument } = paging(fixture);
    await fixture.get({ resource: page });
    const answer = await fixture.get({ resource: instrument });
    expect(answer).toMatchObject({ outcome: "hit", tier: "memory" });
    expect(answer.body?.toString()).toBe("body");
    expect(field(answer, "etag")).not.toBe('"page"');
    expect(field(answer, "x-a")).toBe("1");
    expect(fixture.upstream.requests).toHaveLength(1);
  });

  test.for([
    ["its own TTL", 60, 19, true],
    ["its own TTL over", 60, 21, false],
    ["the page's", 10, 9, true],
    ["the page's over", 10, 11, false],
  ] as const)("is fresh for the shorter of both lifetimes: %s", async ([, ttl, seconds, hit]) => {
    const fixture = new CacheFixture({ policy: { ttl: ttl * SECOND } });
    const { page, instrument } = paging(fixture);
    await fixture.get({ resource: page });
    await fixture.advance(seconds * SECOND);
    expect((await fixture.get({ resource: instrument })).outcome).toBe(hit ? "hit" : "miss");
  });

  test("never takes the place of what was received later", async () => {
    const fixture = new CacheFixture({ policy: { ttl: MINUTE } });
    const { instrument } = paging(fixture);
    const old: Fetched = {
      status: 200,
      fields: [],
      body: Buffer.from("page"),
      requestedAt: fixture.clock.now(),
      receivedAt: fixture.clock.now(),
    };
    await fixture.advance(SECOND);
    await fixture.get({ resource: instrument });
    fixture.cache.fill(instrument, { entryOf: old, body: Buffer.from("old") });
    expect((await fixture.get({ resource: instrument })).body?.toString()).toBe("body 1");
    await fixture.advance(SECOND);
    const now = fixture.clock.now();
    const recent = { ...old, requestedAt: now, receivedAt: now };
    const aged = { ...recent, fields: ["age", "2"] };
    fixture.cache.fill(instrument, { entryOf: aged, body: Buffer.from("old, from a cache of the registry's") });
    expect((await fixture.get({ resource: instrument })).body?.toString()).toBe("body 1");
    fixture.cache.fill(instrument, { entryOf: recent, body: Buffer.from("new") });
    expect((await fixture.get({ resource: instrument })).body?.toString()).toBe("new");
  });

  test("never takes the place of what was received after the page was asked for", async () => {
    const fixture = new CacheFixture({
      policy: { ttl: MINUTE },
      script: (_r, n) => (n === 1 ? { body: "page", delay: 2 * SECOND } : { body: "newer" }),
    });
    const { page, instrument } = paging(fixture);
    const asking = fixture.get({ resource: page });
    await fixture.advance(SECOND);
    expect((await fixture.get({ resource: instrument })).body?.toString()).toBe("newer");
    await fixture.advance(SECOND);
    expect((await asking).body?.toString()).toBe("page");
    expect((await fixture.get({ resource: instrument })).body?.toString()).toBe("newer");
  });

  test.for([
    ["an instrument", { body: "older" }],
    ["a 404", { status: 404 }],
    ["a 304", { status: 304, fields: ["etag", '"a"'] }],
  ] as const)("is not replaced by %s that was asked for before the page, and came later", async ([, slow]) => {
    const fixture = new CacheFixture({
      policy: { ttl: MINUTE, notFoundTtl: MINUTE },
      script: (_r, n) =>
        [
          { body: "first", fields: ["etag", '"a"'] },
          { ...slow, delay: 3 * SECOND },
        ][n - 1] ?? {},
    });
    const { page, instrument } = paging(fixture);
    await fixture.get({ resource: instrument });
    await fixture.advance(25 * SECOND);
    const asking = fixture.get({ resource: instrument });
    await fixture.advance(SECOND);
    await fixture.get({ resource: page });
    await fixture.advance(2 * SECOND);
    await asking;
    expect(await fixture.get({ resource: instrument })).toMatchObject({ outcome: "hit", body: Buffer.from("body") });
    expect(fixture.observer.events).toContain("skipped superseded");
  });

  describe("where another process", () => {
    /** Two processes; the first asks for the instrument, the second for the page. */
    async function race(instrumentAt: number, took: number, behind = 0): Promise<string | undefined> {
      const clock = new ManualClock();
      const shared = new RemoteStore();
      const coordinator = localCoordinator(clock);
      const options = { policy: { ttl: MINUTE }, clock, shared, coordinator };
      // The registry's clock may be behind.
      const date = () => new Date(clock.wallNow() - behind).toUTCString();
      const one = new CacheFixture({
        ...options,
        script: () => ({ body: "single", delay: took, fields: ["date", date()] }),
      });
      const other = new CacheFixture({ ...options, script: () => ({ body: "page", delay: 2 * SECOND }) });
      const { page, instrument } = paging(other);
      const paged = (async () => {
        await new Promise<void>((resolve) => void clock.after(5 * SECOND, resolve));
        return other.get({ resource: page });
      })();
      const asked = (async () => {
        await new Promise<void>((resolve) => void clock.after(instrumentAt, resolve));
        return one.get({ resource: paging(one).instrument });
      })();
      await other.advance(10 * SECOND, 500);
      await Promise.all([paged, asked]);
      const answer = await other.get({ resource: instrument });
      expect((await other.get({ resource: instrument })).tier).toBe("memory");
      expect(other.upstream.requests).toHaveLength(1);
      return answer.body?.toString();
    }

    test.for([
      ["received the instrument before the page was asked for: the page's is used", 3_000, 1_000, "page"],
      ["received it after the page was asked for: that is used", 5_500, 500, "single"],
      ["asked for it after the page was there: that is used", 8_000, 500, "single"],
      ["asked for it before the page, and it came later: the page's is used", 4_500, 4_000, "page"],
      [
        "asked for it after the page was there, by a slow clock long before: that is used",
        8_000,
        500,
        "single",
        MINUTE,
      ],
    ] as const)("%s", async ([, instrumentAt, took, body, behind]) => {
      expect(await race(instrumentAt, took, behind)).toBe(body);
    });
  });

  test("is filled again when a 304 confirms the page, and not when it was purged meanwhile", async () => {
    const fixture = new CacheFixture({
      policy: { ttl: MINUTE },
      script: (_r, n) => ({ status: n === 2 ? 304 : 200, fields: ["etag", '"a"'], delay: SECOND }),
    });
    const { page, instrument } = paging(fixture);
    for (let i = 0; i < 2; i += 1) {
      const asking = fixture.get({ resource: page });
      await fixture.advance(SECOND);
      await asking;
      expect((await fixture.get({ resource: instrument })).outcome).toBe("hit");
      await fixture.advance(2 * MINUTE);
    }
    const asking = fixture.get({ resource: page });
    await fixture.advance(500);
    await fixture.coordinator.epochs.purge("party::1220", ["all"]);
    await fixture.advance(500);
    await asking;
    expect(fixture.cache.hit(instrument, { method: "GET", headers: {} })).toBeUndefined();
  });

  test("keeps only its own bytes alive, not the page's", async () => {
    const fixture = new CacheFixture({ policy: { ttl: MINUTE }, script: () => ({ body: Buffer.alloc(100_000, "a") }) });
    const { page, instrument } = paging(fixture);
    await fixture.get({ resource: page });
    const [entry] = fixture.memory.get(instrument.key)!;
    expect(entry!.body.buffer.byteLength).toBe(4);
  });

  test("is not made where requests select variants", async () => {
    const fixture = new CacheFixture({ policy: { ttl: MINUTE, forwardRequestHeaders: ["x-a"] } });
    const { page, instrument } = paging(fixture);
    await fixture.get({ resource: page });
    expect(fixture.memory.get(instrument.key)).toBeUndefined();
  });
});

describe("explain", () => {
  test("says what is stored, for how long, and where each number is from", async () => {
    const fixture = new CacheFixture({
      policy: { ttl: MINUTE, staleWhileRevalidate: 30 * SECOND, staleIfError: MINUTE },
      script: () => ({ fields: ["cdn-cache-control", "max-age=20, stale-if-error=5", "age", "5"] }),
    });
    await fixture.get();
    await fixture.advance(SECOND);
    expect(await fixture.cache.explain(fixture.resource)).toMatchObject({
      key: fixture.resource.key,
      policy: { ttl: MINUTE },
      fetching: false,
      lastSkip: undefined,
      entries: [
        {
          tier: "memory",
          purged: false,
          status: 200,
          bytes: 6,
          age: 6 * SECOND,
          lifetime: 20 * SECOND,
          freshFor: 14 * SECOND,
          revalidateFor: 44 * SECOND,
          usableFor: 19 * SECOND,
          origins: {
            lifetime: "cdn-cache-control: max-age",
            staleWhileRevalidate: "cache.staleWhileRevalidate",
            staleIfError: "cdn-cache-control: stale-if-error",
          },
        },
      ],
    });
    await fixture.coordinator.epochs.purge("party::1220", ["all"]);
    expect((await fixture.cache.explain(fixture.resource)).entries).toMatchObject([{ purged: true }]);
  });

  test("says why nothing is stored", async () => {
    const fixture = new CacheFixture({ script: () => ({ fields: ["cache-control", "private"] }) });
    await fixture.get();
    await fixture.advance(3 * SECOND);
    const explanation = await fixture.cache.explain(fixture.resource);
    expect(explanation).toMatchObject({ entries: [], lastSkip: { reason: "private", ago: 3 * SECOND } });
  });
});
