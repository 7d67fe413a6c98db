import { describe, expect, test } from "vitest";
import { TestClock } from "../../support/clock.ts";
import { ADMIN_HEADER, LIST, PREFIX } from "../../support/endpoints.ts";
import { type TestGateway, useGateway } from "../../support/gateway.ts";
import { expectOwnError } from "../../support/http.ts";
import { instrument, instruments, type Instrument, type Registry, startRegistry } from "../../support/registry.ts";

const clock = TestClock.running();
const serve = useGateway(clock);

type Catalogues = Readonly<Record<string, readonly Instrument[]>>;

async function start(catalogues: Catalogues, keys: object = {}, upstream: object = { retries: 0 }) {
  const registries: Registry[] = [];
  for (const [name, all] of Object.entries(catalogues)) {
    registries.push(await startRegistry(name, { instruments: all }));
  }
  const gateway = await serve({ ...keys, upstreams: registries.map((each) => each.upstream(upstream)) });
  const byName = Object.fromEntries(registries.map((each) => [each.name, each])) as Record<string, Registry>;
  return { registries, gateway, ...byName } as {
    registries: Registry[];
    gateway: TestGateway;
  } & Record<string, Registry>;
}

interface Page {
  readonly instruments: readonly { readonly id: string; readonly admin: string }[];
  readonly nextPageToken?: string;
}

/** Reads the whole listing, page by page. */
async function readAll(gateway: TestGateway, query = ""): Promise<Page["instruments"]> {
  const all: Page["instruments"][number][] = [];
  let token: string | undefined;
  for (let pages = 0; pages < 300; pages += 1) {
    const parts = [query, ...(token === undefined ? [] : [`pageToken=${encodeURIComponent(token)}`])].filter(Boolean);
    const answer = await gateway.get(`${LIST}${parts.length === 0 ? "" : `?${parts.join("&")}`}`);
    if (answer.status !== 200) throw new Error(`${answer.status} ${answer.text}`);
    const page = answer.json as Page;
    all.push(...page.instruments);
    token = page.nextPageToken;
    if (token === undefined) return all;
  }
  throw new Error("the listing has no end");
}

describe("the listing of several registries", () => {
  test.each(["", "pageSize=7", "pageSize=1000"])("is one registry after the other, page by page: %j", async (query) => {
    const { gateway, registries } = await start({
      amulet: instruments("A", 40),
      bonds: instruments("B", 130),
      empty: [],
      funds: [instrument("Fund/USD ü")],
    });
    const expected = registries.flatMap(({ admin, instruments: all }) => all.map(({ id }) => [id, admin]));
    expect((await readAll(gateway, query)).map(({ id, admin }) => [id, admin])).toEqual(expected);
  });

  test("holds each instrument as its registry wrote it, with the admin that lists it", async () => {
    const { gateway, amulet } = await start({ amulet: [], bonds: [] });
    const own = String.raw`{ "id":"A", "admin" : "someone::else","name":"n","symbol":"s","decimals":1e1,"supportedApis":{},
      "totalSupply":"12345678901234567890.10","big":12345678901234567890.10,"adm\u0069n":[1] }`;
    amulet!.on("instruments", { body: `{"instruments":[${own}]}` });
    const { text, json } = await gateway.get(LIST);
    expect(text).toContain('"big":12345678901234567890.10');
    expect(text).toContain('"decimals":1e1');
    expect(json.instruments).toMatchObject([{ id: "A", admin: amulet!.admin }]);
    expect(text).not.toContain("someone::else");
  });

  test("has the age of its parts, an entity tag, and answers 304 and HEAD", async () => {
    const { gateway, amulet } = await start({ amulet: instruments("A", 3), bonds: [] });
    amulet!.on("instruments", {
      fields: ["Cache-Control", "max-age=60", "Age", "7"],
      body: { instruments: amulet!.instruments },
    });
    await gateway.get(LIST);
    const answer = await gateway.get(LIST);
    expect(Number(answer.headers.age)).toBeGreaterThanOrEqual(7);
    expect(answer.cache).toBe("hit");
    const conditional = await gateway.get(LIST, { "if-none-match": answer.headers.etag });
    expect([conditional.status, conditional.text]).toEqual([304, ""]);
    const head = await gateway.send({ path: LIST, method: "HEAD" });
    expect([head.status, head.text, head.headers.etag]).toEqual([200, "", answer.headers.etag]);
  });

  test("refuses a page token that it never gave out", async () => {
    const { gateway } = await start({ amulet: instruments("A", 3), bonds: [] });
    for (const token of ["x", "AAAA", "A-00001", "%20", "W10"]) {
      expectOwnError(await gateway.get(`${LIST}?pageToken=${token}`), 400, "invalid_page_token");
    }
  });

  test("ends where a registry repeats its page token", async () => {
    const { gateway, amulet, bonds } = await start({ amulet: [], bonds: instruments("B", 2) });
    amulet!.on("instruments", { body: { instruments: [], nextPageToken: "same" } });
    const ids = (await readAll(gateway)).map(({ id }) => id);
    expect(ids).toEqual(bonds!.instruments.map(({ id }) => id));
  });

  test("takes no token of a registry that is not served any more", async () => {
    const { gateway, amulet, bonds } = await start({ amulet: instruments("A", 5), bonds: instruments("B", 5) });
    const { nextPageToken } = (await gateway.get(`${LIST}?pageSize=2`)).json as Page;
    gateway.reload({ upstreams: [bonds!, await startRegistry("gold")] });
    expectOwnError(await gateway.get(`${LIST}?pageSize=2&pageToken=${nextPageToken!}`), 400, "invalid_page_token");
    expect(amulet!.count()).toBe(1);
  });
});

