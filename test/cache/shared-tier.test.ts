import { describe, expect, test } from "vitest";
import type { CachePolicy } from "../../src/cache/resource.ts";
import { MemoryStore } from "../../src/cache/stores/memory-store.ts";
import type { Store } from "../../src/sharing/entries.ts";
import { localCoordinator } from "../../src/sharing/alone.ts";
import { CacheFixture, field, RemoteStore, type Script } from "../support/cache-fixture.ts";
import { MINUTE, SECOND } from "../support/cache-policy.ts";
import { ManualClock } from "../support/manual-clock.ts";

const POLICY: Partial<CachePolicy> = { ttl: 30 * SECOND, staleWhileRevalidate: MINUTE, staleIfError: MINUTE };

/** Caches of several processes that share a store and a coordinator. */
function fleet(
  count: number,
  script: Script,
  policy = POLICY,
): { replicas: CacheFixture[]; shared: RemoteStore; clock: ManualClock } {
  const clock = new ManualClock();
  const coordinator = localCoordinator(clock);
  const shared = new RemoteStore();
  const replicas = Array.from(
    { length: count },
    () => new CacheFixture({ policy, script, shared, coordinator, clock }),
  );
  return { replicas, shared, clock };
}

const callsOf = (replicas: CacheFixture[]): number =>
  replicas.reduce((sum, { upstream }) => sum + upstream.requests.length, 0);

