import { setImmediate } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { listRegistries, searchInstruments } from "../../../src/aggregate/catalogue.ts";
import type { Composed } from "../../../src/aggregate/compose.ts";
import { findInstrument } from "../../../src/aggregate/instrument.ts";
import { mergedPage } from "../../../src/aggregate/merged-listing.ts";
import { clientAnswer } from "../../../src/cache/answer.ts";
import { GatewayError } from "../../../src/errors.ts";
import { fieldValue } from "../../../src/fields.ts";
import type { Registry } from "../../../src/registry/registry.ts";
import { down, pageOf, paged, Registries, type Scripted, SECOND } from "../registry/scripted-upstream.ts";

const ids = (prefix: string, count: number): string[] => Array.from({ length: count }, (_, i) => `${prefix}${i}`);
const jsonOf = ({ found }: Composed): { instruments: Record<string, unknown>[]; [key: string]: unknown } =>
  JSON.parse(found.entry.body.toString());
const basePathOf = ({ upstream }: Registry): string => `/registrars/${upstream.admin ?? upstream.name}`;

/** Registries by alias, each with its script or its pages. */
function scene(scripts: Record<string, Parameters<Registries["registry"]>[0] | Scripted>, options = {}) {
  const all = new Registries();
  const registries = Object.entries(scripts).map(([name, script]) =>
    all.registry(typeof script === "function" ? script : () => script, { name, ...options }),
  );
  const list = (query: { pageSize?: string; pageToken?: string; isPartial?: boolean } = {}, seen = registries) =>
    mergedPage(seen, { isPartial: false, ...query }, all.wait, all.clock);
  const find = (id: string, isPartial = false) =>
    findInstrument(registries, { id, isPartial, basePathOf }, all.wait, all.clock);
  const search = (query: { query?: string; symbol?: string; isPartial?: boolean } = {}) =>
    searchInstruments(registries, { query: "", symbol: undefined, isPartial: false, ...query }, all.wait, all.clock);
  return { all, registries, list, find, search };
}

async function walk(list: ReturnType<typeof scene>["list"], query = {}): Promise<string[]> {
  const listed: string[] = [];
  let pageToken: string | undefined;
  do {
    const page = jsonOf(await list({ ...query, ...(pageToken !== undefined && { pageToken }) }));
    listed.push(...page.instruments.map(({ id, admin }) => `${String(id)} ${String(admin)}`));
    pageToken = page["nextPageToken"] as string | undefined;
  } while (pageToken !== undefined);
  return listed;
}

