import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { cacheKey, type CacheKey, type Entry, type Store } from "../../src/sharing/entries.ts";
import type { Coordinator } from "../../src/sharing/ports.ts";
import { until } from "./until.ts";

/** A store under test, with the coordinator whose epochs it lives by. */
export interface StoreSetup {
  store: Store;
  coordinator: Coordinator;
  now: () => number;
  close: () => Promise<unknown>;
}

export const infoKey: CacheKey = cacheKey({ partition: "DSO::1220aa", scopes: ["all", "info"], id: "info" });

/** A 200 that is fresh for `fresh` ms, with windows of 30 s and 10 min. */
export function makeEntry(epoch: string, now: number, changes: Partial<Entry> = {}): Entry {
  return {
    status: 200,
    fields: ["content-type", "application/json", "etag", '"ü"', "x-twice", "1", "x-twice", "2"],
    body: Buffer.from('{"adminId":"DSO::1220aa","supportedApis":{}}'),
    madeEtag: true,
    softEpoch: "",
    epoch,
    vary: [],
    variant: "",
    receivedAt: now - 100,
    bornAt: now - 5_000,
    madeAt: now - 200,
    freshUntil: now + 60_000,
    revalidateUntil: now + 90_000,
    usableUntil: now + 660_000,
    staleProhibited: false,
    lifetime: 65_000,
    origins: { lifetime: "cache-control: max-age", staleWhileRevalidate: "config", staleIfError: "config" },
    ...changes,
  };
}

/** Stores until the entry is there: any tier may drop a write, and a shared one confirms it to nobody. */
export async function put({ store }: Pick<StoreSetup, "store">, key: CacheKey, entry: Entry): Promise<Entry> {
  let found: Entry | undefined;
  await until(async () => {
    store.set(key, entry);
    const entries = await store.get(key);
    found = entries?.find(({ body, variant }) => body.equals(entry.body) && variant === entry.variant);
    return found !== undefined;
  });
  return found!;
}

/** What every tier of the cache promises. */
export function describeStore(name: string, setUp: () => StoreSetup | Promise<StoreSetup>): void {
  async function use(run: (setup: StoreSetup) => Promise<void>): Promise<void> {
    const setup = await setUp();
    try {
      // A shared tier learns of a partition when it is first asked for.
      for (const partition of [infoKey.partition, "other::1220bb"]) {
        expect(await setup.store.get(cacheKey({ ...infoKey, partition }))).toBeUndefined();
      }
      await run(setup);
    } finally {
      await setup.close();
    }
  }

  describe(`${name} store`, () => {
    test("holds nothing of a key it was never given", () =>
      use(async ({ store }) => {
        expect(await store.get(cacheKey({ ...infoKey, id: "never" }))).toBeUndefined();
      }));

    test("gives back an entry as it was stored, its ages within the time a round trip takes", () =>
      use(async (setup) => {
        const entry = makeEntry(setup.coordinator.epochs.epochOf(infoKey)!, setup.now());
        const found = await put(setup, infoKey, entry);
        expect(withoutInstants(found)).toEqual(withoutInstants(entry));
        for (const name of [
          "receivedAt",
          "bornAt",
          "madeAt",
          "freshUntil",
          "revalidateUntil",
          "usableUntil",
        ] as const) {
          // Never younger than it was; older by what may have passed on the way.
          expect(found[name]).toBeLessThanOrEqual(entry[name] + 1);
          expect(found[name]).toBeGreaterThan(entry[name] - 500);
        }
      }));

    test("keeps bytes as they are", () =>
      use(async (setup) => {
        const body = randomBytes(100_000);
        const epoch = setup.coordinator.epochs.epochOf(infoKey)!;
        expect((await put(setup, infoKey, makeEntry(epoch, setup.now(), { body }))).body.equals(body)).toBe(true);
      }));

    test("replaces an entry", () =>
      use(async (setup) => {
        const epoch = setup.coordinator.epochs.epochOf(infoKey)!;
        await put(setup, infoKey, makeEntry(epoch, setup.now()));
        await put(setup, infoKey, makeEntry(epoch, setup.now(), { body: Buffer.from("second") }));
        expect(await setup.store.get(infoKey)).toHaveLength(1);
      }));

    test("keeps variants side by side and replaces each alone", () =>
      use(async (setup) => {
        const epoch = setup.coordinator.epochs.epochOf(infoKey)!;
        for (const [variant, text] of [
          ["de", "eins"],
          ["en", "one"],
          ["de", "zwei"],
        ] as const) {
          const body = Buffer.from(text);
          await put(setup, infoKey, makeEntry(epoch, setup.now(), { vary: ["accept-language"], variant, body }));
        }
        const found = await setup.store.get(infoKey);
        expect(found?.map((entry) => entry.body.toString()).sort()).toEqual(["one", "zwei"]);
      }));

    test("keeps partitions apart", () =>
      use(async (setup) => {
        await put(setup, infoKey, makeEntry(setup.coordinator.epochs.epochOf(infoKey)!, setup.now()));
        expect(await setup.store.get(cacheKey({ ...infoKey, partition: "other::1220bb" }))).toBeUndefined();
      }));

    test("forgets an entry that is deleted", () =>
      use(async (setup) => {
        const entry = makeEntry(setup.coordinator.epochs.epochOf(infoKey)!, setup.now());
        await put(setup, infoKey, entry);
        setup.store.delete(infoKey, entry);
        await until(async () => (await setup.store.get(infoKey)) === undefined);
      }));

    test("an entry of before a purge never passes for one of after it", () =>
      use(async (setup) => {
        const before = setup.coordinator.epochs.epochOf(infoKey)!;
        await put(setup, infoKey, makeEntry(before, setup.now()));
        await setup.coordinator.epochs.purge(infoKey.partition, ["info"]);
        setup.store.set(infoKey, makeEntry(before, setup.now()));
        const after = setup.coordinator.epochs.epochOf(infoKey)!;
        expect(after).not.toBe(before);
        const found = (await setup.store.get(infoKey)) ?? [];
        expect(found.filter((entry) => entry.epoch === after)).toEqual([]);
        const entry = await put(setup, infoKey, makeEntry(after, setup.now(), { body: Buffer.from("new") }));
        expect(entry.epoch).toBe(after);
      }));

    test("keeps pages behind tokens that were issued", () =>
      use(async (setup) => {
        const key = cacheKey({ ...infoKey, scopes: ["all", "list"], id: "page 2", chain: "25:token" });
        setup.coordinator.chains.issueChain(key.partition, key.chain, "digest");
        const entry = await put(setup, key, makeEntry(setup.coordinator.epochs.epochOf(key)!, setup.now()));
        expect(entry.epoch).toBe(setup.coordinator.epochs.epochOf(key));
      }));
  });
}

function withoutInstants(entry: Entry): object {
  const {
    receivedAt: _,
    bornAt: _b,
    madeAt: _m,
    freshUntil: _f,
    revalidateUntil: _r,
    usableUntil: _u,
    body,
    ...rest
  } = entry;
  return { ...rest, body: body.toString() };
}
