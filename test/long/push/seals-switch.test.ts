import { afterEach, expect, test } from "vitest";
import type { Action } from "../../../src/sharing/actions.ts";
import type { Replica } from "../../support/redis-replicas.ts";
import { closeAll, entryOf, isAcquainted, redisServer, replicaOn, usable } from "../../support/redis-scene.ts";
import { until } from "../../support/until.ts";
import { useSealKeys } from "../../support/seal-keys.ts";
import { infoKey, put } from "../../support/store-suite.ts";

const sealKeys = useSealKeys();
afterEach(closeAll);

const cordoned: Action = { upstream: "amulet", mode: "cache-only", by: "no token", from: "loopback" };
const body = (text: string) => ({ body: Buffer.from(text) });

const purge = ({ coordinator }: Replica) =>
  until(async () => (await coordinator.epochs.purge(infoKey.partition, ["info"])) === "fleet");

/** A call of a limit of three an hour that all replicas share, asked for once a replica counts in Redis alone. */
async function take(replica: Replica, count: number): Promise<boolean> {
  await until(() => isAcquainted(replica, count));
  const windows = [{ name: "calls", requests: 3, per: 3_600_000 }];
  const ask = () => replica.coordinator.limits.take({ kind: "upstream", id: "amulet", windows });
  let answer = await ask();
  // On a busy machine Redis may be too slow to be asked now and then.
  await until(async () => answer.granted || Math.max(...answer.used) >= 3 || ((answer = await ask()), false));
  return answer.granted;
}

test("seals are turned on, off and on again, a replica after the other: purges and limits hold, and nothing of before a purge comes back", async () => {
  const { url } = await redisServer();
  const plain = () => replicaOn({ url });
  const sealed = () => replicaOn({ url, sealKeyFile: sealKeys("key", "one") });

  const [a, b] = [await plain(), await plain()];
  await put(a, infoKey, entryOf(a, body("plain")));
  await until(async () => (await usable(b)) === "plain");
  expect(await take(a, 2)).toBe(true);
  await until(async () => (await a.coordinator.actions.act({ action: cordoned, lasts: undefined })) === "fleet");

  // On, beginning with one: the cache is cold for it, and what operators did has to be done again.
  const c = await sealed();
  expect(await usable(c)).toBeUndefined();
  expect(c.coordinator.actions.find("amulet")).toBeUndefined();
  await put(c, infoKey, entryOf(c, body("sealed")));
  await purge(a);
  await until(async () => (await usable(c)) === undefined && (await usable(b)) === undefined);
  await put(c, infoKey, entryOf(c, body("sealed")));
  await purge(c);
  await until(async () => (await usable(c)) === undefined && (await usable(b)) === undefined);
  expect(await take(c, 1)).toBe(true);
  await Promise.all([a.close(), b.close()]);
  const d = await sealed();
  await put(c, infoKey, entryOf(c, body("of before")));
  await until(async () => (await usable(d)) === "of before");
  await until(async () => (await d.coordinator.actions.act({ action: cordoned, lasts: undefined })) === "fleet");
  await until(() => c.coordinator.actions.find("amulet") !== undefined);

  // Off: what operators did stays in force, and limits stay counted.
  const e = await plain();
  await until(() => e.coordinator.actions.find("amulet") !== undefined);
  await Promise.all([c.close(), d.close()]);
  expect(await take(e, 1)).toBe(true);
  expect(await take(e, 1)).toBe(false);
  await purge(e);
  await e.close();

  // On again: entries of the first time are still in Redis.
  const f = await sealed();
  expect(await take(f, 1)).toBe(false);
  for (let i = 0; i < 20; i += 1) expect(await usable(f)).toBeUndefined();
});
