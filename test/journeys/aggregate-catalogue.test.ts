import { describe, expect, onTestFinished, test, vi } from "vitest";
import { type Aggregate, get, instrumentsOf, readListing, useAggregates } from "../support/aggregate-registries.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { startRedis } from "../support/redis.ts";
import type { SampleRegistry } from "../support/sample-registry.ts";
import { until } from "../support/until.ts";

const { startAggregate, startBefore, startRegistries } = useAggregates();

const REGISTRIES = "/catalog/v1/registries";
const INSTRUMENTS = "/catalog/v1/instruments";
/** Far less than what is kept would last otherwise. */
const LONG = { timeout: 60_000 };
const LISTING = "/registry/metadata/v1/instruments";

async function search(aggregate: Aggregate, parameters: Record<string, string>) {
  const { status, json, headers } = await get(
    `${aggregate.url}${INSTRUMENTS}?${String(new URLSearchParams(parameters))}`,
  );
  const instruments = (json.instruments ?? []) as { id: string; admin: string; registry: string }[];
  return { status, json, headers, ids: instruments.map(({ id }) => id), instruments };
}

async function purge(aggregate: Aggregate, what: Record<string, unknown>): Promise<void> {
  const headers = { "content-type": "application/json" };
  const { status } = await get(`${aggregate.operations}/purge`, {
    method: "POST",
    body: JSON.stringify(what),
    headers,
  });
  expect(status).toBe(200);
}

describe("the catalogue of registries", () => {
  test("tells each registry's name, admin, base path, health, and how many instruments it has", async () => {
    const aggregate = await startAggregate({ amulet: {}, bonds: { instruments: 120 } });
    const { status, json } = await get(aggregate.url + REGISTRIES);
    expect(status).toBe(200);
    expect(json.registries).toEqual([
      {
        name: "amulet",
        admin: "amulet::1220",
        basePath: "/api/token-standard/v0/registrars/amulet",
        supportedApis: expect.objectContaining({ "splice-api-token-metadata-v1": 1 }),
        health: "up",
        instrumentCount: 30,
        asOf: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
      },
      expect.objectContaining({ name: "bonds", instrumentCount: 120 }),
    ]);
  });

  test("lists a registry that cannot be asked without what is not known of it", async () => {
    const aggregate = await startAggregate({ amulet: {}, bonds: {} });
    await aggregate.registries.bonds!.kill();
    const { json } = await get(aggregate.url + REGISTRIES);
    expect(json.registries).toMatchObject([
      { instrumentCount: 30 },
      { name: "bonds", instrumentCount: null, asOf: null },
    ]);
    const { status, headers, ids } = await search(aggregate, {});
    expect([status, ids.length, headers.get("x-registry-partial"), headers.get("cache-control")]).toEqual([
      200,
      25,
      "bonds",
      "no-store",
    ]);
    await aggregate.registries.bonds!.revive();
  });

  test("says when each registry answered, not when its answer was read", async () => {
    const aggregate = await startAggregate({ amulet: {}, bonds: {} });
    aggregate.registries.amulet!.script(({ operation }) => {
      if (operation !== "instruments") return undefined;
      const headers = ["content-type", "application/json", "cache-control", "max-age=500", "age", "100"];
      return { status: 200, headers, body: JSON.stringify({ instruments: instrumentsOf("A", 3) }) };
    });
    const { json } = await get(aggregate.url + REGISTRIES);
    const [ago] = (json.registries as { asOf: string }[]).map(({ asOf }) => (Date.now() - Date.parse(asOf)) / 1000);
    expect(ago).toBeGreaterThan(99);
    expect(ago).toBeLessThan(120);
    const { headers } = await search(aggregate, { admin: "amulet" });
    expect(Number(headers.get("age"))).toBeGreaterThan(99);
  });

  test("leaves out what a registry supports where it says more than anybody reads", async () => {
    const aggregate = await startAggregate({ amulet: {}, bonds: {} });
    const names = Array.from({ length: 5_000 }, (_, at) => [`splice-api-number-${at}`, 1]);
    aggregate.registries.amulet!.script(({ operation }) => {
      if (operation !== "info") return undefined;
      const supportedApis: unknown = Object.fromEntries(names);
      return { status: 200, body: JSON.stringify({ adminId: "amulet::1220", supportedApis }) };
    });
    await expect
      .poll(async () => (await get(aggregate.url + REGISTRIES)).json.registries)
      .toMatchObject([
        { instrumentCount: 30, supportedApis: null },
        { supportedApis: { "splice-api-token-metadata-v1": 1 } },
      ]);
  });

  test("says what a registry supports by the info after a purge of it, which asks for no page", async () => {
    const aggregate = await startAggregate({ amulet: {}, bonds: {} });
    await get(aggregate.url + REGISTRIES);
    const pages = aggregate.called("instruments");
    aggregate.registries.amulet!.script(({ operation }) => {
      if (operation !== "info") return undefined;
      return { status: 200, body: JSON.stringify({ adminId: "amulet::1220", supportedApis: { upgraded: 2 } }) };
    });
    await purge(aggregate, { upstream: "amulet", endpoint: "info" });
    const { json } = await get(aggregate.url + REGISTRIES);
    expect(json.registries).toMatchObject([{ instrumentCount: 30, supportedApis: { upgraded: 2 } }, {}]);
    expect(aggregate.called("instruments")).toBe(pages);
  });

  test("is not there where the plain base URL stands for one registry", async () => {
    const aggregate = await startAggregate({ amulet: {} });
    expect((await get(aggregate.url + REGISTRIES)).status).toBe(404);
  });
});