describe("a registry that fails", () => {
  test("makes its page 502 that names it; with partial=true it is left out and named", async () => {
    const { gateway, bonds, amulet } = await start({
      amulet: instruments("A", 3),
      bonds: instruments("B", 3),
      funds: instruments("F", 3),
    });
    for (const script of [
      "reset",
      { status: 500, body: { error: "no" } },
      { status: 404, body: { error: "no" } },
    ] as const) {
      amulet!.on("instruments", script);
      const failed = await gateway.get(LIST);
      expectOwnError(failed, 502);
      expect(failed.error).toMatch(/amulet.*partial=true/);
      const partial = await gateway.get(`${LIST}?partial=true`);
      expect([partial.status, partial.headers["x-registry-partial"]]).toEqual([200, "amulet"]);
      expect(partial.headers["cache-control"]).toBe("no-store");
      expect((partial.json as Page).instruments.map(({ admin }) => admin)).toEqual(
        Array.from({ length: 3 }, () => bonds!.admin),
      );
    }
    expect((await gateway.get(`${LIST}?partial=perhaps`)).status).toBe(400);
    amulet!.on("instruments", undefined);
    expect((await readAll(gateway)).length).toBe(9);
  });

  test("is answered for by what is stale", async () => {
    const { gateway, amulet } = await start(
      { amulet: instruments("A", 3), bonds: [] },
      { cache: { staleWhileRevalidate: "0s" } },
    );
    const fresh = await gateway.get(LIST);
    await amulet!.close();
    clock.advance("31s");
    const stale = await gateway.get(LIST);
    expect([stale.status, stale.text]).toEqual([200, fresh.text]);
    expect(stale.headers["x-registry-partial"]).toBeUndefined();
  });

  test("and hangs takes its own time and no more", async () => {
    const { gateway, amulet } = await start({ amulet: instruments("A", 3), bonds: instruments("B", 3) });
    await gateway.get(`${PREFIX}/bonds${LIST}`);
    amulet!.on("instruments", "hang");
    const partial = gateway.get(`${LIST}?partial=true`);
    await amulet!.reached(1);
    clock.advance("15s");
    expect((await partial).headers["x-registry-partial"]).toBe("amulet");
  });
});

