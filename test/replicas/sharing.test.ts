import { describe, expect, it } from "vitest";
import { startRedis } from "../support/redis.ts";
import { type Replica, startReplica } from "../support/sharing.ts";
import { until } from "../support/until.ts";

const redis = await startRedis();
const key = { party: "DSO::1220aa", name: "page:1000:" };
let prefixes = 0;

/** So many replicas that share keys of their own. */
async function start(count: number): Promise<Replica[]> {
  const keyPrefix = `rg${(prefixes += 1)}:`;
  const replicas = Array.from({ length: count }, () => startReplica({ url: redis.url, keyPrefix }));
  await Promise.all(replicas.map((each) => each.whenUp()));
  return replicas;
}

const keysOf = async (name: string): Promise<string[]> =>
  (await redis.client.keys(`rg${prefixes}:*`)).filter((each) => each.includes(name));

describe("entries", () => {
  const body = Buffer.from(Array.from({ length: 9_000 }, (_none, i) => i % 256));

  it("are read by every replica, byte for byte, with the time that is left to them", async () => {
    const [first, second] = await start(2);
    first!.entries.set(key, { head: '{"epoch":1,"ü":"\\n"}', body, remaining: 60_000 });
    const found = await until(() => second!.entries.get(key));
    expect(found.head).toBe('{"epoch":1,"ü":"\\n"}');
    expect(found.body.equals(body)).toBe(true);
    expect(found.body.buffer.byteLength).toBe(body.length);
    expect(found.remaining).toBeGreaterThan(50_000);
    expect(found.remaining).toBeLessThanOrEqual(60_000);
    first!.entries.delete(key);
    await until(async () => (await second!.entries.get(key)) === undefined);
    expect(second!.commands["get error"]).toBeUndefined();
  });

  it("end with their time, and are kept by key alone", async () => {
    const [replica] = await start(1);
    const names = ["info", `page:1000:${"t".repeat(4_000)}`, `page:1000:${"t".repeat(4_001)}`];
    for (const name of names) replica!.entries.set({ ...key, name }, { head: name.slice(-9), body, remaining: 60_000 });
    replica!.entries.set({ ...key, name: "brief" }, { head: "x", body, remaining: 30.5 });
    replica!.entries.set({ ...key, name: "over" }, { head: "x", body, remaining: 0 });
    const found = await until(async () => {
      const all = await Promise.all([...names, "brief", "over"].map((name) => replica!.entries.get({ ...key, name })));
      return all[2] !== undefined && all[3] === undefined && all;
    });
    expect(found.map((each) => each?.head)).toEqual(["info", "ttttttttt", "ttttttttt", undefined, undefined]);
    expect(await replica!.entries.get({ party: "other::1220aa", name: "info" })).toBeUndefined();
    expect((await keysOf("entry")).every((each) => each.length < 120 && each.includes("{DSO::1220aa}"))).toBe(true);
  });

  it.each([
    { what: "without a head", value: "no line end", life: 60_000 },
    { what: "that never ends", value: "head\nbody", life: 0 },
    { what: "of another kind", value: undefined, life: 60_000 },
    { what: "of another version of the gateway", value: "head\nbody", life: 60_000, version: "0:" },
  ])("foreign ones $what are a miss", async ({ value, life, version }) => {
    const [replica] = await start(1);
    replica!.entries.set(key, { head: "x", body, remaining: 60_000 });
    const [ours] = await until(async () => (await keysOf("entry")).length === 1 && keysOf("entry"));
    await redis.client.del(ours!);
    const theirs = version === undefined ? ours! : ours!.replace(":1:", `:${version}`);
    await (value === undefined ? redis.client.lpush(theirs, "x") : redis.client.set(theirs, value));
    if (life > 0) await redis.client.pexpire(theirs, life);
    expect(await replica!.entries.get(key)).toBeUndefined();
  });

  it("in flight are bounded: what Redis does not take in time is lost", async () => {
    const [replica] = await start(1);
    const large = Buffer.alloc(4 * 2 ** 20);
    for (let i = 0; i < 10; i += 1)
      replica!.entries.set({ ...key, name: `n${i}` }, { head: "x", body: large, remaining: 60_000 });
    await until(() => (replica!.commands["set ok"] ?? 0) + (replica!.commands["set skipped"] ?? 0) === 10);
    expect(replica!.commands["set ok"]).toBe(3);
  });
});

