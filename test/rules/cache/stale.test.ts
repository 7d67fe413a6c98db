import { describe, expect, test } from "vitest";
import { GatewayError } from "../../../src/errors.ts";
import { MINUTE, Scene, type Scripted, SECOND, seen, settle } from "./scene.ts";

describe("stale", () => {
  async function aged(age: number, scripted: Scripted = { body: "1" }, policy = {}): Promise<Scene> {
    const scene = new Scene(policy);
    await scene.answered(scripted);
    await scene.advance(age);
    return scene;
  }

  test("is served at once while one refresh runs", async () => {
    const scene = await aged(15 * SECOND);
    expect(scene.cache.hit(scene.key)).toBeUndefined();
    for (let i = 0; i < 3; i += 1) {
      expect(await scene.get()).toMatchObject({ outcome: "stale", detail: { reason: "stale-while-revalidate" } });
      await settle();
    }
    expect(scene.fetches.map(({ purpose }) => purpose)).toEqual(["miss", "refresh"]);
    await scene.last.answer({ body: "2" });
    expect(seen(await scene.get())).toBe("hit 200 2");
  });

  test("after the window somebody has to wait", async () => {
    const scene = await aged(41 * SECOND);
    expect(await scene.answered({ body: "2" })).toMatchObject({ outcome: "miss", detail: { forward: "stale" } });
  });

  test("after a refresh that failed none is tried for a second", async () => {
    const scene = await aged(15 * SECOND);
    for (const [age, fetches] of [
      [0, 2],
      [900, 2],
      [200, 3],
    ] as const) {
      await scene.advance(age);
      expect((await scene.get()).outcome).toBe("stale");
      await settle();
      expect(scene.fetches).toHaveLength(fetches);
      await scene.last.fail();
    }
  });

  test.for<[string, (scene: Scene) => Promise<void>]>([
    ["a fetch that fails", (scene) => scene.last.fail()],
    ["a limit of ours", (scene) => scene.last.fail(new GatewayError("rate_limited", "too many"))],
    ["a 503", (scene) => scene.last.answer({ status: 503 })],
    ["a 429", (scene) => scene.last.answer({ status: 429 })],
    ["a 404 of what cannot be absent", (scene) => scene.last.answer({ status: 404 })],
    ["a 400", (scene) => scene.last.answer({ status: 400 })],
  ])("stands in for %s, and stays", async ([, fail]) => {
    const scene = await aged(5 * MINUTE, { body: "1" }, { notFoundTtl: undefined });
    const first = scene.get();
    await settle();
    await fail(scene);
    expect(await first).toMatchObject({ outcome: "stale", detail: { forward: "stale", reason: "stale-if-error" } });
    // From now on nobody waits for a registry that is known to fail.
    expect(seen(await scene.get())).toBe("stale 200 1");
    await scene.advance(2 * SECOND);
    expect(seen(await scene.get())).toBe("stale 200 1");
    await settle();
    expect(scene.last.purpose).toBe("refresh");
    await scene.last.answer({ body: "2" });
    expect(seen(await scene.get())).toBe("hit 200 2");
  });

  test("stands in for a failure of 15 s ago no more: the registry is asked first", async () => {
    const scene = await aged(5 * MINUTE);
    const first = scene.get();
    await settle();
    await scene.last.fail();
    expect(seen(await first)).toBe("stale 200 1");
    await scene.advance(16 * SECOND);
    expect(seen(await scene.answered({ body: "2" }))).toBe("miss 200 2");
  });

  test("stands in for a registry that is later than the client waits", async () => {
    const scene = await aged(5 * MINUTE);
    const hasty = scene.get({ deadline: scene.clock.now() + SECOND });
    await scene.advance(SECOND);
    expect(seen(await hasty)).toBe("stale 200 1");
  });

  test("is nothing to a client that has gone", async () => {
    const scene = await aged(5 * MINUTE);
    const leaving = new AbortController();
    const gone = scene.get({ signal: leaving.signal });
    await settle();
    leaving.abort();
    await expect(gone).rejects.toMatchObject({ code: "client_gone" });
  });

  test("stands in for no fault of ours", async () => {
    const scene = await aged(5 * MINUTE);
    const first = scene.get();
    await settle();
    await scene.last.fail(new TypeError("a bug"));
    await expect(first).rejects.toThrow("a bug");
  });

  test.for([
    ["after staleIfError", 11 * MINUTE, { body: "1" }],
    ["under must-revalidate", 15 * SECOND, { body: "1", fields: ["cache-control", "must-revalidate"] }],
    ["beside s-maxage alone", 15 * SECOND, { body: "1", fields: ["cache-control", "s-maxage=10"] }],
  ] as const)("is not served %s", async ([, age, scripted]) => {
    const scene = await aged(age, scripted);
    const found = scene.get();
    await settle();
    await scene.last.fail();
    await expect(found).rejects.toThrow("the registry broke off");
  });

  test("is over once the registry says something new that is not to be stored", async () => {
    const scene = await aged(15 * SECOND);
    await scene.get();
    await settle();
    await scene.last.answer({ body: "2", fields: ["cache-control", "no-store"] });
    expect(scene.cache.peek(scene.key)).toBeUndefined();
  });

  test("a 404 of what may be absent takes the place of a 200, for its own time", async () => {
    const scene = await aged(41 * SECOND);
    expect(seen(await scene.answered({ status: 404, body: "none" }))).toBe("miss 404 none");
    expect(seen(await scene.get())).toBe("hit 404 none");
    await scene.advance(6 * SECOND);
    expect(seen(await scene.answered({ body: "2" }))).toBe("miss 200 2");
  });

  test("cache-only: whatever is stored is served, however stale, and nothing is asked", async () => {
    const scene = await aged(60 * MINUTE, { body: "1", fields: ["cache-control", "max-age=9, must-revalidate"] });
    scene.policy = { ...scene.policy, isCacheOnly: true };
    expect(await scene.get()).toMatchObject({ outcome: "stale", detail: { reason: "cache-only" } });
    expect(scene.fetches).toHaveLength(1);
    scene.key = { ...scene.key, name: "other" };
    const other = scene.get();
    await settle();
    await scene.last.fail(new GatewayError("cache_only", "nothing is asked"));
    await expect(other).rejects.toMatchObject({ code: "cache_only" });
  });
});
