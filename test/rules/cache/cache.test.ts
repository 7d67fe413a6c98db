import { describe, expect, test } from "vitest";
import { failure, Scene, type Scripted, SECOND, seen, settle } from "./scene.ts";

const TAGGED: Scripted = { body: "1", fields: ["etag", '"a"'] };

describe("one fetch per key", () => {
  test("serves all who ask meanwhile, and is stored", async () => {
    const scene = new Scene();
    const waiting = [scene.get(), scene.get(), scene.get()];
    await settle();
    expect(scene.fetches).toHaveLength(1);
    await scene.last.answer({ body: "1" });
    expect((await Promise.all(waiting)).map(seen)).toEqual(["miss 200 1", "miss 200 1", "miss 200 1"]);
    expect((await waiting[1]!).detail).toEqual({ forward: "uri-miss", stored: true, collapsed: true });
    expect(seen(scene.cache.hit(scene.key)!)).toBe("hit 200 1");
    expect(seen(await scene.get())).toBe("hit 200 1");
  });

  test("a waiter's deadline and its leaving are its own; the fetch goes on and is stored", async () => {
    const scene = new Scene();
    const leaving = new AbortController();
    const hasty = scene.get({ deadline: scene.clock.now() + SECOND });
    const gone = scene.get({ signal: leaving.signal });
    await settle();
    leaving.abort();
    await scene.advance(2 * SECOND);
    await expect(hasty).rejects.toMatchObject({ code: "upstream_timeout", status: 504 });
    await expect(gone).rejects.toMatchObject({ code: "client_gone" });
    await scene.last.answer({ body: "1" });
    expect(seen(scene.cache.hit(scene.key)!)).toBe("hit 200 1");
  });

  test("that fails fails all who wait, and the next request tries again", async () => {
    const scene = new Scene();
    const waiting = [scene.get(), scene.get()];
    await settle();
    await scene.last.fail();
    for (const each of waiting) await expect(each).rejects.toThrow("the registry broke off");
    expect(seen(await scene.answered({ body: "2" }))).toBe("miss 200 2");
  });

  test("keys of other registries and of other names are others", async () => {
    const scene = new Scene();
    await scene.answered({ body: "1" });
    for (const other of [{ party: "bonds::1220" }, { name: "instrument A" }]) {
      expect(scene.cache.hit({ ...scene.key, ...other })).toBeUndefined();
    }
  });
});

describe("what is not to be stored goes to those who wait and to nobody else", () => {
  test.for<[string, Scripted, string]>([
    ["no-store", { fields: ["cache-control", "no-store"] }, "no-store"],
    ["private", { fields: ["cache-control", "max-age=9, private"] }, "private"],
    ["Vary: *", { fields: ["vary", "Accept, *"] }, "vary"],
    ["what its caller forbids", { unstorable: "no-instruments" }, "no-instruments"],
    ["an error", { status: 400 }, "status"],
    ["what is old on arrival and cannot be renewed", { fields: ["cache-control", "no-cache"] }, "old-on-arrival"],
  ])("%s", async ([, scripted, reason]) => {
    const scene = new Scene();
    const found = await scene.answered(scripted);
    expect(found.detail).toEqual({ forward: "uri-miss", stored: false, reason });
    expect(scene.cache.peek(scene.key)).toBeUndefined();
  });

  test("a ttl of 0s", async () => {
    const scene = new Scene({ ttl: 0 });
    expect((await scene.answered()).detail.reason).toBe("ttl");
    expect((await scene.answered({ fields: ["cache-control", "max-age=9"] })).detail.stored).toBe(true);
  });

  test("no-cache with a validator is asked about each time", async () => {
    const scene = new Scene();
    await scene.answered({ ...TAGGED, fields: [...TAGGED.fields!, "cache-control", "no-cache"] });
    expect(seen(await scene.answered({ status: 304 }))).toBe("revalidated 200 1");
    expect(scene.last.condition?.fields).toEqual(["if-none-match", '"a"']);
  });
});

describe("a 304 of the registry", () => {
  test("renews what is stored, asked of the node that gave the tag", async () => {
    const scene = new Scene();
    const date = new Date(0).toUTCString();
    const fields = ["etag", '"a"', "last-modified", date, "link", "<x>", "age", "5", "content-language", "en"];
    await scene.answered({ body: "1", fields, node: "https://b.example" });
    await scene.advance(41 * SECOND);
    const renewed = scene.get();
    await settle();
    expect(scene.last.condition).toEqual({
      node: "https://b.example",
      fields: ["if-none-match", '"a"', "if-modified-since", date],
    });
    await scene.last.answer({ status: 304, fields: ["etag", '"a"', "link", "<y>", "content-language", "de"] });
    const { entry } = await renewed;
    expect(seen(await renewed)).toBe("revalidated 200 1");
    expect(entry.fields).toEqual([
      "last-modified",
      date,
      "content-language",
      "en",
      "link",
      "<y>",
      "content-type",
      "application/json",
    ]);
    expect([entry.etag, entry.bornAt]).toEqual(['"a"', scene.clock.now()]);
    expect(seen(await scene.get())).toBe("hit 200 1");
  });

  test("about another answer: it is asked without a condition", async () => {
    const scene = new Scene();
    await scene.answered(TAGGED);
    await scene.advance(41 * SECOND);
    const found = scene.get();
    await settle();
    await scene.last.answer({ status: 304, fields: ["etag", '"b"'] });
    expect(scene.fetches.map(({ condition }) => condition?.fields[1])).toEqual([undefined, '"a"', undefined]);
    await scene.last.answer({ body: "2" });
    expect(seen(await found)).toBe("miss 200 2");
  });

  test("to a request without a condition is a failure", async () => {
    const scene = new Scene();
    const found = scene.get();
    await settle();
    await scene.last.answer({ status: 304 });
    await scene.last.answer({ status: 304 });
    await expect(found).rejects.toMatchObject({ code: "upstream_invalid" });
  });

  test("no condition is made of a tag that the gateway made, or of a malformed one", async () => {
    for (const fields of [[], ["etag", "a"], ["etag", '"a", "b"'], ["last-modified", "yesterday"]]) {
      const scene = new Scene();
      await scene.answered({ fields });
      await scene.advance(41 * SECOND);
      void scene.get();
      await settle();
      expect(scene.last.condition).toBeUndefined();
    }
  });
});

test("explain says what is stored, and what would become of it", async () => {
  const scene = new Scene();
  expect(await scene.cache.explain(scene.key)).toEqual({
    party: "amulet::1220",
    name: "info",
    epoch: 0,
    entries: [],
    isFetching: false,
  });
  await scene.answered({
    body: "1",
    fields: ["cache-control", "max-age=20, stale-if-error=60", "etag", '"a"', "age", "5"],
  });
  await scene.advance(16 * SECOND);
  void scene.get();
  await settle();
  const explained = await scene.cache.explain(scene.key);
  expect(explained).toMatchObject({ isFetching: true });
  expect(explained.entries).toEqual([
    {
      tier: "memory",
      use: "stale-while-revalidate",
      status: 200,
      bytes: 1,
      etag: '"a"',
      age: 21 * SECOND,
      freshFor: -SECOND,
      refreshFor: 29 * SECOND,
      errorFor: 59 * SECOND,
      hasValidators: true,
      cacheControl: "max-age=20, stale-if-error=60",
    },
  ]);
  await scene.last.fail(failure());
  expect(await scene.cache.explain(scene.key)).toMatchObject({ isFetching: false, retryIn: SECOND });
});
