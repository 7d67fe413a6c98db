import { describe, expect, test } from "vitest";
import { MINUTE, type Scene, SECOND, seen, settle, Store } from "./scene.ts";

function two(policy = {}) {
  const store = new Store();
  return { store, a: store.replica(policy), b: store.replica(policy) };
}

describe("what one replica stored", () => {
  test("another serves, with its age, whatever their clocks say", async () => {
    const { store, a, b } = two();
    const fields = ["cache-control", "max-age=30, stale-if-error=99", "age", "5", "etag", '"x"', "link", "<é>"];
    await a.answered({ body: "1", fields, generation: 0 });
    await store.advance(3 * SECOND);
    const found = await b.get();
    expect(found).toMatchObject({ outcome: "hit", detail: { stored: true, tier: "redis" } });
    const { bornAt, freshUntil, refreshUntil, errorUntil, ...entry } = found.entry;
    const now = b.clock.now();
    expect([now - bornAt, freshUntil - now, refreshUntil - now, errorUntil - now]).toEqual([8e3, 22e3, 52e3, 121e3]);
    expect(a.cache.peek(a.key)).toMatchObject(entry);
    expect(seen(b.cache.hit(b.key)!)).toBe("hit 200 1");
    expect(b.fetches).toHaveLength(0);
  });

  test("is served stale at once while one replica refreshes it", async () => {
    const { store, a, b } = two();
    await a.answered({ body: "1", fields: ["etag", '"x"'], node: "https://n.example" });
    await store.advance(15 * SECOND);
    const stale = { outcome: "stale", detail: { tier: "redis", reason: "stale-while-revalidate" } };
    expect(await Promise.all([b.get(), b.get()])).toMatchObject([stale, stale]);
    await settle();
    expect(b.fetches.map(({ purpose, condition }) => [purpose, condition?.node])).toEqual([
      ["refresh", "https://n.example"],
    ]);
    await b.last.answer({ status: 304 });
    // The other one finds that out in place of a fetch.
    expect((await a.get()).outcome).toBe("stale");
    await settle();
    expect(a.fetches).toHaveLength(1);
    expect(seen(await a.get())).toBe("hit 200 1");
  });

  test("stands in for a failure at the other", async () => {
    const { store, a, b } = two();
    await a.answered({ body: "1" });
    await store.advance(MINUTE);
    const found = b.get();
    await settle();
    await b.last.fail();
    expect(seen(await found)).toBe("stale 200 1");
  });

  test.for([
    [
      "of an earlier epoch",
      async ({ sharing, key }: Scene): Promise<void> => void (await sharing.purges.purge(key.party)),
    ],
    ["of another generation", (scene: Scene): void => void (scene.key = { ...scene.key, generation: 1 })],
  ] as const)("%s is not used", async ([, change]) => {
    const { a, b } = two();
    await a.answered({ body: "1" });
    await change(b);
    expect(seen(await b.answered({ body: "2" }))).toBe("miss 200 2");
  });

  test.for([
    ["not JSON", "{"],
    ["no object", "[1]"],
    ["without a number", '{"status":200,"fields":[],"etag":"","validators":null}'],
    ["with odd fields", undefined, { fields: ["a"] }],
    ["with fields that are none", undefined, { fields: [1, 2] }],
    ["with odd validators", undefined, { validators: { node: "x" } }],
  ] as const)("with a head that is %s is a miss", async ([, head, changes]) => {
    const { store, a, b } = two();
    await a.answered({ body: "1" });
    const [[id, entry]] = [...store.entries] as [[string, { head: string; body: Buffer; end: number }]];
    const changed = head ?? JSON.stringify({ ...(JSON.parse(entry.head) as object), ...changes });
    store.entries.set(id, { ...entry, head: changed });
    expect(seen(await b.answered({ body: "2" }))).toBe("miss 200 2");
  });

  test("with a body that was cut off is a miss", async () => {
    const { store, a, b } = two();
    await a.answered({ body: "[1]" });
    for (const [id, entry] of store.entries) store.entries.set(id, { ...entry, body: entry.body.subarray(0, 2) });
    expect(seen(await b.answered({ body: "2" }))).toBe("miss 200 2");
  });

  test("goes from Redis, too, once the registry says that it is not to be kept", async () => {
    const { store, a } = two();
    await a.answered({ body: "1" });
    expect(store.entries.size).toBe(1);
    await store.advance(41 * SECOND);
    await a.answered({ body: "2", fields: ["cache-control", "no-store"] });
    expect(store.entries.size).toBe(0);
  });
});