describe("a filter that the catalogue does not know is refused", () => {
  test.each([
    [INSTRUMENTS, "qeury=a&Symbol=b", 'unknown query parameters: "qeury", "Symbol"; this path takes query, admin'],
    [INSTRUMENTS, "query=a&partial=true", 'unknown query parameters: "partial"; this path takes query, admin'],
    [INSTRUMENTS, "%ff=a", 'unknown query parameters: "%ff=a"; '],
    [INSTRUMENTS, "=a", 'unknown query parameters: ""; '],
    [INSTRUMENTS, "a&b&c&d&e&f&g", '"e" and 2 more; '],
    [INSTRUMENTS, `${"x".repeat(4000)}=1`, `"${"x".repeat(50)}"; `],
    [INSTRUMENTS, "symbol=a&symbol=b", "symbol is given twice"],
    [INSTRUMENTS, "symbol=%ff", "symbol is not percent-encoded UTF-8"],
    [REGISTRIES, "name=amulet", 'unknown query parameters: "name"; this path takes no query parameters'],
  ])("%s?%s", async (path, query, text) => {
    const { url } = await startAggregate({ amulet: {}, bonds: {} });
    const { status, json } = await get(`${url}${path}?${query}`);
    expect([status, json.error]).toEqual([400, expect.stringContaining(text)]);
  });

  test("and what names none is not", async () => {
    const { url } = await startAggregate({ amulet: {}, bonds: {} });
    for (const path of [`${INSTRUMENTS}?`, `${INSTRUMENTS}?&&query=&`, `${REGISTRIES}?&`]) {
      expect((await get(url + path)).status).toBe(200);
    }
  });
});