describe("one instrument by its id alone", () => {
  test("is the one registry's that has it, with its admin and its bytes, else 404", async () => {
    const { gateway, bonds } = await start({ amulet: instruments("A", 3), bonds: instruments("B", 3), funds: [] });
    const found = await gateway.get(`${LIST}/B-00002`);
    expect([found.status, found.json]).toEqual([200, { admin: bonds!.admin, ...bonds!.instruments[2] }]);
    expect(found.headers.etag).toMatch(/"/);
    expectOwnError(await gateway.get(`${LIST}/NOBODYS`), 404, "instrument_unknown");
  });

  test("is 409 with base URLs where several have it", async () => {
    const { gateway } = await start({ amulet: instruments("SAME", 1), bonds: instruments("SAME", 1), funds: [] });
    const answer = await gateway.get(`${LIST}/SAME-00000`);
    expectOwnError(answer, 409, "instrument_ambiguous");
    expect(answer.error.match(new RegExp(PREFIX, "g"))).toHaveLength(2);
    expect(answer.error).toContain("amulet");
    expect(answer.error).toContain("bonds");
    expect(answer.error).not.toContain("funds");
  });

  test("is never a false 404 while a registry cannot be asked, unless the client asks for a part", async () => {
    const { gateway, bonds } = await start({ amulet: instruments("A", 1), bonds: instruments("B", 1) });
    await bonds!.close();
    const absent = await gateway.get(`${LIST}/NOBODYS`);
    expectOwnError(absent, 502);
    expect(absent.error).toContain("bonds");
    expectOwnError(await gateway.get(`${LIST}/NOBODYS?partial=true`), 404, "instrument_unknown");
    const found = await gateway.get(`${LIST}/A-00000`);
    expect([found.status, found.headers["x-registry-partial"]]).toEqual([200, "bonds"]);
  });
});

describe("the catalogue", () => {
  const named = (id: string, name: string, symbol: string): Instrument => instrument(id, { name, symbol });
  const CATALOGUES = {
    amulet: [named("Amulet", "Amulet", "AMT"), named("AMT-USD", "Dollar of the Amulet", "USDA")],
    bonds: [named("BOND-1", "Élysée Bond", "ELY"), named("BOND-2", "Gold bond", "GLD"), named("BOND-3", "Gold", "GLD")],
  };
  const search = async (gateway: TestGateway, query: Record<string, string>): Promise<string[]> => {
    const answer = await gateway.get(`/catalog/v1/instruments?${new URLSearchParams(query).toString()}`);
    if (answer.status !== 200) throw new Error(`${answer.status} ${answer.text}`);
    return (answer.json as Page).instruments.map(({ id }) => id);
  };

  test("of registries tells each one's name, admin and base path", async () => {
    const { gateway, registries } = await start(CATALOGUES);
    const { json, status } = await gateway.get("/catalog/v1/registries");
    expect(status).toBe(200);
    expect(json.registries).toMatchObject(
      registries.map(({ name, admin }) => ({ name, admin, basePath: expect.stringContaining(PREFIX) as string })),
    );
    for (const { basePath, admin } of json.registries as { basePath: string; admin: string }[]) {
      expect((await gateway.get(`${basePath}/registry/metadata/v1/info`)).json.adminId).toBe(admin);
    }
  });

  test("of registries leads into one whose admin is not known yet by its name", async () => {
    const [amulet, bonds] = [await startRegistry("amulet"), await startRegistry("bonds")];
    bonds.hold("info");
    const gateway = await serve({ upstreams: [amulet, bonds.upstream({ admin: undefined })] });
    const { json } = await gateway.get("/catalog/v1/registries");
    expect(json.registries).toMatchObject([{}, { name: "bonds", admin: null, basePath: `${PREFIX}/bonds` }]);
  });

  test("of one registry's instruments waits for its admin where header and query name it in two ways", async () => {
    const [amulet, bonds] = [await startRegistry("amulet"), await startRegistry("bonds")];
    const release = bonds.hold("info");
    const gateway = await serve({ upstreams: [amulet, bonds.upstream({ admin: undefined })] });
    const answer = gateway.get("/catalog/v1/instruments?admin=bonds", { [ADMIN_HEADER]: bonds.admin });
    // What was sent before this one waits by now.
    await gateway.get("/nothing");
    release();
    expect((await answer).status).toBe(200);
  });

  test("of instruments finds what is asked for", async () => {
    const { gateway } = await start(CATALOGUES);
    const rows: readonly [Record<string, string>, readonly string[]][] = [
      [{}, ["Amulet", "AMT-USD", "BOND-1", "BOND-2", "BOND-3"]],
      [{ query: "amulet" }, ["Amulet", "AMT-USD"]],
      [{ query: "GOLD" }, ["BOND-2", "BOND-3"]],
      [{ query: "élysée" }, ["BOND-1"]],
      [{ symbol: "gld" }, ["BOND-2", "BOND-3"]],
      [{ symbol: "gl" }, []],
      [{ admin: "bonds" }, ["BOND-1", "BOND-2", "BOND-3"]],
      [{ admin: "bonds", query: "2" }, ["BOND-2"]],
      [{ query: "nothing at all" }, []],
    ];
    for (const [query, ids] of rows) {
      expect([query, (await search(gateway, query)).toSorted()]).toEqual([query, ids.toSorted()]);
    }
  });

  test("reads all pages of a registry, from the cache where they are there, and evicts no hot entry for it", async () => {
    const { gateway, amulet, bonds } = await start(
      { amulet: instruments("A", 60), bonds: instruments("B", 2_500) },
      { cache: { ttl: { instruments: "10m" } } },
    );
    await gateway.get(`${PREFIX}/amulet${LIST}`);
    expect(await search(gateway, {})).toHaveLength(2_560);
    expect(await search(gateway, { query: "B-02499" })).toEqual(["B-02499"]);
    expect([amulet!.count(), bonds!.count()]).toEqual([1, 3]);
    expect((await gateway.get(`${PREFIX}/amulet${LIST}`)).cache).toBe("hit");
  });

  test("of instruments reads 10,000 at most, and says that it is not all", async () => {
    const { gateway } = await start({ amulet: instruments("A", 12_000), bonds: [] });
    const { json } = await gateway.get("/catalog/v1/instruments");
    expect([json.instruments.length, json.isComplete]).toEqual([10_000, false]);
  });

  test("of instruments names no unknown admin, and no parameter twice", async () => {
    const { gateway } = await start(CATALOGUES);
    expectOwnError(await gateway.get("/catalog/v1/instruments?admin=nobody"), 404, "admin_unknown");
    expect((await gateway.get("/catalog/v1/instruments?symbol=a&symbol=b")).status).toBe(400);
    expect((await gateway.get("/catalog/v1/instruments?symbol=%ff")).status).toBe(400);
  });

  test("names a registry that fails, as the listing does", async () => {
    const { gateway, bonds } = await start(CATALOGUES);
    bonds!.on("instruments", { status: 500, body: { error: "no" } });
    const failed = await gateway.get("/catalog/v1/instruments");
    expectOwnError(failed, 502);
    expect(failed.error).toContain("bonds");
    const partial = await gateway.get("/catalog/v1/instruments?partial=true");
    expect([partial.status, partial.headers["x-registry-partial"]]).toEqual([200, "bonds"]);
  });
});

describe("pages of the gateway's own", () => {
  test("/ names the registries and where they are", async () => {
    const { gateway, amulet } = await start({ amulet: [], bonds: [] });
    const { status, text } = await gateway.get("/");
    expect(status).toBe(200);
    expect(text).toContain("amulet");
    expect(text).toContain("/docs");
    expect(amulet!.asked).toEqual([]);
  });

  test("/openapi.json describes every endpoint, and /docs shows it", async () => {
    const { ENDPOINTS } = await import("../../support/endpoints.ts");
    const { gateway } = await start({ amulet: [], bonds: [] });
    const { json, headers } = await gateway.get("/openapi.json");
    expect(headers["content-type"]).toMatch(/json/);
    const paths = Object.keys(json.paths as object).map((path) => path.replaceAll(/\{\w+\}/g, "{id}"));
    for (const { path } of ENDPOINTS) expect(paths).toContain(path);
    const docs = await gateway.get("/docs/");
    expect([docs.status, docs.headers["content-type"]]).toEqual([200, expect.stringMatching(/html/)]);
    expect(docs.headers["content-security-policy"]).toMatch(/default-src/);
    expect((await gateway.get("/docs")).status).toBeLessThan(400);
  });

  test.each<[string, string, Record<string, string>]>([
    ["400 malformed_path", "/docs/../etc/passwd", {}],
    ["400 malformed_path", "/docs/static/%2e%2e/x", {}],
    ["400 malformed_path", "/docs/static/%00", {}],
    ["400 malformed_path", "/docs/static//x", {}],
    ["404 no_such_path", `/docs/static/${"a".repeat(5_000)}`, {}],
    ["404 no_such_path", "/docs/static/none.css", {}],
    ["404 no_such_path", "/docs/static/.env", {}],
    ["404 no_such_path", "/docs/static/swagger-ui.css", { range: "bytes=99999999-" }],
    ["404 no_such_path", "/docs/static/swagger-ui.css", { "if-match": '"x"' }],
  ])("are refused as every path is: %s", async (outcome, path, headers) => {
    const { gateway } = await start({ amulet: [] });
    expect((await gateway.get(path, headers)).outcome).toBe(outcome);
  });
});
