import { TokenStandardClient } from "@canton-network/core-token-standard";
import { describe, expect, test, vi } from "vitest";
import { get, instrumentsOf, useAggregates, readListing } from "../support/aggregate-registries.ts";

const { startAggregate, startRegistries, startBefore } = useAggregates();

const LISTING = "/registry/metadata/v1/instruments";
const INFO = "/registry/metadata/v1/info";

const silent = { info() {}, debug() {}, warn() {}, error() {}, trace() {}, fatal() {}, child: () => silent };
const token = { getAccessToken: async () => "client-token" };

function clientOf(baseUrl: string): TokenStandardClient {
  type Parameters = ConstructorParameters<typeof TokenStandardClient>;
  return new TokenStandardClient(baseUrl, silent, token as unknown as Parameters[2]);
}

describe("the official client at the plain base URL", () => {
  test("lists all registries as one and fetches each instrument", async () => {
    const { url, registries } = await startAggregate({
      amulet: { paging: "keyset", instruments: instrumentsOf("AMULET", 40) },
      bonds: { paging: "index", instruments: instrumentsOf("BOND", 130) },
      funds: { paging: "ignored", instruments: instrumentsOf("Fund/USD ü", 20) },
    });
    const client = clientOf(url);
    const listed: { id: string }[] = [];
    for (let pageToken: string | undefined; ;) {
      const query = pageToken === undefined ? {} : { pageToken };
      const page = await client.get("/registry/metadata/v1/instruments", { query });
      listed.push(...page.instruments);
      pageToken = page.nextPageToken;
      if (pageToken === undefined) break;
      expect(page.instruments).toHaveLength(25);
    }
    const expected = Object.entries(registries).flatMap(([name, { catalogue }]) =>
      catalogue.list().map((instrument) => Object.assign({ admin: `${name}::1220` }, instrument)),
    );
    expect(listed).toEqual(expected);
    for (const instrument of listed.filter((_, at) => at % 19 === 0)) {
      const path = { instrumentId: instrument.id };
      expect(await client.get("/registry/metadata/v1/instruments/{instrumentId}", { path })).toEqual(instrument);
    }
    for (const { calls } of Object.values(registries)) {
      expect(calls.recent.some(({ headers }) => headers.authorization !== undefined)).toBe(false);
    }
  });

  test("is told in words what it may do about an id that two registries have", async () => {
    const { url } = await startAggregate({
      amulet: { instruments: instrumentsOf("SAME", 2) },
      bonds: { instruments: instrumentsOf("SAME", 2) },
    });
    const request = clientOf(url).get("/registry/metadata/v1/instruments/{instrumentId}", {
      path: { instrumentId: "SAME-00001" },
    });
    await expect(request).rejects.toMatchObject({
      code: "instrument_ambiguous",
      error:
        "registry-gateway: several registries have an instrument with this id; ask one of them: " +
        "/api/token-standard/v0/registrars/amulet of amulet::1220, /api/token-standard/v0/registrars/bonds of bonds::1220",
    });
  });
});