describe("the catalogue of instruments", () => {
  const supportedApis = {};
  const named = (id: string, name: string, symbol: string) => ({ id, name, symbol, decimals: 2, supportedApis });
  const options = {
    amulet: { instruments: [named("Amulet", "Amulet", "AMT"), named("AMT-USD", "Dollar of the Amulet", "USDA")] },
    bonds: {
      instruments: [
        named("BOND-1", "Élysée Bond", "ELY"),
        named("BOND-2", "Gold bond of Amsterdam", "GLD"),
        named("BOND-3", "Gold", "GLD"),
        named("BOND-4", "Straße 代币", "代币"),
      ],
    },
  };

  test.each([
    ["amulet", ["Amulet", "AMT-USD"]],
    ["AM", ["AMT-USD", "Amulet", "BOND-2"]],
    ["elysee", ["BOND-1"]],
    ["ÉLY", ["BOND-1"]],
    ["bond", ["BOND-1", "BOND-2", "BOND-3", "BOND-4"]],
    ["gold", ["BOND-2", "BOND-3"]],
    ["old", ["BOND-2", "BOND-3"]],
    ["amsterdam gold", ["BOND-2"]],
    ["bond-2", ["BOND-2"]],
    ["代", ["BOND-4"]],
    ["usd", ["AMT-USD"]],
    ["nothing like it", []],
    ["!!", []],
  ])("finds %s whatever its case and accents, what begins with it first", async (query, expected) => {
    const aggregate = await startAggregate(options);
    expect((await search(aggregate, { query })).ids).toEqual(expected);
  });

  test("are narrowed to an admin or alias, and to a symbol", async () => {
    const aggregate = await startAggregate(options);
    const found = await search(aggregate, { query: "amulet", admin: "amulet::1220" });
    expect(found.instruments[0]).toEqual({
      admin: "amulet::1220",
      registry: "amulet",
      ...options.amulet.instruments[0],
    });
    expect((await search(aggregate, { admin: "bonds" })).ids).toHaveLength(4);
    expect((await search(aggregate, { symbol: "gld" })).ids).toEqual(["BOND-2", "BOND-3"]);
    expect((await search(aggregate, { symbol: "gl" })).ids).toEqual([]);
    expect((await search(aggregate, { admin: "nobody" })).status).toBe(404);
  });

  // A registry that had not answered yet was told to be none.
  test("of an admin that may yet be known are 503, and of one that no registry has 404", async () => {
    const registries = await startRegistries({ amulet: {}, bonds: {} });
    const { amulet, bonds } = registries as Record<"amulet" | "bonds", SampleRegistry>;
    await bonds.kill();
    const aggregate = await startBefore(registries, {
      upstreams: [
        { name: "amulet", admin: amulet.admin, urls: [amulet.url] },
        { name: "bonds", urls: [bonds.url] },
      ],
      aggregate: { adminId: "operator::1220" },
    });
    const { status, json, headers } = await search(aggregate, { admin: bonds.admin });
    expect([status, json.code, headers.get("retry-after")]).toEqual([503, "admin_not_known_yet", "5"]);
    expect((await search(aggregate, { admin: "operator::1220" })).status).toBe(404);
  });

  // The é is one character at the registry, and two in the query.
  test.each([
    ["€", ["EURO"]],
    ["usd", ["DOLLAR"]],
    ["USD+", ["DOLLAR-PLUS"]],
    ["cafe\u0301", ["COFFEE"]],
    ["", []],
  ])("are narrowed to those whose symbol is %j, signs and all", async (symbol, expected) => {
    const bonds = [
      ["EURO", "€"],
      ["DOLLAR", "USD"],
      ["DOLLAR-PLUS", "USD+"],
      ["SIGN", "$"],
      ["COFFEE", "CAFÉ"],
    ].map(([id, each]) => named(id!, id!, each!));
    const aggregate = await startAggregate({ amulet: {}, bonds: { instruments: bonds } });
    expect((await search(aggregate, { symbol })).ids).toEqual(expected);
  });

  test("are narrowed to those that are paused, and to those that are not", async () => {
    const aggregate = await startAggregate({
      amulet: { instruments: [{ ...named("A", "A", "A"), paused: true, pauseInfo: { reason: "upgrade" } }] },
      bonds: { instruments: [{ ...named("B", "B", "B"), paused: false }, named("C", "C", "C")] },
    });
    const paused = await search(aggregate, { paused: "true" });
    expect(paused.instruments).toEqual([expect.objectContaining({ id: "A", pauseInfo: { reason: "upgrade" } })]);
    expect((await search(aggregate, { paused: "false" })).ids).toEqual(["B", "C"]);
    expect((await search(aggregate, {})).ids).toEqual(["A", "B", "C"]);
    expect((await search(aggregate, { paused: "yes" })).status).toBe(400);
  });

  test("come in pages that one search alone goes on with", async () => {
    const aggregate = await startAggregate({
      amulet: { instruments: instrumentsOf("A", 60) },
      bonds: { instruments: instrumentsOf("B", 60) },
    });
    const ids: string[] = [];
    let pageToken = "";
    do {
      const page = await search(aggregate, { query: "instrument", pageSize: "7", ...(pageToken && { pageToken }) });
      ids.push(...page.ids);
      pageToken = (page.json.nextPageToken as string | undefined) ?? "";
    } while (pageToken !== "");
    expect(ids).toEqual([...instrumentsOf("A", 60), ...instrumentsOf("B", 60)].map(({ id }) => id));
    const first = await search(aggregate, { query: "instrument", pageSize: "7" });
    const other = await search(aggregate, { query: "other", pageToken: first.json.nextPageToken as string });
    expect([other.status, other.json.error]).toEqual([400, expect.stringContaining("another search")]);
    expect((await search(aggregate, { query: "x", pageToken: "AAAA" })).status).toBe(400);
  });

  // The token held the id, and nobody got beyond the first that was longer than a URL may be.
  test("come in pages whatever the length of their ids", async () => {
    const long = (at: number) => named(`L${at}-${"x".repeat(10_000)}`, "Long", "LNG");
    const aggregate = await startAggregate({
      amulet: { instruments: [long(0), long(1)] },
      bonds: { instruments: [named("BOND-1", "Bond", "BND")] },
    });
    const walked = await readListing(aggregate.url + INSTRUMENTS, 1);
    expect(walked.map(({ id }) => id)).toEqual([long(0).id, long(1).id, "BOND-1"]);
  });

  test("follow the registries while somebody uses them", async () => {
    const aggregate = await startAggregate({ amulet: {}, bonds: {} }, { cache: { ttl: { instruments: "1s" } } });
    expect((await search(aggregate, { query: "newcomer" })).ids).toEqual([]);
    aggregate.registries.amulet!.catalogue.add(named("NEWCOMER", "New", "NEW"));
    await vi.waitFor(async () => expect((await search(aggregate, { query: "newcomer" })).ids).toEqual(["NEWCOMER"]), {
      timeout: 60_000,
      interval: 200,
    });
  });

  test("cost nothing while nobody uses them", async () => {
    const aggregate = await startAggregate({ amulet: {}, bonds: {} });
    await get(`${aggregate.registrar("amulet")}/registry/metadata/v1/info`);
    expect(aggregate.called("instruments")).toBe(0);
  });

  test("are read once for all who ask within five seconds, where no page may be kept", async () => {
    const aggregate = await startAggregate({ amulet: {}, bonds: {} }, { cache: { staleIfError: "0s" } });
    const { amulet } = aggregate.registries;
    amulet!.script(({ operation }) => {
      if (operation !== "instruments") return undefined;
      const headers = ["content-type", "application/json", "cache-control", "no-store"];
      return { status: 200, headers, body: JSON.stringify({ instruments: instrumentsOf("A", 3) }) };
    });
    for (let at = 0; at < 3; at += 1) {
      const { ids, headers } = await search(aggregate, { query: "A-0000" });
      expect([ids.length, headers.get("x-registry-partial")]).toEqual([3, null]);
    }
    expect(amulet!.calls.count("instruments")).toBe(1);
  });

  // The time was counted from when the listing was there.
  test("come within the time of the client's own, though a listing is still to be read", async () => {
    const clock = new ManualClock();
    const aggregate = await startAggregate({ amulet: {}, bonds: {} }, {}, { clock });
    const { amulet, bonds } = aggregate.registries;
    await bonds!.faults.set({ kind: "hang", operations: ["instruments"] });
    const answer = get(`${aggregate.url}${INSTRUMENTS}?query=AMULET`, { headers: { "request-timeout": "1" } });
    await until(() => bonds!.calls.open === 1 && amulet!.calls.open === 0);
    clock.advance(1_000);
    const { status, headers } = await answer;
    expect([status, headers.get("x-registry-partial")]).toEqual([200, expect.stringContaining("bonds")]);
  });

  test("are stale after a soft purge, and read again while they are", async () => {
    const aggregate = await startAggregate({ amulet: {}, bonds: {} }, { cache: { ttl: { instruments: "10m" } } });
    expect((await search(aggregate, { query: "newcomer" })).ids).toEqual([]);
    const { amulet } = aggregate.registries;
    amulet!.catalogue.add(named("NEWCOMER", "New", "NEW"));
    const answered = Promise.withResolvers<undefined>();
    amulet!.script(({ operation }) => (operation === "instruments" ? answered.promise : undefined));
    await purge(aggregate, { upstream: "amulet", soft: true });
    const { headers } = await search(aggregate, { admin: "amulet" });
    expect(headers.get("cache-status")).toMatch(/^registry-gateway;hit;ttl=-/);
    answered.resolve(undefined);
    await expect.poll(async () => (await search(aggregate, { query: "newcomer" })).ids, LONG).toEqual(["NEWCOMER"]);
    expect(amulet!.calls.count("instruments")).toBe(2);
  });

  test("are read again when a purge said so", async () => {
    const aggregate = await startAggregate({ amulet: {}, bonds: {} });
    expect((await search(aggregate, { query: "AMULET-00003" })).ids).toEqual(["AMULET-00003"]);
    aggregate.registries.amulet!.catalogue.remove("AMULET-00003");
    await purge(aggregate, { upstream: "amulet" });
    const { ids, headers } = await search(aggregate, { query: "AMULET-0000" });
    expect([ids.length, headers.get("x-registry-partial")]).toEqual([9, null]);
  });
});