describe("leases", () => {
  it("are one replica's at a time, and end with their release", async () => {
    const [first, second] = await start(2);
    const lease = await first!.leases.acquire(key);
    expect(lease).toBeTypeOf("object");
    expect([await second!.leases.acquire(key), await first!.leases.acquire(key)]).toEqual(["held", "held"]);
    expect(await second!.leases.acquire({ ...key, name: "info" })).toBeTypeOf("object");
    if (typeof lease === "object") lease.release();
    await until(async () => typeof (await second!.leases.acquire(key)) === "object");
  });

  it("are renewed while they are held, and end within 2 s when their holder dies", async () => {
    const [first, second] = await start(2);
    await first!.leases.acquire(key);
    const [name] = await keysOf("lease");
    await redis.client.pexpire(name!, 900);
    // At a third of its life.
    first!.clock.advance("700ms");
    await until(async () => (await redis.client.pttl(name!)) > 1_000);
    expect(await second!.leases.acquire(key)).toBe("held");
    // As a process that dies: its connection ends, and it renews nothing.
    const died = performance.now();
    await first!.close();
    await until(async () => typeof (await second!.leases.acquire(key)) === "object");
    expect(performance.now() - died).toBeLessThan(3_000);
  });

  it("are not another's to renew or to release", async () => {
    const [first] = await start(1);
    const lease = await first!.leases.acquire(key);
    const [name] = await keysOf("lease");
    await redis.client.set(name!, "another's", "PX", 60_000);
    first!.clock.advance("1s");
    await until(() => first!.commands["renew ok"] === 1);
    if (typeof lease === "object") lease.release();
    await until(() => first!.commands["release ok"] === 1);
    expect(await redis.client.get(name!)).toBe("another's");
    expect(await redis.client.pttl(name!)).toBeGreaterThan(10_000);
  });
});

describe("purges", () => {
  it("reach every replica within 250 ms, of one party or of all", async () => {
    const [first, second] = await start(2);
    for (const party of ["a", undefined]) {
      const before = [second!.purges.epochOf("a"), second!.purges.epochOf("b")];
      expect(await first!.purges.purge(party)).toBe("done");
      await until(() => second!.purges.epochOf("a") > before[0]!, 250);
      expect(second!.purges.epochOf("a")).toBe(first!.purges.epochOf("a"));
      expect(second!.purges.epochOf("b") > before[1]!).toBe(party === undefined);
    }
  });

  it("are read within 2 s where their message is lost", async () => {
    const [first, second] = await start(2);
    await first!.purges.purge("a");
    const later = first!.purges.epochOf("a") + 5_000;
    // Whoever is told nothing reads the hash.
    await redis.client.hset(`rg${prefixes}:1:epochs`, "a", later);
    await until(() => first!.purges.epochOf("a") === later && second!.purges.epochOf("a") === later, 2_000);
  });

  it("are above those of a replica whose clock is ahead", async () => {
    const [first, second] = await start(2);
    first!.clock.stepWall(3_600_000);
    await first!.purges.purge("a");
    await second!.purges.purge();
    await until(() => first!.purges.epochOf("a") === second!.purges.epochOf("a"));
    const before = first!.purges.epochOf("a");
    await second!.purges.purge("a");
    expect(second!.purges.epochOf("a")).toBeGreaterThan(before);
  });

  it("that a Redis takes no more are tried again, and forgotten nothing by meanwhile", async () => {
    const [replica] = await start(1);
    await redis.client.config("SET", "min-replicas-to-write", 1);
    expect(await replica!.purges.purge("a")).toBe("pending");
    const epoch = replica!.purges.epochOf("a");
    const tried = replica!.commands["purge error"]!;
    await until(() => replica!.commands["purge error"]! >= tried + 2);
    expect(replica!.purges.epochOf("a")).toBe(epoch);
    await redis.client.config("SET", "min-replicas-to-write", 0);
    await until(async () => Number(await redis.client.hget(`rg${prefixes}:1:epochs`, "a")) > epoch);
    await until(() => replica!.purges.epochOf("a") > epoch);
  });

  it("survive foreign messages and foreign epochs", async () => {
    const [replica] = await start(1);
    await replica!.purges.purge("a");
    const epoch = replica!.purges.epochOf("a");
    for (const message of ["", "x", "NaN a", `9e99 a`, `${epoch + 1}`, `${epoch + 1} ${"a".repeat(2_000)}`]) {
      await redis.client.publish(`rg${prefixes}:1:purges`, message);
    }
    await redis.client.hset(`rg${prefixes}:1:epochs`, { a: "junk", b: "9e99" });
    replica!.clock.advance("1s");
    await until(async () => (await redis.client.hget(`rg${prefixes}:1:epochs`, "a")) === String(epoch));
    expect([replica!.purges.epochOf("a"), replica!.purges.epochOf("b")]).toEqual([epoch, 0]);
    expect(replica!.isUp()).toBe(true);
  });
});

