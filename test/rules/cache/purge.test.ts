import { describe, expect, test } from "vitest";
import { MINUTE, Scene, type Scripted, seen, settle } from "./scene.ts";

/** A question whose fetch runs, and that fetch. */
async function begun(scene: Scene) {
  const found = scene.get();
  await settle();
  return { found, fetch: scene.last };
}

const TAGGED: Scripted = { body: "1", fields: ["etag", '"a"'] };

describe("a purge", () => {
  const purge = ({ sharing, key }: Scene, party = key.party): Promise<unknown> => sharing.purges.purge(party);

  test.for([
    ["of the registry", "amulet::1220", false],
    ["of another", "bonds::1220", true],
    ["of all", undefined, false],
  ] as const)("%s", async ([, party, stays]) => {
    const scene = new Scene();
    await scene.answered({ body: "1" });
    await scene.sharing.purges.purge(party);
    expect(scene.cache.hit(scene.key) !== undefined).toBe(stays);
    expect((await scene.cache.explain(scene.key)).entries[0]?.use).toBe(stays ? "fresh" : "purged");
  });

  test("what was asked for before goes to those who have waited since before, and is never stored", async () => {
    const scene = new Scene();
    const { found: before, fetch: old } = await begun(scene);
    await purge(scene);
    const after = scene.get();
    await settle();
    expect(scene.fetches).toHaveLength(2);
    await old.answer({ body: "old" });
    expect(await before).toMatchObject({ outcome: "miss", detail: { stored: false, reason: "purged" } });
    expect(seen(await before)).toBe("miss 200 old");
    expect(scene.cache.peek(scene.key)).toBeUndefined();
    await scene.last.answer({ body: "new" });
    expect(seen(await after)).toBe("miss 200 new");
    expect(seen(await scene.get())).toBe("hit 200 new");
  });

  test("what was asked for before and comes later does not take the place of what was asked for since", async () => {
    const scene = new Scene();
    const { found: before, fetch: old } = await begun(scene);
    await purge(scene);
    await scene.answered({ body: "new" });
    await old.answer({ body: "old" });
    expect(seen(await before)).toBe("miss 200 old");
    expect(seen(await scene.get())).toBe("hit 200 new");
  });

  test("stale entries from before stand in for nothing, and no condition is made of them", async () => {
    const scene = new Scene();
    await scene.answered(TAGGED);
    await scene.advance(MINUTE);
    const before = scene.get();
    await settle();
    await purge(scene);
    await scene.last.fail();
    await expect(before).rejects.toThrow("the registry broke off");
    void scene.get();
    await settle();
    expect(scene.last.condition).toBeUndefined();
  });

  test("a 304 from before renews nothing", async () => {
    const scene = new Scene();
    await scene.answered(TAGGED);
    await scene.advance(MINUTE);
    const before = scene.get();
    await settle();
    await purge(scene);
    await scene.last.answer({ status: 304 });
    expect(seen(await before)).toBe("revalidated 200 1");
    expect(scene.cache.peek(scene.key)).toBeUndefined();
  });
});

describe("a generation", () => {
  test("of a key makes what is of another one a miss", async () => {
    const scene = new Scene();
    const group = "amulet::1220 pages";
    await scene.answered({ body: "1" });
    scene.key = { ...scene.key, generation: scene.cache.beginGeneration(group) };
    expect(scene.cache.generationOf(group)).toBe(scene.key.generation);
    expect(scene.cache.peek(scene.key)).toBeUndefined();
    expect((await scene.cache.explain(scene.key)).entries[0]?.use).toBe("earlier-listing");
  });

  test("of a key joins no fetch of one before, which may bring what has changed since", async () => {
    const scene = new Scene();
    const { found: before, fetch: old } = await begun(scene);
    scene.key = { ...scene.key, generation: 1 };
    const after = scene.answered({ body: "new" });
    expect(seen(await after)).toBe("miss 200 new");
    await old.answer({ body: "old" });
    expect(seen(await before)).toBe("miss 200 old");
  });

  test("that an answer begins is its own", async () => {
    const scene = new Scene();
    await scene.answered({ body: "1", generation: 7 });
    expect(scene.cache.hit(scene.key)).toBeUndefined();
    expect(seen(scene.cache.hit({ ...scene.key, generation: 7 })!)).toBe("hit 200 1");
  });
});