test("a fresh catalogue does not hide what was received of an instrument since", async () => {
  const aggregate = await startAggregate(
    { amulet: {}, bonds: {} },
    { cache: { honorClient: true, clientFloor: "0s" } },
  );
  const { registries, url } = aggregate;
  await get(url + REGISTRIES);
  const newer = { ...instrumentsOf("AMULET", 1)[0]!, name: "newer" };
  registries.amulet!.script(({ operation, url }) => {
    if (operation !== "instrument") return undefined;
    return { status: 200, body: JSON.stringify(url.endsWith("ADDED") ? { ...newer, id: "ADDED" } : newer) };
  });
  for (const id of ["AMULET-00000", "ADDED"]) {
    const init = { headers: { "cache-control": "no-cache" } };
    await get(`${aggregate.registrar("amulet")}${LISTING}/${id}`, init);
    const { status, json } = await get(`${url}${LISTING}/${id}`);
    expect([status, json.name]).toEqual([200, "newer"]);
  }
});

test("a soft purge holds for single instruments, whatever the catalogue knows of them", async () => {
  const aggregate = await startAggregate({ amulet: {}, bonds: {} }, { cache: { ttl: { instruments: "10m" } } });
  const { registries, url } = aggregate;
  const instrument = async () => (await get(`${url}${LISTING}/AMULET-00000`)).json.name;
  await get(url + REGISTRIES);
  expect(await instrument()).toBe("AMULET instrument 00000");
  registries.amulet!.catalogue.add({ ...instrumentsOf("AMULET", 1)[0]!, name: "newer" });
  await purge(aggregate, { upstream: "amulet", endpoint: "instrument", instrument: "AMULET-00000", soft: true });
  await expect.poll(instrument, LONG).toBe("newer");
});