describe("a merged page", () => {
  test("holds each instrument as its registry wrote it, with the admin that lists it", async () => {
    const { url, registries } = await startAggregate({ amulet: {}, bonds: {} });
    const own = String.raw`{ "id":"A", "admin" : "someone::else","name":"n","symbol":"s","decimals":1e1,"supportedApis":{},
      "totalSupply":"12345678901234567890.10","big":12345678901234567890.10,"adm\u0069n":[1] }`;
    registries.amulet!.script(({ operation }) =>
      operation === "instruments" ? { status: 200, body: `{"instruments":[${own}]}` } : undefined,
    );
    const { text } = await get(`${url}${LISTING}?pageSize=1`);
    expect(text).toContain(
      `{"instruments":[{"admin":"amulet::1220", "id":"A", "name":"n","symbol":"s","decimals":1e1,"supportedApis":{},
      "totalSupply":"12345678901234567890.10","big":12345678901234567890.10 }],"nextPageToken":`,
    );
  });

  test("is 25 long unless the client says otherwise, and 1000 at most", async () => {
    const { url } = await startAggregate({
      amulet: { instruments: instrumentsOf("A", 900) },
      bonds: { instruments: instrumentsOf("B", 200) },
    });
    for (const [query, length] of [
      ["", 25],
      ["?pageSize=1", 1],
      ["?pageSize=1000", 1_000],
      ["?pageSize=2147483647", 1_000],
    ] as const) {
      const { json } = await get(url + LISTING + query);
      expect(json.instruments, query).toHaveLength(length);
    }
    expect((await get(`${url}${LISTING}?pageSize=0`)).status).toBe(400);
  });

  test("has the age of its oldest part, an entity tag of its own, and answers 304 and HEAD", async () => {
    const { url } = await startAggregate(
      {
        amulet: { cacheHeaders: () => ({ "cache-control": "max-age=60", age: "7" }) },
        bonds: { cacheHeaders: () => ({ "cache-control": "max-age=30, must-revalidate" }) },
      },
      {},
    );
    const page = `${url}${LISTING}?pageSize=50`;
    const first = await get(page);
    expect(Number(first.headers.get("age"))).toBeGreaterThanOrEqual(7);
    expect(first.headers.get("cache-control")).toMatch(/^max-age=3[678], must-revalidate$/);
    expect(first.headers.get("cache-status")).toMatch(/^registry-gateway;fwd=uri-miss;ttl=\d\d$/);
    const second = await get(page);
    expect(second.headers.get("cache-status")).toMatch(/^registry-gateway;hit;ttl=\d\d$/);
    const etag = second.headers.get("etag")!;
    const conditional = await get(page, { headers: { "if-none-match": etag } });
    expect([conditional.status, conditional.text]).toEqual([304, ""]);
    const head = await get(page, { method: "HEAD" });
    expect([head.status, head.text]).toEqual([200, ""]);
    expect(head.headers.get("content-length")).toBe(String(Buffer.byteLength(second.text)));
    expect(head.headers.get("etag")).toBe(etag);
  });

  test.each(["x", "AAAA", "BOND-2026-001", "AXl5eXl5eVtbMCwiIl0sbnVsbF0", "%20"])(
    "is refused for the page token %s, which nobody gave out",
    async (pageToken) => {
      const { url } = await startAggregate({ amulet: {}, bonds: {} });
      const { status, json } = await get(`${url}${LISTING}?pageToken=${pageToken}`);
      expect(status).toBe(400);
      expect(json.error).toContain("list again without pageToken");
    },
  );

  test("asks for smaller pages where a registry refuses large ones, and remembers it", async () => {
    const aggregate = await startAggregate(
      { amulet: { instruments: instrumentsOf("A", 60), maxPageSize: { limit: 30, beyond: "400" } }, bonds: {} },
      { cache: { ttl: { instruments: "0s" } } },
    );
    const sizes = () =>
      aggregate.registries.amulet!.calls.recent.map(({ url }) => new URL(url, "http://x").searchParams.get("pageSize"));
    await get(`${aggregate.url}${LISTING}?pageSize=10`);
    await get(`${aggregate.url}${LISTING}?pageSize=10`);
    expect(sizes().filter((size) => size !== null)).toEqual(["100", "50", "25", "25"]);
  });

  test.each([
    ["repeats its token", () => '{"instruments":[],"nextPageToken":"x"}'],
    ["gives the same page under ever new tokens", (calls: number) => `{"instruments":[],"nextPageToken":"x${calls}"}`],
    ["goes round in three", (calls: number) => `{"instruments":[],"nextPageToken":"x${calls % 3}"}`],
  ])("is 502 where a registry %s", async (_, body) => {
    const { url, registries } = await startAggregate({ amulet: {}, bonds: {} });
    let calls = 0;
    registries.amulet!.script(({ operation }) =>
      operation === "instruments" ? { status: 200, body: body(calls++) } : undefined,
    );
    const { status, json } = await get(url + LISTING);
    expect(status).toBe(502);
    expect(json.error).toContain('the registry "amulet" repeats its page tokens');
  });

  test("a circle that is found only after pages with instruments ends the walk with 502", async () => {
    const { url, registries } = await startAggregate({ amulet: {}, bonds: {} });
    registries.amulet!.script(({ operation, url }) => {
      if (operation !== "instruments") return undefined;
      const page = Number(new URL(url, "http://x").searchParams.get("pageToken") ?? 0);
      const instruments = instrumentsOf(`P${page}`, 2);
      return { status: 200, body: JSON.stringify({ instruments, nextPageToken: String((page % 7) + 1) }) };
    });
    await expect(readListing(url + LISTING, 3)).rejects.toThrow(/^502 .*has no end/);
  });
});

