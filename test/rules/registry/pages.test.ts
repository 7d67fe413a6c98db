import { describe, expect, test } from "vitest";
import type { MetadataRequest, Registry } from "../../../src/registry/registry.ts";
import { INFO, one, PAGE, pageOf, paged, scene, type Script, SECOND, TOKEN } from "./scripted-upstream.ts";

describe("a page that is found changed", () => {
  const LONG = { cache: { ttl: { info: 1e6, instruments: 30 * SECOND, instrument: 1, notFound: 1 } } };
  let ids = ["a", "b", "c", "d"];
  const listing: Script = (path, call) => paged(ids, 2)(path, call);
  const isHit = (registry: Registry) => (request: MetadataRequest) => registry.hit(request) !== undefined;

  async function read() {
    ids = ["a", "b", "c", "d"];
    const { all, registry, get } = scene(listing, LONG);
    for (const request of [PAGE, INFO]) await get(request);
    all.clock.advance(25 * SECOND);
    for (const request of [TOKEN, { ...PAGE, pageSize: "9" }]) await get(request);
    all.clock.advance(10 * SECOND);
    return { all, registry, get };
  }

  test("makes the other pages of that registry misses, and nothing else", async () => {
    const { all, registry, get } = await read();
    const other = all.registry(() => pageOf([]), { name: "bonds" });
    await other.get(PAGE, all.wait);
    ids = ["a", "bb", "c", "d"];
    expect(await get(PAGE)).toContain("miss");
    expect([PAGE, TOKEN, { ...PAGE, pageSize: "9" }, INFO].map(isHit(registry))).toEqual([true, false, false, true]);
    expect(other.hit(PAGE)).toBeDefined();
    expect((await registry.explain(TOKEN))?.entries[0]?.use).toBe("earlier-listing");
    // Those are asked for once: what they say now is no further change.
    await get(TOKEN);
    expect([PAGE, TOKEN].map(isHit(registry))).toEqual([true, true]);
  });

  test("together with another is one change", async () => {
    const { all, registry, get } = await read();
    all.clock.advance(30 * SECOND);
    ids = ["new", ...ids];
    await Promise.all([get(PAGE), get(TOKEN)]);
    expect(isHit(registry)(PAGE)).toBe(true);
  });

  test.for<[string, () => void]>([
    ["supplies that move", () => undefined],
    ["what follows on another page", () => void (ids = ["a", "b", "c", "dd"])],
  ])("%s are no change of it", async ([, change]) => {
    const { registry, get } = await read();
    change();
    expect(await get(PAGE)).toContain("miss");
    expect([PAGE, TOKEN].map(isHit(registry))).toEqual([true, true]);
  });
});

describe("an instrument that stands on a first page in memory", () => {
  const TEXT = '{ "id" : "é",  "name":"n", "decimals": 1e1 }';
  const PAGES = `{"instruments":[{"id":"a"}, ${TEXT} ,{"id":"twice","n":1},{"id":"twice","n":2}],"nextPageToken":"t"}`;
  const script: Script = (path) => (path.startsWith("instruments/") ? '{"id":"own"}' : PAGES);

  test("is answered with its own bytes, no older than an instrument may be, and stored nowhere", async () => {
    const fields = ["etag", '"page"', "cache-control", "max-age=600", "expires", "0", "link", "<x>", "digest", "x"];
    const { all, registry, get } = scene((path) => (path === "instruments" ? { body: PAGES, fields } : "{}"));
    await get(PAGE);
    const { entries } = all.cache.stats();
    all.clock.advance(19 * SECOND);
    const found = registry.hit(one("é"))!;
    expect(found.entry.body.toString()).toBe(TEXT);
    // The page may be kept for longer than its instruments.
    expect(found.entry.fields).toEqual(["link", "<x>", "content-type", "application/json"]);
    expect(found.entry.etag).not.toBe('"page"');
    expect([all.clock.now() - found.entry.bornAt, found.entry.freshUntil - all.clock.now()]).toEqual([19e3, 1e3]);
    expect([all.cache.stats().entries, found.detail.reason]).toEqual([entries, "listed"]);
    all.clock.advance(SECOND);
    expect([registry.hit(PAGE) !== undefined, registry.hit(one("é"))]).toEqual([true, undefined]);
  });

  test("comes before a 404 of before, and after an answer of its own", async () => {
    const { get } = scene((path) => {
      if (path === "instruments/a") return '{"id":"a","own":1}';
      return path.startsWith("instruments/") ? { status: 404, body: "{}" } : PAGES;
    });
    for (const request of [one("a"), one("é"), PAGE]) await get(request);
    expect([await get(one("a")), await get(one("é"))]).toEqual(['hit 200 {"id":"a","own":1}', `hit 200 ${TEXT}`]);
  });

  test.for<[string, Script, MetadataRequest]>([
    ["on a page that is not there", script, INFO],
    ["on a page behind a token", script, TOKEN],
    ["on a page of another size", script, { ...PAGE, pageSize: "7" }],
    [
      "on a page that cannot be read",
      (path) => (path === "instruments" ? '{"instruments":[1]}' : '{"id":"own"}'),
      PAGE,
    ],
  ])("%s is asked for", async ([, answers, first]) => {
    const { get } = scene(answers);
    await get(first);
    expect(await get(one("é"))).toBe('miss 200 {"id":"own"}');
  });
});

test("a page is taken apart once per entry; what is none names the registry", async () => {
  const { registry, get } = scene((path) => (path === "instruments" ? pageOf(["a", "b"], "t") : '{"instruments":[1]}'));
  await get(PAGE);
  const { entry } = registry.hit(PAGE)!;
  expect(registry.readPage(entry)).toBe(registry.readPage(entry));
  expect(registry.readPage(entry).instruments.map(({ id }) => id)).toEqual(["a", "b"]);
  await get(TOKEN);
  expect(() => registry.readPage(registry.hit(TOKEN)!.entry)).toThrow('the registry "amulet" sent no readable page');
});