describe("an entry in the shared tier", () => {
  test("is a hit for another process, and then one in its memory", async () => {
    const { replicas, shared } = fleet(2, () => ({}));
    await replicas[0]!.get();
    await replicas[0]!.advance(2 * SECOND);
    const answer = await replicas[1]!.get();
    expect(answer).toMatchObject({ outcome: "hit", tier: "shared", age: 2 });
    expect(field(answer, "cache-status")).toBe("registry-gateway;hit;ttl=28;detail=shared");
    expect(await replicas[1]!.get()).toMatchObject({ outcome: "hit", tier: "memory" });
    expect(callsOf(replicas)).toBe(1);
    expect(shared.gets).toBe(2);
  });

  test("is compressed when it is hit in another process, not when it is only read there", async () => {
    const { replicas } = fleet(2, () => ({ body: "a".repeat(2_000) }));
    const gzip = { headers: { "accept-encoding": "gzip" } };
    const codings: (string | undefined)[] = [];
    await replicas[0]!.get();
    for (let i = 0; i < 3; i += 1) {
      codings.push(field(await replicas[1]!.get(gzip), "content-encoding"));
      await replicas[1]!.cache.drain();
    }
    expect(codings).toEqual([undefined, undefined, "gzip"]);
  });

  test("is served though others have pushed it out of memory before it could be", async () => {
    const clock = new ManualClock();
    const coordinator = localCoordinator(clock);
    const shared = new RemoteStore();
    const filling = new CacheFixture({
      policy: POLICY,
      script: () => ({ body: "a".repeat(3_000) }),
      shared,
      coordinator,
      clock,
    });
    const resources = Array.from({ length: 20 }, (_, i) => filling.resourceOf(`instrument ${i}`));
    for (const resource of resources) await filling.get({ resource });

    const memory = new MemoryStore({ maxBytes: 20_000, maxObject: 4_000 });
    const replies = Promise.withResolvers<void>();
    const together: Store = {
      get: (key) => replies.promise.then(() => shared.entries.get(key.partition + key.id)),
      set: () => undefined,
      delete: () => undefined,
    };
    const small = new CacheFixture({ policy: POLICY, shared: together, coordinator, clock, memory });
    const asking = Promise.all(resources.map((resource) => small.get({ resource })));
    replies.resolve();
    const answers = await asking;
    expect(memory.entries).toBeGreaterThan(0);
    expect(memory.entries).toBeLessThan(5);
    expect(answers.map(({ tier }) => tier)).toEqual(resources.map(() => "shared"));
    expect(small.upstream.requests).toEqual([]);
  });

  test("is looked up once, however many ask", async () => {
    const { replicas, shared } = fleet(1, () => ({ delay: SECOND }));
    const asking = Promise.all(Array.from({ length: 50 }, () => replicas[0]!.get()));
    await replicas[0]!.advance(SECOND);
    await asking;
    expect(shared.gets).toBe(1);
    expect(callsOf(replicas)).toBe(1);
  });

  test("is served stale like one in memory, and stands in for a failure", async () => {
    const { replicas } = fleet(2, (_r, n) => ({ fails: n === 1 ? 0 : 502 }));
    replicas[0]!.upstream.script = () => ({});
    replicas[1]!.upstream.script = () => ({ fails: 502 });
    await replicas[0]!.get();
    await replicas[0]!.advance(40 * SECOND);
    expect(await replicas[1]!.get()).toMatchObject({ outcome: "stale", tier: "shared" });
  });

  test("is not put over a newer one in memory", async () => {
    const policy = { ttl: 30 * SECOND, staleIfError: 10 * MINUTE };
    const { replicas, shared } = fleet(1, (_r, n) => (n <= 2 ? {} : { fails: 502 }), policy);
    const [replica] = replicas;
    await replica!.get();
    const old = [...shared.entries];
    await replica!.advance(2 * MINUTE);
    await replica!.get();
    for (const [key, entries] of old) shared.entries.set(key, entries);
    await replica!.advance(2 * MINUTE);
    expect(await replica!.get()).toMatchObject({ outcome: "stale", body: Buffer.from("body 2") });
  });

  test("does not come back once it was overtaken, though the shared tier was away", async () => {
    const policy = { ttl: 30 * SECOND, staleIfError: 10 * MINUTE };
    const later: Script = (_r, n) => (n === 2 ? { fields: ["cache-control", "no-store"] } : { fails: 502 });
    const { replicas, shared } = fleet(1, (r, n) => (n === 1 ? {} : later(r, n)), policy);
    const [replica] = replicas;
    await replica!.get();
    const old = [...shared.entries];
    await replica!.advance(2 * MINUTE);
    expect((await replica!.get()).body).toEqual(Buffer.from("body 2"));
    for (const [key, entries] of old) shared.entries.set(key, entries);
    await expect(replica!.get()).rejects.toMatchObject({ status: 502 });
  });

  test("of another epoch does not push out what is in memory", async () => {
    const policy = { ttl: 30 * SECOND, staleIfError: 10 * MINUTE };
    const { replicas, shared } = fleet(1, (_r, n) => (n <= 2 ? {} : { fails: 502 }), policy);
    const [replica] = replicas;
    await replica!.get();
    const old = [...shared.entries];
    await replica!.coordinator.epochs.purge("party::1220", ["all"]);
    await replica!.get();
    for (const [key, entries] of old) shared.entries.set(key, entries);
    await replica!.advance(MINUTE);
    expect(await replica!.get()).toMatchObject({ outcome: "stale", body: Buffer.from("body 2") });
  });

  test("that comes back with inexact times is still the one in memory, and hides no need to renew it", async () => {
    const { replicas, shared } = fleet(1, () => ({}), { ttl: 100 * SECOND });
    const [replica] = replicas;
    shared.jitter = 3;
    await replica!.get();
    for (let i = 0; i < 5; i += 1) await replica!.get();
    await replica!.advance(95 * SECOND);
    await replica!.get();
    await replica!.settle();
    expect(callsOf(replicas)).toBe(2);
  });

  test("that comes back does not make a slow failure forgotten", async () => {
    const { replicas, shared } = fleet(1, (_r, n) => (n === 1 ? {} : { delay: 1000 * MINUTE }), {
      ttl: 10 * SECOND,
      staleIfError: 10 * MINUTE,
    });
    const [replica] = replicas;
    shared.jitter = 3;
    await replica!.get();
    await replica!.advance(15 * SECOND);
    const first = replica!.get();
    await replica!.advance(10 * SECOND);
    expect((await first).outcome).toBe("stale");
    expect((await replica!.get()).outcome).toBe("stale");
    expect(callsOf(replicas)).toBe(2);
  });

  test("is not made of errors", async () => {
    const { replicas, shared } = fleet(1, () => ({ status: 404 }), { notFoundTtl: 5 * SECOND });
    await replicas[0]!.get();
    expect((await replicas[0]!.get()).outcome).toBe("hit");
    expect(shared.entries.size).toBe(0);
  });

  test("is dropped when the upstream says it is gone", async () => {
    const { replicas, shared } = fleet(1, (_r, n) => ({ status: n === 1 ? 200 : 404 }), {
      ...POLICY,
      staleWhileRevalidate: 0,
    });
    await replicas[0]!.get();
    expect(shared.entries.size).toBe(1);
    await replicas[0]!.advance(40 * SECOND);
    await replicas[0]!.get();
    expect(shared.entries.size).toBe(0);
  });
});