describe("the listing of all registries", () => {
  test.for([1, 3, 7, 100])("has each instrument once, in order, with its admin, in pages of %i", async (size) => {
    const { list } = scene({ a: paged(ids("a", 10), size), none: paged([], size), b: paged(ids("b", 7), size) });
    const expected = [...ids("a", 10).map((id) => `${id} a::1220`), ...ids("b", 7).map((id) => `${id} b::1220`)];
    expect(await walk(list)).toEqual(expected);
  });

  test("asks one registry for a page, of the size that the client named", async () => {
    const { all, list } = scene({ a: paged(ids("a", 4), 2), b: paged(ids("b", 4), 2) });
    const page = jsonOf(await list({ pageSize: "2" }));
    expect(page.instruments.map(({ id }) => id)).toEqual(["a0", "a1"]);
    await list({ pageSize: "2", pageToken: page["nextPageToken"] as string });
    expect(all.calls).toEqual(["a instruments?pageSize=2", "a instruments?pageSize=2&pageToken=2"]);
  });

  test.for<[string, string, string]>([
    ["nothing", '{ "id":"é", "n":1e1,\n"u":"\\u00e9" }', '{ "id":"é", "n":1e1,\n"u":"\\u00e9" '],
    ["an own admin at its begin", '{"admin":{"a":"}"} ,"id":"é"}', '{"id":"é"'],
    ["within", '{"id":"é", "admin" : "other","n":1 }', '{"id":"é","n":1 '],
    ["at its end, escaped", '{"id":"é" , "adm\\u0069n":[1]}', '{"id":"é"'],
    ["several times", '{"admin":1,"id":"é","admin":2}', '{"id":"é"'],
    ["further within", '{"id":"é","n":{"admin":1},"m":"admin"}', '{"id":"é","n":{"admin":1},"m":"admin"'],
  ])("puts its admin at the end of an instrument, and changes nothing else but %s", async ([, text, kept]) => {
    const { list } = scene({ a: `{"instruments":[ ${text} ],"x":[]}` });
    const { found } = await list();
    expect(found.entry.body.toString()).toBe(`{"instruments":[${kept},"admin":"a::1220"}]}`);
  });

  test("goes on where its token stands, though registries come and go before it", async () => {
    const { list, registries } = scene({
      a: paged(ids("a", 1), 9),
      b: paged(ids("b", 4), 2),
      c: paged(ids("c", 1), 9),
    });
    const second = jsonOf(await list())["nextPageToken"] as string;
    const third = jsonOf(await list({ pageToken: second }))["nextPageToken"] as string;
    const without = registries.slice(1);
    expect(jsonOf(await list({ pageToken: third }, without)).instruments.map(({ id }) => id)).toEqual(["b2", "b3"]);
    await expect(list({ pageToken: third }, [registries[0]!])).rejects.toMatchObject({ code: "invalid_page_token" });
  });

  test("names a registry by its alias while its admin is not known", async () => {
    const { list } = scene({ a: pageOf(["x"]), b: pageOf(["y"]) }, { admin: undefined });
    expect(await walk(list)).toEqual(["x a::1220", "y b::1220"]);
  });

  test.for([
    "x",
    "W10",
    "%00",
    Buffer.from('["a::1220"]').toString("base64url"),
    Buffer.from('["a::1220",7]').toString("base64url"),
  ])("the token %s is none of it", async (pageToken) => {
    const { list } = scene({ a: pageOf([]) });
    await expect(list({ pageToken })).rejects.toMatchObject({ code: "invalid_page_token", status: 400 });
  });

  test("ends with a registry whose page goes on with itself", async () => {
    const { list } = scene({ a: pageOf(["x"], "t"), b: pageOf(["y"]) });
    expect(await walk(list)).toEqual(["x a::1220", "x a::1220", "y b::1220"]);
  });

  test("of no registries, or of empty ones, is empty", async () => {
    expect(jsonOf(await scene({}).list())).toEqual({ instruments: [] });
    expect(jsonOf(await scene({ a: pageOf([]), b: pageOf([]) }).list())).toEqual({ instruments: [] });
  });

  test.for<[string, Scripted]>([
    ["that is down", down()],
    ["that is late", new GatewayError("upstream_timeout", "it is late")],
    ["that answers 404", { status: 404, body: '{"error":"no"}' }],
    ["that sends no page", "{}"],
  ])("a registry %s makes the page 502 that names it; partial leaves it out and names it", async ([, failing]) => {
    const { list } = scene({ bonds: failing, b: pageOf(["y"]) });
    await expect(list()).rejects.toMatchObject({
      status: 502,
      message: expect.stringMatching(/"bonds".*\?partial=true/),
    });
    const partial = await list({ isPartial: true });
    expect([jsonOf(partial).instruments.length, partial.missing]).toEqual([1, ["bonds"]]);
    expect(fieldValue(partial.found.entry.fields, "cache-control")).toBe("no-store");
  });

  test("a bug is no registry's failure", async () => {
    const { list } = scene({ a: new TypeError("a bug"), b: pageOf([]) });
    await expect(list({ isPartial: true })).rejects.toThrow("a bug");
  });
});