describe("one fetch over all replicas", () => {
  async function held(policy = {}) {
    const scene = two(policy);
    const [atA, atB] = [scene.a.get(), scene.b.get()];
    await settle();
    expect([scene.a.fetches.length, scene.b.fetches.length, scene.store.leases.size]).toEqual([1, 0, 1]);
    return { ...scene, atA, atB };
  }

  test("the others have it within 50 ms of its end", async () => {
    const { store, a, b, atA, atB } = await held();
    await store.advance(5 * SECOND);
    await a.last.answer({ body: "1" });
    await store.advance(50);
    expect([seen(await atA), seen(await atB)]).toEqual(["miss 200 1", "hit 200 1"]);
    expect([b.fetches.length, store.leases.size]).toEqual([0, 0]);
  });

  test.for([
    ["what may not be stored", (a: Scene) => a.last.answer({ fields: ["cache-control", "no-store"] })],
    ["a failure", (a: Scene) => a.last.fail()],
  ] as const)("brings %s: the others go themselves, without a lease", async ([, end]) => {
    const { store, a, b, atB } = await held();
    const c = store.replica();
    const atC = c.get();
    await settle();
    await end(a);
    // Who looks for the lease holds it for that moment: one of the two looks again.
    for (const _look of [1, 2]) await store.advance(50);
    expect([b.fetches.length, c.fetches.length, store.leases.size]).toEqual([1, 1, 0]);
    await b.last.answer({ body: "b" });
    await c.last.answer({ body: "c" });
    expect([seen(await atB), seen(await atC)]).toEqual(["miss 200 b", "miss 200 c"]);
  });

  test("whose replica has died: another goes when the lease is over", async () => {
    const { store, b } = await held();
    const [[id]] = [...store.leases] as [[string, number]];
    store.leases.set(id, store.clock.now() + 2 * SECOND);
    await store.advance(1_900);
    expect(b.fetches).toHaveLength(0);
    await store.advance(200);
    expect(b.fetches).toHaveLength(1);
  });

  test("that never ends is waited for 30 s", async () => {
    const { store, b } = await held();
    for (let i = 0; i < 29; i += 1) await store.advance(SECOND);
    expect(b.fetches).toHaveLength(0);
    for (let i = 0; i < 40; i += 1) await store.advance(50);
    expect(b.fetches).toHaveLength(1);
  });

  test("is waited for until the waiter's own deadline", async () => {
    const { store, b } = await held();
    const hasty = b.get({ deadline: b.clock.now() + 200 });
    await store.advance(200);
    await expect(hasty).rejects.toMatchObject({ code: "upstream_timeout" });
  });

  test("that was begun before a purge holds up nobody who comes after it", async () => {
    const { store, a, b, atA, atB } = await held();
    await b.sharing.purges.purge(b.key.party);
    const after = b.get();
    await settle();
    expect(b.fetches).toHaveLength(1);
    await b.last.answer({ body: "new" });
    expect(seen(await after)).toBe("miss 200 new");
    await a.last.answer({ body: "old" });
    expect(seen(await atA)).toBe("miss 200 old");
    await store.advance(50);
    // Who has waited since before may have what is newer.
    expect(seen(await atB)).toBe("hit 200 new");
    expect([seen(await a.get()), a.fetches.length]).toEqual(["hit 200 new", 1]);
  });

  test("of what was asked for after the purge by one who waited is stored as such", async () => {
    const { store, a, b, atB } = await held();
    await b.sharing.purges.purge(b.key.party);
    await a.last.answer({ body: "old" });
    await store.advance(50);
    expect(b.fetches).toHaveLength(1);
    await b.last.answer({ body: "new" });
    expect(seen(await atB)).toBe("miss 200 new");
    expect(seen(await b.get())).toBe("hit 200 new");
  });

  test("refreshes are one, too", async () => {
    const { store, a, b } = two();
    await a.answered({ body: "1" });
    await b.get();
    await store.advance(15 * SECOND);
    for (const each of [a, b]) expect((await each.get()).outcome).toBe("stale");
    await settle();
    expect([a.fetches.length, b.fetches.length]).toEqual([2, 0]);
    await a.last.answer({ body: "2" });
    await store.advance(50);
    expect([seen(await b.get()), b.fetches.length]).toEqual(["hit 200 2", 0]);
  });
});
