import { measureLoopTime } from "./loop-time.ts";
import type { CacheKey, Entry } from "../../src/sharing/entries.ts";
import { clock, type Replica, startReplica } from "./redis-replicas.ts";
import { type RedisServer, startRedis } from "./redis.ts";
import { until } from "./until.ts";
import { infoKey, makeEntry, put } from "./store-suite.ts";

const closing: (() => Promise<unknown>)[] = [];

/** Ends what a test started, latest first. */
export async function closeAll(): Promise<void> {
  for (const close of closing.splice(0).toReversed()) await close();
}

/** Notes what to end after the test. */
export function later<T extends { stop(): Promise<unknown> }>(started: T): T {
  closing.push(() => started.stop());
  return started;
}

export async function redisServer(): Promise<RedisServer> {
  return later(await startRedis());
}

export async function replicaOn(...args: Parameters<typeof startReplica>): Promise<Replica> {
  const replica = await startReplica(...args);
  closing.push(() => replica.close());
  return replica;
}

/** So many replicas on a Redis of their own. */
export async function replicasOfOne(count: number): Promise<{ server: RedisServer; replicas: Replica[] }> {
  const server = await redisServer();
  const replicas = await Promise.all(Array.from({ length: count }, () => replicaOn({ url: server.url })));
  return { server, replicas };
}

/** Whether it has seen so many replicas, itself included, and counts in Redis alone: 1.5 s after it connected. */
export function isAcquainted({ coordinator, events }: Replica, count: number): boolean {
  const { upSince, heardOfReplicasAt } = events;
  const isLongUp = clock.now() - upSince > 1_700 && heardOfReplicasAt - upSince > 1_500;
  return isLongUp && coordinator.status().replicas === count;
}

/** The same, and every replica has seen the others and goes by the count in Redis alone. */
export async function acquaintedReplicas(count: number): ReturnType<typeof replicasOfOne> {
  const all = await replicasOfOne(count);
  await until(() => all.replicas.every((replica) => isAcquainted(replica, count)));
  return all;
}

export function entryOf(replica: Replica, changes: Partial<Entry> = {}, key: CacheKey = infoKey): Entry {
  return makeEntry(replica.coordinator.epochs.epochOf(key)!, clock.now(), changes);
}

/** What a request may use: an entry of the epoch of now. */
export async function usable(replica: Replica, key: CacheKey = infoKey): Promise<string | undefined> {
  const found = await replica.store.get(key);
  const epoch = replica.coordinator.epochs.epochOf(key);
  return found?.find((entry) => entry.epoch === epoch)?.body.toString();
}

export async function ask(replica: Replica): Promise<{ found: string | undefined; took: number }> {
  const took = measureLoopTime();
  const found = await usable(replica);
  return { found, took: took() };
}

/** Waits for the healed Redis to be used again, and says how long that took. */
export async function healing(replica: Replica): Promise<number> {
  const took = measureLoopTime();
  await until(() => replica.coordinator.status().state === "up");
  await put(replica, infoKey, entryOf(replica, { body: Buffer.from("after") }));
  return took();
}
