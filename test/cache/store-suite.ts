import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { Entry } from "../../src/cache/entry.ts";
import type { CacheKey, Store } from "../../src/cache/store.ts";
import type { Coordinator } from "../../src/coordinator/coordinator.ts";
import { until } from "../support/redis.ts";

/** A store under test, with the coordinator whose generations it lives by. */
export interface StoreSetup {
  store: Store;
  coordinator: Coordinator;
  now: () => number;
}

export const infoKey: CacheKey = { partition: "DSO::1220aa", scopes: ["all", "info"], id: "info" };

/** A 200 that is fresh for `fresh` ms, with windows of 30 s and 10 min. */
export function makeEntry(generation: string, now: number, changes: Partial<Entry> = {}): Entry {
  return {
    status: 200,
    fields: ["content-type", "application/json", "etag", '"ü"', "x-twice", "1", "x-twice", "2"],
    body: Buffer.from('{"adminId":"DSO::1220aa","supportedApis":{}}'),
    madeEtag: true,
    generation,
    vary: [],
    variant: "",
    receivedAt: now - 100,
    bornAt: now - 5_000,
    freshUntil: now + 60_000,
    revalidateUntil: now + 90_000,
    usableUntil: now + 660_000,
    staleProhibited: false,
    lifetime: 65_000,
    origins: { lifetime: "cache-control: max-age", staleWhileRevalidate: "config", staleIfError: "config" },
    ...changes,
  };
}

/** What every tier of the cache promises. */
export function describeStore(name: string, setUp: () => StoreSetup | Promise<StoreSetup>): void {
  /** Writes to a shared tier are confirmed to nobody. */
  async function stored(setup: StoreSetup, key: CacheKey, count = 1): Promise<readonly Entry[]> {
    await until(async () => (await setup.store.get(key))?.length === count);
    return (await setup.store.get(key))!;
  }

  /** Some store needs the first look to learn of the partition. */
  async function prepare(): Promise<StoreSetup> {
    const setup = await setUp();
    for (const key of [infoKey, { ...infoKey, partition: "other::1220bb" }]) {
      expect(await setup.store.get(key)).toBeUndefined();
    }
    return setup;
  }

  describe(`${name} store`, () => {
    it("holds nothing of a key it was never given", async () => {
      const { store } = await prepare();
      expect(await store.get({ ...infoKey, id: "never" })).toBeUndefined();
    });

    it("gives back an entry as it was stored, its ages within the time a round trip takes", async () => {
      const setup = await prepare();
      const entry = makeEntry(setup.coordinator.generation(infoKey)!, setup.now());
      setup.store.set(infoKey, entry);
      const [found] = await stored(setup, infoKey);
      const { receivedAt, bornAt, freshUntil, revalidateUntil, usableUntil, body, ...rest } = found!;
      const expected = { ...entry } as Partial<Entry>;
      for (const name of ["receivedAt", "bornAt", "freshUntil", "revalidateUntil", "usableUntil", "body"] as const) {
        delete expected[name];
      }
      expect(rest).toEqual(expected);
      expect(body.equals(entry.body)).toBe(true);
      for (const [instant, was] of [
        [receivedAt, entry.receivedAt],
        [bornAt, entry.bornAt],
        [freshUntil, entry.freshUntil],
        [revalidateUntil, entry.revalidateUntil],
        [usableUntil, entry.usableUntil],
      ] as const) {
        // Never younger than it was; older by what may have passed on the way.
        expect(instant).toBeLessThanOrEqual(was + 1);
        expect(instant).toBeGreaterThan(was - 500);
      }
    });

    it("keeps bytes as they are", async () => {
      const setup = await prepare();
      const body = randomBytes(100_000);
      setup.store.set(infoKey, makeEntry(setup.coordinator.generation(infoKey)!, setup.now(), { body }));
      const [found] = await stored(setup, infoKey);
      expect(found!.body.equals(body)).toBe(true);
    });

    it("replaces an entry", async () => {
      const setup = await prepare();
      const generation = setup.coordinator.generation(infoKey)!;
      setup.store.set(infoKey, makeEntry(generation, setup.now()));
      setup.store.set(infoKey, makeEntry(generation, setup.now(), { body: Buffer.from("second") }));
      await until(async () => (await setup.store.get(infoKey))?.[0]?.body.toString() === "second");
      expect(await setup.store.get(infoKey)).toHaveLength(1);
    });

    it("keeps variants side by side and replaces each alone", async () => {
      const setup = await prepare();
      const generation = setup.coordinator.generation(infoKey)!;
      const variant = (language: string, text: string): Entry =>
        makeEntry(generation, setup.now(), { vary: ["accept-language"], variant: language, body: Buffer.from(text) });
      setup.store.set(infoKey, variant("de", "eins"));
      setup.store.set(infoKey, variant("en", "one"));
      setup.store.set(infoKey, variant("de", "zwei"));
      await stored(setup, infoKey, 2);
      await until(async () => (await setup.store.get(infoKey))!.some((entry) => entry.body.toString() === "zwei"));
      const found = await setup.store.get(infoKey);
      expect(found!.map((entry) => entry.body.toString()).sort()).toEqual(["one", "zwei"]);
    });

    it("keeps partitions apart", async () => {
      const setup = await prepare();
      setup.store.set(infoKey, makeEntry(setup.coordinator.generation(infoKey)!, setup.now()));
      await stored(setup, infoKey);
      expect(await setup.store.get({ ...infoKey, partition: "other::1220bb" })).toBeUndefined();
    });

    it("forgets an entry that is deleted", async () => {
      const setup = await prepare();
      setup.store.set(infoKey, makeEntry(setup.coordinator.generation(infoKey)!, setup.now()));
      await stored(setup, infoKey);
      setup.store.delete(infoKey);
      await until(async () => (await setup.store.get(infoKey)) === undefined);
    });

    it("an entry of before a purge never passes for one of after it", async () => {
      const setup = await prepare();
      const before = setup.coordinator.generation(infoKey)!;
      setup.store.set(infoKey, makeEntry(before, setup.now()));
      await stored(setup, infoKey);
      await setup.coordinator.purge(infoKey.partition, ["info"]);
      setup.store.set(infoKey, makeEntry(before, setup.now()));
      const after = setup.coordinator.generation(infoKey)!;
      expect(after).not.toBe(before);
      expect((await setup.store.get(infoKey))?.filter((entry) => entry.generation === after) ?? []).toEqual([]);
      setup.store.set(infoKey, makeEntry(after, setup.now(), { body: Buffer.from("new") }));
      await until(async () => (await setup.store.get(infoKey))?.some((entry) => entry.generation === after) === true);
    });

    it("keeps pages behind tokens that were issued", async () => {
      const setup = await prepare();
      const key = { ...infoKey, scopes: ["all", "list"], id: "page 2", chain: "25:token" };
      await setup.store.get(key);
      setup.coordinator.issueChain(key.partition, key.chain, "digest");
      setup.store.set(key, makeEntry(setup.coordinator.generation(key)!, setup.now()));
      const [found] = await stored(setup, key);
      expect(found!.generation).toBe(setup.coordinator.generation(key));
    });
  });
}