describe("what is made of several answers", () => {
  test.for<[string, (string | undefined)[], number, string]>([
    ["the shortest of the registries' words, with the oldest's age", ["max-age=100", "max-age=60"], 0, "max-age=60"],
    ["an age that came along", ["max-age=100"], 0, "max-age=100"],
    ["clientTtl where a registry says nothing", ["max-age=100", undefined], 9, "max-age=9"],
    ["nothing where there is neither", ["max-age=100", undefined], 0, "no-cache"],
    ["nothing beside no-cache", ["max-age=100", "no-cache"], 0, "no-cache"],
    ["never beside private", ["max-age=100", "private, max-age=9"], 0, "no-store"],
    ["never beside no-store", ["no-store", "no-cache"], 0, "no-store"],
  ])("clients may keep: %s", async ([, controls, clientTtl, expected]) => {
    const scripts = controls.map((value, i) => {
      const fields = value === undefined ? [] : ["cache-control", value];
      return [`r${i}`, i === 0 ? { body: '{"id":"x"}', fields } : { status: 404, body: "{}", fields }] as const;
    });
    const { find } = scene(Object.fromEntries(scripts), {
      cache: { clientTtl: clientTtl * SECOND, ttl: { instrument: 9e4, notFound: 9e4 } },
    });
    expect(fieldValue((await find("x")).found.entry.fields, "cache-control")).toBe(expected);
  });

  test("is as old as the oldest part, a hit where all are, and ends with the first", async () => {
    const { all, find } = scene({ a: '{"id":"x"}', b: { status: 404, body: "{}", fields: ["age", "3"] } });
    expect((await find("x")).found.outcome).toBe("miss");
    all.clock.advance(2 * SECOND);
    const { found } = await find("x");
    const { fields } = clientAnswer(found, {}, all.clock.now());
    expect([found.outcome, fieldValue(fields, "age")]).toEqual(["hit", "5"]);
    expect(fieldValue(fields, "cache-status")).toBe("registry-gateway;hit;ttl=3;detail=composed");
    expect(clientAnswer(found, { "if-none-match": found.entry.etag }, all.clock.now()).status).toBe(304);
  });
});

describe("one instrument of all registries", () => {
  const none = { status: 404, body: '{"error":"none"}' };
  const otherForm = new GatewayError("upstream_error", "not found", { status: 404 });

  test("is the one registry's that has it, with its admin", async () => {
    const { find } = scene({ a: none, b: '{"id":"x", "n":1e1 }', c: otherForm });
    const { found, missing } = await find("x");
    expect([found.entry.body.toString(), missing]).toEqual(['{"id":"x", "n":1e1 ,"admin":"b::1220"}', []]);
  });

  test("that several have is 409 with their base URLs", async () => {
    const { find } = scene({ a: '{"id":"x"}', b: none, c: '{"id":"x"}', d: down() });
    await expect(find("x")).rejects.toMatchObject({
      code: "instrument_ambiguous",
      message: expect.stringMatching(/: \/registrars\/a::1220, \/registrars\/c::1220$/),
    });
  });

  test("that none has is 404", async () => {
    const { find } = scene({ a: none, b: otherForm });
    await expect(find("x")).rejects.toMatchObject({ code: "instrument_unknown", status: 404 });
  });

  test("keeps its byte order mark, and has one admin behind it", async () => {
    const { found } = await scene({ a: '\ufeff{"admin":1,"id":"x"}' }).find("x");
    expect(found.entry.body.toString()).toBe('\ufeff{"id":"x","admin":"a::1220"}');
  });

  test("is named by a failure whose text has its alias as a word", async () => {
    await expect(scene({ node: down() }).find("x")).rejects.toThrow('"node"');
  });

  test.for<[string, Scripted]>([
    ["is down", down()],
    ["answers 400", { status: 400, body: "{}" }],
  ])("while one %s: found, it names that one; not found, it is 502, or with partial 404", async ([, failing]) => {
    const having = scene({ a: '{"id":"x"}', bonds: failing });
    expect((await having.find("x")).missing).toEqual(["bonds"]);
    const lacking = scene({ a: none, bonds: failing });
    await expect(lacking.find("x")).rejects.toMatchObject({ status: 502, message: expect.stringContaining('"bonds"') });
    await expect(lacking.find("x", true)).rejects.toMatchObject({
      status: 404,
      message: expect.stringContaining('"bonds"'),
    });
  });
});

