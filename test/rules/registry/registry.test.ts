import { describe, expect, test } from "vitest";
import { GatewayError } from "../../../src/errors.ts";
import {
  disable,
  down,
  INFO,
  one,
  PAGE,
  pageOf,
  scene,
  type Script,
  type Scripted,
  SECOND,
  settle,
  TOKEN,
} from "./scripted-upstream.ts";

describe("one registry", () => {
  test("is asked once, and then answered for out of memory", async () => {
    const { all, registry, get } = scene(() => '{"adminId":"x"}');
    expect(registry.hit(INFO)).toBeUndefined();
    expect([await get(INFO), await get(INFO)]).toEqual(['miss 200 {"adminId":"x"}', 'hit 200 {"adminId":"x"}']);
    expect(registry.hit(INFO)?.outcome).toBe("hit");
    expect(all.calls).toEqual(["amulet info"]);
  });

  test("is asked for a client at once, for a refresh later, each for its own timeout, with the request's fields", async () => {
    const { all, get } = scene(() => ({ body: "{}", fields: ["etag", '"a"'] }), {
      cache: { staleWhileRevalidate: 1e6 },
    });
    const ended: unknown[] = [];
    const own = { requestId: "r1", trace: ["traceparent", "t"], onEnd: (report: unknown) => ended.push(report) };
    await get(one("a"), { ...own, deadline: all.clock.now() + 1 });
    all.clock.advance(21 * SECOND);
    expect(await get(one("a"), own)).toContain("stale");
    await settle();
    const [miss, refresh] = all.details;
    expect(miss).toMatchObject({ priority: "client", id: "a", method: "GET", base: "registry", onEnd: own.onEnd });
    expect(miss!.fields).toEqual(["x-request-id", "r1", "traceparent", "t"]);
    expect(miss!.condition).toBeUndefined();
    expect(refresh).toMatchObject({ priority: "refresh", onEnd: undefined });
    expect(refresh!.condition).toEqual({ node: "n", fields: ["if-none-match", '"a"'] });
    expect(all.details.map(({ deadline }) => deadline)).toEqual([1_015_000, 1_036_000]);
  });

  test("whose admin is not known is waited for; what is disabled answers for nothing", async () => {
    const { registry, get } = scene(() => "{}", { admin: undefined });
    expect([registry.hit(INFO), await registry.explain(INFO)]).toEqual([undefined, undefined]);
    expect(await get(INFO)).toContain("miss");
    expect((await registry.explain(INFO))?.party).toBe("amulet::1220");
    disable(registry);
    expect(registry.hit(INFO)).toBeUndefined();
    await expect(get(INFO)).rejects.toMatchObject({ code: "upstream_disabled" });
  });

  test("keeps an instrument's 404 for notFound, and no other", async () => {
    const { all, get } = scene(() => ({ status: 404, body: '{"error":"none"}' }));
    for (const request of [one("a"), INFO, PAGE]) await get(request);
    expect([await get(one("a")), await get(INFO), await get(PAGE)].map((text) => text.slice(0, 4))).toEqual([
      "hit ",
      "miss",
      "miss",
    ]);
    all.clock.advance(5 * SECOND);
    expect(await get(one("a"))).toContain("miss");
  });

  test.for<[string, string]>([
    ["no page", '{"items":[]}'],
    ["a page that goes on with itself", pageOf(["a"], "2")],
  ])("%s passes, and is not stored", async ([, body]) => {
    const { get } = scene(() => body);
    expect([await get(TOKEN), await get(TOKEN)]).toEqual([`miss 200 ${body}`, `miss 200 ${body}`]);
  });
});

describe("the page size of the configuration", () => {
  const OF_100 = { config: { pageSize: 100 } };
  const PAGES = pageOf(["a"]);
  const refusing =
    (refusal: Scripted): Script =>
    (path) =>
      path.includes("pageSize=100") ? refusal : PAGES;

  test.for<[string, Scripted]>([
    ["the standard's form", { status: 400, body: '{"error":"too large"}' }],
    ["another form", new GatewayError("upstream_error", "too large", { status: 400 })],
  ])("is left out where the registry answers 400 to it, in %s; that is remembered for a while", async ([, refusal]) => {
    const { all, get } = scene(refusing(refusal), OF_100);
    expect(await get(PAGE)).toBe(`miss 200 ${PAGES}`);
    all.clock.advance(31 * SECOND);
    await get(PAGE);
    expect(all.calls).toEqual(["amulet instruments?pageSize=100", "amulet instruments", "amulet instruments"]);
    all.clock.advance(600 * SECOND);
    await get(PAGE);
    expect(all.calls[3]).toBe("amulet instruments?pageSize=100");
  });

  test("is not what a client asks for itself: its own refusal is its own", async () => {
    const { all, get } = scene(refusing({ status: 400, body: '{"error":"too large"}' }), OF_100);
    expect(await get({ ...PAGE, pageSize: "100" })).toBe('miss 400 {"error":"too large"}');
    expect(await get({ ...PAGE, pageSize: "25" })).toBe(`miss 200 ${PAGES}`);
    expect(all.calls).toEqual(["amulet instruments?pageSize=100", "amulet instruments?pageSize=25"]);
  });

  test("is not blamed for what is wrong without it, too", async () => {
    const { all, get } = scene(() => ({ status: 400, body: '{"error":"bad token"}' }), OF_100);
    for (let i = 0; i < 2; i += 1) expect(await get(TOKEN)).toBe('miss 400 {"error":"bad token"}');
    expect(all.calls).toHaveLength(4);
  });

  test("is not blamed for a failure", async () => {
    const { all, get } = scene(() => down(), OF_100);
    await expect(get(PAGE)).rejects.toMatchObject({ code: "upstream_down" });
    expect(all.calls).toHaveLength(1);
  });
});
