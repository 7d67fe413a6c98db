import { describe, expect, test } from "vitest";
import { type Epochs, softScope } from "../../src/sharing/epochs.ts";
import { CacheFixture, field, RemoteStore } from "../support/cache-fixture.ts";
import { MINUTE, SECOND } from "../support/cache-policy.ts";

const PARTITION = "party::1220";
const POLICY = { ttl: 10 * MINUTE, staleWhileRevalidate: 30 * SECOND, staleIfError: 2 * MINUTE };

const soften = (fixture: CacheFixture, scope = "all", partition = PARTITION) =>
  fixture.coordinator.epochs.purge(partition === "everywhere" ? undefined : partition, [softScope(scope)]);

/** One hit of an entry that was stored a minute ago. */
async function warm(options: Partial<ConstructorParameters<typeof CacheFixture>[0]> = {}): Promise<CacheFixture> {
  const fixture = new CacheFixture({ policy: POLICY, ...options });
  await fixture.get();
  await fixture.advance(MINUTE);
  expect((await fixture.get()).outcome).toBe("hit");
  return fixture;
}

describe("after a soft purge", () => {
  test("what was stored is served stale once, and refreshed", async () => {
    const fixture = await warm();
    await soften(fixture);
    await fixture.advance(1);
    const stale = await fixture.get();
    expect([stale.outcome, stale.body?.toString()]).toEqual(["stale", "body 1"]);
    await fixture.advance(1);
    const fresh = await fixture.get();
    expect([fresh.outcome, fresh.body?.toString()]).toEqual(["hit", "body 2"]);
    expect(fixture.upstream.requests).toHaveLength(2);
  });

  test.each([
    [29 * SECOND, "stale", "body 1"],
    [31 * SECOND, "miss", "body 2"],
  ])("staleWhileRevalidate counts from then: %i ms later it is a %s", async (later, outcome, body) => {
    const fixture = await warm();
    await soften(fixture);
    await fixture.advance(later);
    const answer = await fixture.get();
    expect([answer.outcome, answer.body?.toString()]).toEqual([outcome, body]);
  });

  // Beyond a bound the whole partition had a new epoch: a registry that was down had nothing left.
  test("of more than have an epoch of their own, what was stored is stale, and does not go", async () => {
    const fixture = await warm({ script: (_r, n) => (n === 1 ? {} : { fails: 502 }) });
    for (let i = 0; i < 600; i += 1) await soften(fixture, `instrument:I-${i}`);
    await fixture.advance(31 * SECOND);
    expect((await fixture.get()).body?.toString()).toBe("body 1");
    await fixture.coordinator.epochs.purge(PARTITION, ["all"]);
    await expect(fixture.get()).rejects.toMatchObject({ status: 502 });
  });

  test("staleIfError counts from then", async () => {
    const fixture = await warm({ script: (_r, n) => (n === 1 ? {} : { fails: 502 }) });
    await soften(fixture);
    await fixture.advance(119 * SECOND);
    expect((await fixture.get()).body?.toString()).toBe("body 1");
    await fixture.advance(2 * SECOND);
    await expect(fixture.get()).rejects.toMatchObject({ status: 502 });
  });

  test("what was stale already is no fresher, and its windows no longer", async () => {
    const fixture = await warm({ script: (_r, n) => (n === 1 ? {} : { fails: 502 }) });
    await fixture.advance(10 * MINUTE);
    await soften(fixture);
    await fixture.advance(61 * SECOND);
    await expect(fixture.get()).rejects.toMatchObject({ status: 502 });
  });

  test("a second one gives no second time", async () => {
    const fixture = await warm({ script: (_r, n) => (n === 1 ? {} : { fails: 502 }) });
    await soften(fixture);
    await fixture.advance(100 * SECOND);
    expect((await fixture.get()).outcome).toBe("stale");
    await soften(fixture);
    await fixture.advance(30 * SECOND);
    await expect(fixture.get()).rejects.toMatchObject({ status: 502 });
  });

  test("other scopes and partitions go on; all partitions at once do not", async () => {
    const fixture = await warm();
    await soften(fixture, "list");
    await soften(fixture, "all", "another::1220");
    expect((await fixture.get()).outcome).toBe("hit");
    await soften(fixture, "all", "everywhere");
    await fixture.advance(1);
    expect((await fixture.get()).outcome).toBe("stale");
  });

  test("a purge still wins", async () => {
    const fixture = await warm();
    await soften(fixture);
    await fixture.coordinator.epochs.purge(PARTITION, ["all"]);
    expect((await fixture.get()).outcome).toBe("miss");
    await soften(fixture);
    expect((await fixture.get()).body?.toString()).toBe("body 2");
  });

  test("an answer asked for before it is stale as soon as it is stored", async () => {
    const fixture = new CacheFixture({ policy: POLICY, script: (_r, n) => (n === 1 ? { delay: SECOND } : {}) });
    const early = fixture.get();
    await fixture.advance(500);
    await soften(fixture);
    await fixture.advance(500);
    expect((await early).body?.toString()).toBe("body 1");
    await fixture.advance(1);
    expect((await fixture.get()).outcome).toBe("stale");
    await fixture.advance(1);
    expect((await fixture.get()).body?.toString()).toBe("body 2");
  });

  test("what must not be served stale is asked for anew", async () => {
    const fields = ["cache-control", "max-age=600, must-revalidate"];
    const fixture = await warm({ script: () => ({ fields }) });
    await soften(fixture);
    const answer = await fixture.get();
    expect([answer.outcome, answer.body?.toString()]).toEqual(["miss", "body 2"]);
  });

  test("what the shared tier has from before is stale since then, for a process that begins later as well", async () => {
    const shared = new RemoteStore();
    const first = await warm({ shared });
    await soften(first);
    await first.advance(20 * SECOND);
    const second = new CacheFixture({ policy: POLICY, shared, coordinator: first.coordinator, clock: first.clock });
    const stale = await second.get();
    expect([stale.outcome, field(stale, "cache-status")]).toEqual(["stale", expect.stringContaining("ttl=-20")]);
    await first.advance(11 * SECOND);
    const third = new CacheFixture({
      policy: POLICY,
      shared: new RemoteStore(),
      coordinator: first.coordinator,
      clock: first.clock,
    });
    expect((await third.get()).outcome).toBe("miss");
  });

  test("which says no time, nothing of before is served without asking", async () => {
    const fixture = await warm();
    (fixture.coordinator.epochs as unknown as Epochs).put(PARTITION, softScope("all"), "7.mended");
    expect((await fixture.get()).outcome).toBe("miss");
  });
});