describe("the catalogue", () => {
  test("lists registries with what leads to them", () => {
    const { all, registries } = scene({ a: "" });
    const unlearned = all.registry(() => "", { name: "b", admin: undefined });
    const composed = listRegistries([...registries, unlearned], basePathOf, all.clock);
    expect(JSON.parse(composed.found.entry.body.toString())).toEqual({
      registries: [
        { name: "a", admin: "a::1220", basePath: "/registrars/a::1220", mode: "normal", state: "up" },
        { name: "b", admin: null, basePath: "/registrars/b", mode: "normal", state: "up" },
      ],
    });
    expect(fieldValue(composed.found.entry.fields, "cache-control")).toBe("no-cache");
  });

  test.for<[object, string[]]>([
    [{}, ["usd", "eur", "gold", "usdx"]],
    [{ query: "USD" }, ["usd", "usdx"]],
    [{ query: "d coin" }, ["usd", "gold"]],
    [{ symbol: "Usd" }, ["usd"]],
    [{ query: "coin", symbol: "gold" }, ["gold"]],
    [{ query: "nothing" }, []],
  ])("finds by %o", async ([query, found]) => {
    const { search } = scene({ a: paged(["usd", "eur"], 1), b: paged(["gold", "usdx"], 9) });
    const answer = jsonOf(await search(query));
    expect(answer.instruments.map(({ id }) => id)).toEqual(found);
    expect(answer["isComplete"]).toBe(true);
    expect(answer.instruments.every(({ admin }) => typeof admin === "string")).toBe(true);
  });

  test.for<[string, string[], number, number]>([
    ["10,000 instruments", ids("a", 10_400), 1_000, 11],
    ["200 pages", ids("a", 500), 1, 200],
  ])("reads %s at most, and says that there is more", async ([, all, size, pages]) => {
    const { search, all: scripted } = scene({ a: paged(all, size) });
    const answer = jsonOf(await search());
    expect(answer["isComplete"]).toBe(false);
    expect([answer.instruments.length <= 10_000, scripted.calls.length <= pages]).toEqual([true, true]);
    expect(answer.instruments.length).toBe(Math.min(10_000, pages * size));
  });

  test("a registry that fails makes it 502 that names it; partial leaves it out, names it, and is not complete", async () => {
    const { search } = scene({ a: paged(["usd"], 1), bonds: down() });
    await expect(search()).rejects.toMatchObject({ status: 502, message: expect.stringContaining('"bonds"') });
    const partial = await search({ isPartial: true });
    expect([jsonOf(partial).instruments.length, jsonOf(partial)["isComplete"], partial.missing]).toEqual([
      1,
      false,
      ["bonds"],
    ]);
  });

  test("goes on reading nothing of the others once it has failed", async () => {
    const { search, all } = scene({ bonds: down(), a: paged(ids("a", 40), 1) });
    await expect(search()).rejects.toMatchObject({ status: 502 });
    for (let turn = 0; turn < 500; turn += 1) await setImmediate();
    expect(all.calls.length).toBeLessThan(5);
  });

  test.for<[string, number, number]>([
    ["a large registry", 1, 40],
    ["many registries", 40, 1],
  ])("of %s evicts nothing that others read", async ([, count, pages]) => {
    const all = new Registries(2 ** 20);
    const script = paged(ids("x".repeat(100), 100 * pages), 100);
    const others = Array.from({ length: count }, (_, i) => all.registry(script, { name: `other${i}` }));
    const hot = all.registry((path) => (path === "info" ? "{}" : pageOf(ids("y", 500))), { name: "hot" });
    const read = [{ operation: "info" }, { operation: "instruments" }] as const;
    for (const request of read) await hot.get(request, all.wait);
    await searchInstruments([...others, hot], { query: "", symbol: undefined, isPartial: false }, all.wait, all.clock);
    expect(read.map((request) => hot.hit(request)?.outcome)).toEqual(["hit", "hit"]);
    expect(all.calls.length).toBe(2 + count * pages);
  });
});