test.each([
  ["instruments are not kept", { ttl: { instrument: "0s" } }, {}],
  ["the client wants it asked for", { honorClient: true, clientFloor: "0s" }, { "cache-control": "no-cache" }],
])("a fresh catalogue does not keep an instrument for longer than its own policy: %s", async (_, cache, headers) => {
  const { registries, url } = await startAggregate({ amulet: {}, bonds: {} }, { cache });
  await get(url + REGISTRIES);
  registries.amulet!.catalogue.add({ ...instrumentsOf("AMULET", 1)[0]!, name: "newer" });
  const { status, json } = await get(`${url}${LISTING}/AMULET-00000`, { headers });
  expect([status, json.name]).toEqual([200, "newer"]);
});

test("what is listed is no call for a replica whose catalogue was read from pages that another one fetched", async () => {
  const redis = await startRedis();
  onTestFinished(() => redis.stop());
  const registries = await startRegistries({ amulet: {}, bonds: {} });
  const replicas = [];
  for (let at = 0; at < 2; at += 1) {
    const replica = await startBefore(registries, { redis: { url: redis.url } });
    // Twice: what a replica read before it knew what was purged at Redis is read once more.
    const counts = async () => {
      const { json } = await get(replica.url + REGISTRIES);
      return (json.registries as { instrumentCount: number | null }[]).map(({ instrumentCount }) => instrumentCount);
    };
    await expect.poll(counts, LONG).toEqual([30, 30]);
    await expect.poll(counts, LONG).toEqual([30, 30]);
    replicas.push(replica);
  }
  for (const { url } of replicas) expect((await get(`${url}${LISTING}/AMULET-00007`)).status).toBe(200);
  const { amulet, bonds } = registries;
  expect([amulet, bonds].map((each) => each!.calls.count("instruments"))).toEqual([1, 1]);
  expect([amulet, bonds].map((each) => each!.calls.count("instrument"))).toEqual([0, 0]);
});

test("a fresh catalogue answers for single instruments without asking anybody", async () => {
  const aggregate = await startAggregate({ amulet: {}, bonds: { instruments: 120, paging: "index" } });
  await get(aggregate.url + REGISTRIES);
  for (const { calls } of Object.values(aggregate.registries)) calls.clear();
  const found = await get(`${aggregate.url}${LISTING}/AMULET-00007`);
  expect([found.status, found.json.admin]).toEqual([200, "amulet::1220"]);
  expect(found.headers.get("cache-status")).toMatch(/^registry-gateway;hit;ttl=/);
  expect((await get(`${aggregate.url}${LISTING}/NOBODYS`)).status).toBe(404);
  expect(Object.values(aggregate.registries).map(({ calls }) => calls.total)).toEqual([0, 0]);
});