describe("several processes", () => {
  test("cause one fetch", async () => {
    const { replicas } = fleet(4, () => ({ delay: 2 * SECOND }));
    const asking = Promise.all(replicas.flatMap((replica) => Array.from({ length: 25 }, () => replica.get())));
    await replicas[0]!.advance(2 * SECOND);
    const answers = await asking;
    expect(callsOf(replicas)).toBe(1);
    expect(new Set(answers.map(({ tier }) => tier))).toEqual(new Set(["upstream", "shared"]));
  });

  test("cause one refresh", async () => {
    const { replicas } = fleet(3, () => ({ delay: SECOND }));
    const first = replicas.map((replica) => replica.get());
    await replicas[0]!.advance(SECOND);
    await Promise.all(first);
    await replicas[0]!.advance(31 * SECOND);
    for (const replica of replicas) expect((await replica.get()).outcome).toBe("stale");
    await replicas[0]!.advance(SECOND);
    for (const replica of replicas) expect((await replica.get()).outcome).toBe("hit");
    expect(callsOf(replicas)).toBe(2);
  });

  test("go their own ways as soon as an answer is not for all", async () => {
    const { replicas } = fleet(3, () => ({ delay: SECOND, fields: ["cache-control", "private"] }));
    const asking = Promise.all(replicas.map((replica) => replica.get()));
    await replicas[0]!.advance(SECOND);
    expect(callsOf(replicas)).toBe(3);
    await replicas[0]!.advance(SECOND);
    await asking;
  });

  test("go themselves, at once, when the one that went gets an error", async () => {
    const { replicas } = fleet(3, () => ({ delay: SECOND }));
    replicas[0]!.upstream.script = () => ({ delay: SECOND, fails: 502 });
    const asking = Promise.allSettled(replicas.map((replica) => replica.get()));
    await replicas[0]!.advance(2 * SECOND, 100);
    const statuses = (await asking).map((answer) => (answer.status === "fulfilled" ? answer.value.status : "failed"));
    expect(statuses).toEqual(["failed", 200, 200]);
    expect(callsOf(replicas)).toBe(3);
  });

  test("do not wait for each other where there is nothing to share the answer by", async () => {
    const clock = new ManualClock();
    const coordinator = localCoordinator(clock);
    const options = { policy: POLICY, clock, coordinator, script: () => ({ delay: SECOND }) };
    const processes = [new CacheFixture(options), new CacheFixture(options)];
    const asking = Promise.all(processes.map((one) => one.get()));
    await processes[0]!.settle();
    expect(callsOf(processes)).toBe(2);
    await processes[0]!.advance(SECOND);
    await asking;
  });

  test("do not wait longer for each other than their clients do", async () => {
    const { replicas } = fleet(2, () => ({ delay: 5 * SECOND }));
    const first = replicas[0]!.get();
    await replicas[0]!.settle();
    const hasty = replicas[1]!.get({ timeout: SECOND }).catch((error: unknown) => error);
    await replicas[0]!.advance(SECOND);
    expect(await hasty).toMatchObject({ status: 504 });
    await replicas[0]!.advance(4 * SECOND);
    expect((await first).status).toBe(200);
  });
});