describe("a registry that fails", () => {
  test("fails the page, says how to do without it, and is left out where that is asked for", async () => {
    const { url, registries } = await startAggregate({ amulet: {}, bonds: {}, funds: {} });
    await registries.bonds!.faults.set({ kind: "status", status: 503, retryAfter: "7" });
    const page = `${url}${LISTING}?pageSize=100`;
    const failed = await get(page);
    expect([failed.status, failed.headers.get("retry-after")]).toEqual([503, "7"]);
    expect(failed.json.error).toMatch(/"bonds".*; the other registries are listed with \?partial=true$/);

    const partial = await get(`${page}&partial=true`);
    expect(partial.status).toBe(200);
    expect(partial.headers.get("x-registry-partial")).toBe("bonds");
    expect(partial.headers.get("cache-control")).toBe("no-store");
    expect(partial.json.instruments).toHaveLength(60);
    expect((await get(`${page}&partial=perhaps`)).status).toBe(400);

    await registries.bonds!.faults.clear();
    await vi.waitFor(async () => expect((await get(page)).json.instruments).toHaveLength(90), 60_000);
  });

  test("is left out of every page with aggregate.partial, unless a client wants all or nothing", async () => {
    const { url, registries } = await startAggregate({ amulet: {}, bonds: {} }, { aggregate: { partial: true } });
    await registries.amulet!.kill();
    const page = await get(url + LISTING);
    expect([page.status, page.headers.get("x-registry-partial")]).toEqual([200, "amulet"]);
    expect((await get(`${url}${LISTING}?partial=false`)).status).toBe(502);
    await registries.amulet!.revive();
  });

  test("and hangs takes the time of none of those behind it", async () => {
    const registries = await startRegistries({ amulet: {}, bonds: {}, funds: {} });
    const upstreams = Object.entries(registries).map(([name, { admin, url }]) => ({
      name,
      admin,
      urls: [url],
      timeout: "1s",
    }));
    const { url } = await startBefore(registries, { upstreams });
    await registries.bonds!.faults.set({ kind: "hang", operations: ["instruments"] });
    const partial = await get(`${url}${LISTING}?pageSize=100&partial=true`);
    expect([partial.status, partial.headers.get("x-registry-partial")]).toEqual([200, "bonds"]);
    expect(partial.json.instruments).toHaveLength(60);
    // A client's own deadline is for all of them together.
    const hurried = await get(`${url}${LISTING}?pageSize=90&partial=true`, { headers: { "request-timeout": "0.2" } });
    expect(hurried.headers.get("x-registry-partial")).toContain("bonds");
  });

  test("is answered for by what is stale", async () => {
    const { url, registries } = await startAggregate(
      { amulet: {}, bonds: {} },
      { cache: { ttl: { instruments: "1ms" }, staleWhileRevalidate: "0s" } },
    );
    const page = `${url}${LISTING}?pageSize=60`;
    const fresh = await get(page);
    await registries.amulet!.kill();
    const stale = await get(page);
    expect([stale.status, stale.text]).toEqual([200, fresh.text]);
    expect(stale.headers.get("cache-status")).toMatch(/ttl=-/);
    expect(stale.headers.get("x-registry-partial")).toBeNull();
    await registries.amulet!.revive();
  });
});

describe("one instrument by its id alone", () => {
  test("is that of the only registry that has it, with its admin, else 404", async () => {
    const { url } = await startAggregate({ amulet: {}, bonds: {}, funds: {} });
    const found = await get(`${url}${LISTING}/BONDS-00003`);
    expect([found.status, found.json.admin, found.json.id]).toEqual([200, "bonds::1220", "BONDS-00003"]);
    expect(found.headers.get("etag")).toMatch(/^"/);
    const absent = await get(`${url}${LISTING}/NOBODYS`);
    expect([absent.status, absent.headers.get("cache-control")]).toEqual([404, "no-store"]);
  });

  test("is never a false 404 while a registry cannot be asked", async () => {
    const { url, registries } = await startAggregate({ amulet: {}, bonds: {} });
    await registries.bonds!.kill();
    expect((await get(`${url}${LISTING}/NOBODYS`)).status).toBe(502);
    const found = await get(`${url}${LISTING}/AMULET-00003`);
    expect([found.status, found.headers.get("x-registry-partial")]).toEqual([200, "bonds"]);
    expect(found.headers.get("cache-control")).toBe("no-store");
    await registries.bonds!.revive();
  });

  test("is refused while the registry that is known to have it too cannot be asked", async () => {
    const { url, registries } = await startAggregate(
      { amulet: { instruments: instrumentsOf("SAME", 3) }, bonds: { instruments: instrumentsOf("SAME", 3) } },
      { cache: { ttl: { instruments: "1ms", instrument: "1ms" }, staleWhileRevalidate: "0s" } },
    );
    await get(`${url}/catalog/v1/instruments`);
    await registries.bonds!.kill();
    expect((await get(`${url}${LISTING}/SAME-00001`)).status).not.toBe(200);
    await registries.bonds!.revive();
  });
});

describe("info of the plain base URL", () => {
  test("is 400 that lists the registries", async () => {
    const { url } = await startAggregate({ amulet: {}, bonds: {} });
    const { status, json } = await get(url + INFO);
    expect(status).toBe(400);
    expect(json.error).toMatch(/registrars\/amulet, \/api\/token-standard\/v0\/registrars\/bonds$/);
  });

  test("is the configured admin with what all registries support", async () => {
    const aggregate = await startAggregate({ amulet: {}, bonds: {} }, { aggregate: { adminId: "gateway::1220" } });
    const apis = { "metadata-v1": 1, "transfer-v1": 3, "only-here-v1": 1 };
    const others = { "metadata-v1": 2, "transfer-v1": 2 };
    for (const [name, supportedApis] of [
      ["amulet", apis],
      ["bonds", others],
    ] as const) {
      const adminId = `${name}::1220`;
      aggregate.registries[name]!.script(({ operation }) =>
        operation === "info" ? { status: 200, body: JSON.stringify({ adminId, supportedApis }) } : undefined,
      );
    }
    const { status, json } = await get(aggregate.url + INFO);
    expect(status).toBe(200);
    expect(json).toEqual({ adminId: "gateway::1220", supportedApis: { "metadata-v1": 1, "transfer-v1": 2 } });
  });
});
