import { describe, expect, test } from "vitest";
import { cacheKey } from "../../src/sharing/entries.ts";
import { CacheFixture, field, RemoteStore } from "../support/cache-fixture.ts";
import { MINUTE, SECOND } from "../support/cache-policy.ts";

const PARTITION = "party::1220";
const POLICY = { ttl: 30 * SECOND, staleWhileRevalidate: MINUTE, staleIfError: MINUTE };

describe("after a purge", () => {
  test("what was stored is never served again, fresh or stale", async () => {
    const fixture = new CacheFixture({ policy: POLICY, script: (_r, n) => (n === 1 ? {} : { fails: 502 }) });
    await fixture.get();
    await fixture.coordinator.epochs.purge(PARTITION, ["all"]);
    await expect(fixture.get()).rejects.toMatchObject({ status: 502 });
  });

  test("other scopes go on", async () => {
    const fixture = new CacheFixture({ policy: POLICY });
    await fixture.get();
    await fixture.coordinator.epochs.purge(PARTITION, ["list"]);
    expect((await fixture.get()).outcome).toBe("hit");
  });

  test("the answer of a fetch that was under way is for those who asked before, and is not stored", async () => {
    const fixture = new CacheFixture({ policy: POLICY, script: () => ({ delay: SECOND }) });
    const before = fixture.get();
    await fixture.advance(500);
    await fixture.coordinator.epochs.purge(PARTITION, ["all"]);
    const after = fixture.get();
    await fixture.advance(500);
    expect((await before).body?.toString()).toBe("body 1");
    expect(field(await before, "cache-status")).toBe("registry-gateway;fwd=uri-miss;detail=purged");
    await fixture.advance(500);
    expect((await after).body?.toString()).toBe("body 2");
    expect((await fixture.get()).body?.toString()).toBe("body 2");
    expect(fixture.upstream.requests).toHaveLength(2);
  });

  test("a refresh that was under way stores nothing, not even by a 304", async () => {
    const fixture = new CacheFixture({
      policy: POLICY,
      script: (_r, n) => (n === 2 ? { status: 304, delay: SECOND } : { fields: ["etag", '"a"'] }),
    });
    await fixture.get();
    await fixture.advance(40 * SECOND);
    expect((await fixture.get()).outcome).toBe("stale");
    await fixture.coordinator.epochs.purge(PARTITION, ["all"]);
    await fixture.advance(SECOND);
    expect((await fixture.get()).body?.toString()).toBe("body 3");
    expect(fixture.upstream.requests[2]?.conditional).toEqual([]);
  });

  test("the shared tier gives nothing of before", async () => {
    const shared = new RemoteStore();
    const first = new CacheFixture({ policy: POLICY, shared });
    await first.get();
    const second = new CacheFixture({ policy: POLICY, shared, coordinator: first.coordinator, clock: first.clock });
    await first.coordinator.epochs.purge(PARTITION, ["all"]);
    expect((await second.get()).outcome).toBe("miss");
  });

  test("a failing upstream does not bring back what was stale when the purge came", async () => {
    const fixture = new CacheFixture({
      policy: { ...POLICY, staleWhileRevalidate: 0 },
      script: (_r, n) => (n === 1 ? {} : { fails: 502, delay: SECOND }),
    });
    await fixture.get();
    await fixture.advance(40 * SECOND);
    const asking = fixture.get().catch((error: unknown) => error);
    await fixture.advance(500);
    await fixture.coordinator.epochs.purge(PARTITION, ["all"]);
    await fixture.advance(500);
    expect(await asking).toMatchObject({ status: 502 });
  });
});

describe("a page behind a token", () => {
  const chained = (fixture: CacheFixture) =>
    fixture.resourceOf("page", { key: cacheKey({ partition: PARTITION, id: "page", scopes: ["list"], chain: "t1" }) });

  test("that nobody issued is passed on and never stored", async () => {
    const fixture = new CacheFixture({ policy: POLICY });
    const resource = chained(fixture);
    for (let i = 1; i <= 2; i += 1) {
      const answer = await fixture.get({ resource });
      expect(answer).toMatchObject({ outcome: "bypass", body: Buffer.from(`body ${i}`) });
      expect(field(answer, "cache-status")).toBe("registry-gateway;fwd=bypass;detail=unissued-token");
    }
    expect(fixture.upstream.requests[0]?.epoch).toBeUndefined();
  });

  test("that nobody issued is not shared with those who ask after a purge", async () => {
    const fixture = new CacheFixture({ policy: POLICY, script: () => ({ delay: SECOND }) });
    const resource = chained(fixture);
    const before = [fixture.get({ resource }), fixture.get({ resource })];
    await fixture.advance(500);
    await fixture.coordinator.epochs.purge(PARTITION, ["list"]);
    const after = fixture.get({ resource });
    await fixture.advance(SECOND);
    for (const each of before) expect((await each).body?.toString()).toBe("body 1");
    expect((await after).body?.toString()).toBe("body 2");
  });

  test("is stored once the token was issued, until the page before changes", async () => {
    const fixture = new CacheFixture({ policy: POLICY });
    const resource = chained(fixture);
    fixture.coordinator.chains.issueChain(PARTITION, "t1", "digest 1");
    await fixture.get({ resource });
    expect((await fixture.get({ resource })).outcome).toBe("hit");
    fixture.coordinator.chains.issueChain(PARTITION, "t1", "digest 1");
    expect((await fixture.get({ resource })).outcome).toBe("hit");
    fixture.coordinator.chains.issueChain(PARTITION, "t1", "digest 2");
    expect((await fixture.get({ resource })).outcome).toBe("miss");
  });
});
