import { describe, expect, test } from "vitest";
import { cacheKey, type CacheKey, type Entry } from "../../src/sharing/entries.ts";
import { MemoryStore } from "../../src/cache/stores/memory-store.ts";
import { policy } from "../support/cache-policy.ts";

const MIB = 2 ** 20;

function entry(changes: Partial<Entry> = {}): Entry {
  return {
    status: 200,
    fields: ["etag", '"a"'],
    body: Buffer.alloc(100, "a"),
    madeEtag: false,
    softEpoch: "",
    epoch: "g",
    vary: [],
    variant: "",
    receivedAt: 0,
    bornAt: 0,
    madeAt: 0,
    freshUntil: 1,
    revalidateUntil: 1,
    usableUntil: 1,
    staleProhibited: false,
    lifetime: 1,
    origins: { lifetime: "", staleWhileRevalidate: "", staleIfError: "" },
    ...changes,
  };
}

const key = (id: string): CacheKey => cacheKey({ partition: "p", id, scopes: ["all"] });

describe("the memory tier", () => {
  test("never holds more bytes than it may, and keeps what is used", () => {
    const evictions: number[] = [];
    const store = new MemoryStore({ maxBytes: MIB, maxObject: MIB, observer: { evicted: () => evictions.push(1) } });
    store.set(key("hot"), entry({ body: Buffer.from("hot") }));
    for (let i = 0; i < 3_000; i += 1) {
      store.set(key(`page ${i}`), entry({ body: Buffer.alloc(1_000) }));
      expect(store.get(key("hot"))?.[0]?.body.toString()).toBe("hot");
      expect(store.bytes).toBeLessThanOrEqual(MIB);
    }
    expect(store.entries).toBeGreaterThan(250);
    expect(evictions.length).toBe(3_001 - store.entries);
  });

  test("gives errors a small share of their own: made-up ids push out nothing", () => {
    const store = new MemoryStore({ maxBytes: MIB, maxObject: MIB });
    for (let i = 0; i < 200; i += 1) store.set(key(`good ${i}`), entry({ body: Buffer.alloc(1_000) }));
    for (let i = 0; i < 5_000; i += 1) store.set(key(`bad ${i}`), entry({ status: 404 }));
    for (let i = 0; i < 200; i += 1) expect(store.get(key(`good ${i}`))).toHaveLength(1);
    expect(store.get(key("bad 4999"))).toHaveLength(1);
    expect(store.entries).toBeLessThan(200 + 32);
  });

  test("counts what is kept to answer in more forms, and makes room for it", () => {
    const store = new MemoryStore({ maxBytes: MIB, maxObject: MIB });
    const fields = Array.from({ length: 20 }, (_, i) => [`x-${i}`, "v".repeat(100)]).flat();
    const all = Array.from({ length: 60 }, (_, i) => key(`page ${i}`));
    for (const each of all) store.set(each, entry({ fields, body: Buffer.alloc(2_000, "a") }));
    expect(store.entries).toBe(60);
    const before = store.bytes;
    for (const each of all) {
      const cached = store.variants(each)?.[0];
      if (cached === undefined) continue;
      for (let form = 0; form < 8; form += 1) cached.forms.hit(form, 0, policy());
      store.recount(each, cached);
      expect(cached.forms.counted).toBe(8);
    }
    // The text of the fields alone, seven times more.
    expect((store.bytes - before + (60 - store.entries) * (before / 60)) / store.entries).toBeGreaterThan(14_000);
    expect(store.entries).toBeLessThan(60);
    expect(store.bytes).toBeLessThanOrEqual(MIB);
  });

  test("does not hold bodies larger than the largest object, nor what was there before", () => {
    const store = new MemoryStore({ maxBytes: MIB, maxObject: 1_000 });
    store.set(key("a"), entry());
    store.set(key("a"), entry({ body: Buffer.alloc(1_001) }));
    expect(store.get(key("a"))).toBeUndefined();
    expect(store.bytes).toBe(0);
    expect(store.put(key("b"), entry({ body: Buffer.alloc(1_000) }))).toBeDefined();
  });

  test("replaces the same variant and keeps others, the most recent first", () => {
    const store = new MemoryStore({ maxBytes: MIB, maxObject: MIB });
    store.set(key("a"), entry({ variant: "x", receivedAt: 1 }));
    store.set(key("a"), entry({ variant: "y", receivedAt: 2 }));
    store.set(key("a"), entry({ variant: "x", receivedAt: 3 }));
    store.set(key("a"), entry({ variant: "z", receivedAt: 2.5, status: 404 }));
    expect(store.get(key("a"))?.map(({ variant, receivedAt }) => [variant, receivedAt])).toEqual([
      ["x", 3],
      ["z", 2.5],
      ["y", 2],
    ]);
  });

  test("has a place for a success among errors of as many other variants as are kept", () => {
    const store = new MemoryStore({ maxBytes: 64 * MIB, maxObject: MIB });
    for (let i = 0; i < 20; i += 1) {
      store.set(key("a"), entry({ variant: `v${i}`, status: 404, receivedAt: i }));
    }
    store.set(key("a"), entry({ variant: "x", receivedAt: 20 }));
    const variants = store.get(key("a"))!;
    expect(variants).toHaveLength(16);
    expect(variants[0]).toMatchObject({ variant: "x", status: 200 });
  });

  test("drops what is of another epoch", () => {
    const store = new MemoryStore({ maxBytes: MIB, maxObject: MIB });
    store.set(key("a"), entry({ variant: "x", epoch: "1" }));
    store.set(key("a"), entry({ variant: "y", epoch: "2" }));
    expect(store.get(key("a"))?.map(({ variant }) => variant)).toEqual(["y"]);
  });

  test("lets an error take the place of a success and the other way round", () => {
    const store = new MemoryStore({ maxBytes: MIB, maxObject: MIB });
    for (const status of [200, 404, 200]) {
      store.set(key("a"), entry({ status }));
      expect(store.get(key("a"))?.map(({ status }) => status)).toEqual([status]);
      expect(store.entries).toBe(1);
    }
  });

  test("forgets a deleted variant, and no other", () => {
    const store = new MemoryStore({ maxBytes: MIB, maxObject: MIB });
    const found = entry({ variant: "x" });
    const missing = entry({ variant: "y", status: 404 });
    store.set(key("a"), found);
    store.set(key("a"), missing);
    store.delete(key("a"), found);
    expect(store.get(key("a"))?.map(({ status }) => status)).toEqual([404]);
    store.delete(key("a"), missing);
    expect([store.get(key("a")), store.bytes]).toEqual([undefined, 0]);
  });

  test("keeps a coded body only beside the entry it was made of", () => {
    const store = new MemoryStore({ maxBytes: MIB, maxObject: MIB });
    const old = store.put(key("a"), entry())!;
    const now = store.put(key("a"), entry())!;
    store.attach(key("a"), old, 1, Buffer.alloc(10));
    expect(old.forms.coded[1]).toBeUndefined();
    store.attach(key("a"), now, 1, Buffer.alloc(10));
    expect(store.variants(key("a"))?.[0]?.forms.coded[1]).toHaveLength(10);
  });

  test("tells partitions apart", () => {
    const store = new MemoryStore({ maxBytes: MIB, maxObject: MIB });
    store.set(cacheKey({ partition: "a", id: "b", scopes: [] }), entry());
    expect(store.get(cacheKey({ partition: "b", id: "a", scopes: [] }))).toBeUndefined();
  });
});