/** Moves a replica's time on, by less than Redis may take to answer. */
function passed({ clock }: Replica, isSo: () => boolean): boolean {
  clock.advance(50);
  return isSo();
}

it("replicas count each other, and miss who leaves or dies", async () => {
  const [first, second, third] = await start(3);
  await until(() => [first, second, third].every((each) => each!.replicas.count() === 3));
  expect(third!.status()).toMatchObject({ redis: "up", replicas: 3 });
  await third!.close();
  await until(() => passed(first!, () => first!.replicas.count() === 2));
  // One that died beats no more; its last beat is old by Redis's clock. Those that are young would take its place.
  for (const { clock } of [first!, second!]) clock.advance("15s");
  await redis.client.zadd(`rg${prefixes}:1:replicas`, Date.now() - 3_800, "died");
  await until(() => first!.replicas.count() === 3);
  await until(() => passed(first!, () => first!.replicas.count() === 2));
});

it("replicas that a Redis saw before it went are still counted when it comes for a moment", async () => {
  const own = await startRedis();
  const replicas = [1, 2, 3].map(() => startReplica({ url: own.url }));
  await until(() => replicas.every((each) => each.replicas.count() === 3));
  await own.kill();
  await until(() => replicas.every((each) => !each.isUp()));
  for (const { clock } of replicas) clock.advance("1m");
  await replicas[1]!.close();
  await replicas[2]!.close();
  await own.start();
  await replicas[0]!.whenUp();
  expect(replicas[0]!.replicas.count()).toBe(3);
  await until(() => passed(replicas[0]!, () => replicas[0]!.replicas.count() === 1));
});

it("where there are more replicas than calls, each makes one in a longer time while Redis is away", async () => {
  const own = await startRedis();
  const replicas = [1, 2, 3].map(() => startReplica({ url: own.url }));
  await until(() => replicas.every((each) => each.replicas.count() === 3));
  await own.kill();
  const [{ limiter, clock }] = replicas as [Replica];
  await replicas[0]!.whenAway();
  const take = async () => (await limiter.take("b", [{ requests: 2, per: 60_000 }])).granted;
  expect([await take(), await take()]).toEqual([true, false]);
  clock.advance("70s");
  expect(await take()).toBe(false);
  clock.advance("30s");
  expect(await take()).toBe(true);
});

it("a replica that falls silent is lost, until another comes in its place", async () => {
  const [first, second] = await start(2);
  const key = `rg${prefixes}:1:replicas`;
  await until(() => first!.replicas.count() === 2);
  for (const { clock } of [first!, second!]) clock.advance("15s");
  const died = Date.now() - 9_500;
  await redis.client.zadd(key, died, "died");
  expect(first!.status().lost).toBeUndefined();
  await until(() => first!.status().lost?.count === 1 && second!.status().lost?.count === 1);
  expect(Math.abs(first!.status().lost!.since - first!.clock.wallNow() + Date.now() - died)).toBeLessThan(3_000);
  const third = startReplica({ url: redis.url, keyPrefix: `rg${prefixes}:` });
  await third.whenUp();
  await until(() => first!.status().lost === undefined && second!.status().lost === undefined);
  expect(third.status()).toMatchObject({ replicas: 3 });
  // One that was started again at once had not fallen silent yet when it came.
  await startReplica({ url: redis.url, keyPrefix: `rg${prefixes}:` }).whenUp();
  await redis.client.zadd(key, Date.now() - 2_500, "started again");
  await until(async () => (await redis.client.zscore(key, "started again")) === null);
  // It is forgotten in an hour, so long as others beat.
  await redis.client.zadd(key, Date.now() - 3_600_000, "forgotten");
  first!.clock.advance("1s");
  await until(async () => (await redis.client.zcard(key)) === 4);
});
