import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import {
  ADMIN_HEADER,
  CANCEL,
  DRAFT,
  expecting,
  FACTORY,
  INFO,
  LIST,
  OPERATOR,
  PREFIX,
} from "../../support/endpoints.ts";
import { load, startGateway, useGateway } from "../../support/gateway.ts";
import { expectOwnError } from "../../support/http.ts";
import { partyOf, startRegistry } from "../../support/registry.ts";

const SCAN_PROXY = "/api/validator/v0/scan-proxy";
const BURN = "/api/utilities/v0/registry/burn-mint-instruction/v0/burn-mint-factory";
const FEATURED = "/api/scan/v0/featured-apps";

type Started = Awaited<ReturnType<typeof start>>;

const serve = useGateway();

async function start() {
  const amulet = await startRegistry("amulet", { basePath: "/x/amulet" });
  const bonds = await startRegistry("bonds");
  const gateway = await startGateway({
    upstreams: [
      amulet.upstream({ basePaths: [SCAN_PROXY, "/amulet"] }),
      bonds.upstream({ extraPaths: [OPERATOR, `${FEATURED}/*`, `${FEATURED}/exact`, `POST ${BURN}`] }),
    ],
  });
  return { amulet, bonds, gateway };
}

let started: Started;
beforeAll(async () => {
  started = await start();
});
beforeEach(() => {
  started.amulet.reset();
  started.bonds.reset();
});

describe("a base path", () => {
  test("stands for its registry, for cached paths, calls and what passes through", async () => {
    const { amulet, gateway } = started;
    for (const base of [SCAN_PROXY, "/amulet", "/amulet/registry", "/amulet/"]) {
      expect((await gateway.get(base + INFO)).json).toMatchObject({ adminId: amulet.admin });
      expect((await gateway.post(base + CANCEL)).status).toBe(200);
    }
    expect((await gateway.get(`/amulet${DRAFT}?y=1`)).status).toBe(200);
    expect(amulet.last.url).toBe(`${DRAFT}?y=1`);
    expect((await gateway.get(`/Amulet${INFO}`)).status).toBe(404);
    expect((await gateway.get(`/amuletx${INFO}`)).status).toBe(404);
  });

  test("and a header or body that name another registry do not agree", async () => {
    const { amulet, bonds, gateway } = started;
    expectOwnError(await gateway.get(`/amulet${INFO}`, { [ADMIN_HEADER]: "bonds" }), 400, "admin_disagreement");
    expectOwnError(await gateway.post(`/amulet${FACTORY}`, expecting(bonds.admin)), 400, "admin_disagreement");
    expect((await gateway.post(`/amulet${FACTORY}`, expecting(amulet.admin))).status).toBe(200);
    expect(amulet.asked).toEqual(["transfer_factory"]);
  });
});

describe("an extra path", () => {
  test("goes to its registry's origin, query and body untouched", async () => {
    const { bonds, gateway } = started;
    for (const [method, path, url] of [
      ["GET", `${OPERATOR}?q=%2F&&x`, `${OPERATOR}?q=%2F&&x`],
      ["GET", `${FEATURED}/party%3A%3A1220`, `${FEATURED}/party%3A%3A1220`],
      ["GET", `${FEATURED}/a/b`, `${FEATURED}/a/b`],
      ["GET", `${FEATURED}/exact`, `${FEATURED}/exact`],
      ["POST", BURN, BURN],
    ] as const) {
      const request = { path, ...(method === "POST" && { body: '{ "x":1}' }) };
      const answer = await gateway.send(request);
      expect([path, answer.status, answer.json.registry]).toEqual([path, 200, "bonds"]);
      expect([bonds.last.method, bonds.last.url, bonds.last.body.toString()]).toEqual([
        method,
        url,
        request.body ?? "",
      ]);
    }
  });

  test("is at the origin of a registry whose own base path is longer", async () => {
    const amulet = await startRegistry("amulet", { basePath: "/x/amulet" });
    amulet.on(OPERATOR, { body: "{}" });
    const gateway = await serve({ upstreams: [amulet.upstream({ extraPaths: [OPERATOR] })] });
    expect((await gateway.get(OPERATOR)).status).toBe(200);
    expect(amulet.last.url).toBe(OPERATOR);
  });

  test.each<[string, number, Record<string, unknown>]>([
    ["another method than it is configured with", 405, { path: BURN }],
    ["PUT", 405, { path: OPERATOR, method: "PUT" }],
    ["a slash behind it", 400, { path: `${OPERATOR}/` }],
    ["a dot segment behind it", 400, { path: `${OPERATOR}/..` }],
    ["an encoded dot segment", 400, { path: `${OPERATOR}%2F..` }],
    ["a dot segment below a star", 400, { path: `${FEATURED}/..%2f..%2fadmin` }],
    ["another path beside it", 404, { path: "/api/utilities/v0/other" }],
    ["a header that names another admin", 400, { path: OPERATOR, headers: { [ADMIN_HEADER]: "amulet" } }],
    ["a body that names another admin", 400, { path: BURN, body: expecting(partyOf("amulet")) }],
    [
      "an admin that the body names twice",
      400,
      { path: BURN, body: expecting("x").replace("}}", ',"expectedAdmin":1}}') },
    ],
  ])("is refused: %s", async (_what, status, request) => {
    const { bonds, gateway } = started;
    const answer = await gateway.send({ path: "", ...request });
    expectOwnError(answer, status);
    expect(bonds.asked).toEqual([]);
  });

  test("with a header or a body that names its own admin is taken", async () => {
    const { bonds, gateway } = started;
    expect((await gateway.get(OPERATOR, { [ADMIN_HEADER]: bonds.admin })).status).toBe(200);
    expect((await gateway.post(BURN, expecting(bonds.admin))).status).toBe(200);
  });
});

describe("bad configuration:", () => {
  const one = (keys: object) => [{ name: "a", urls: ["http://127.0.0.1:1"], ...keys }];
  const pair = (first: object, second: object) => [
    ...one(first),
    { name: "b", urls: ["http://127.0.0.1:2"], ...second },
  ];
  test.each([
    ["two upstreams with one extra path", pair({ extraPaths: ["/a"] }, { extraPaths: ["/a"] })],
    ["two upstreams with one base path", pair({ basePaths: ["/x"] }, { basePaths: ["/x"] })],
    ["an extra path of ours", one({ extraPaths: ["/docs"] })],
    ["an extra path below ours", one({ extraPaths: ["/catalog/v1/instruments"] })],
    ["a base path below the prefix", one({ basePaths: [`${PREFIX}/x`] })],
    ["an extra path below the prefix", one({ extraPaths: [`${PREFIX}/x`] })],
    ["an extra path below /registry", one({ extraPaths: ["/registry/x"] })],
    ["a base path without a slash", one({ basePaths: ["a"] })],
    ["a base path that climbs", one({ basePaths: ["/a/../b"] })],
    ["an extra path with a query", one({ extraPaths: ["/a?b"] })],
  ])("%s", (_what, upstreams) => {
    expect(() => load({ upstreams })).toThrow(/Paths/);
  });
});

test("an exact extra path goes before a star of another registry", async () => {
  const [amulet, bonds] = [await startRegistry("amulet"), await startRegistry("bonds")];
  const gateway = await serve({
    upstreams: [amulet.upstream({ extraPaths: ["/api/*"] }), bonds.upstream({ extraPaths: ["/api/one"] })],
  });
  expect((await gateway.get("/api/one")).json.registry).toBe("bonds");
  expect((await gateway.get("/api/two")).json.registry).toBe("amulet");
});

test("a listing is the same entry by party id, alias, header and base path", async () => {
  const amulet = await startRegistry("amulet");
  const gateway = await serve({
    upstreams: [amulet.upstream({ basePaths: ["/amulet"] }), await startRegistry("bonds")],
  });
  const outcomes: unknown[] = [];
  for (const [path, headers] of [
    [`${gateway.base("amulet")}${LIST}`, {}],
    [`${gateway.base(amulet.admin)}${LIST}`, {}],
    [LIST, { [ADMIN_HEADER]: "amulet" }],
    [`/amulet${LIST}?unknown=1`, {}],
  ] as const) {
    outcomes.push((await gateway.get(path, headers)).cache);
  }
  expect(outcomes).toEqual(["miss", "hit", "hit", "hit"]);
  expect(amulet.count()).toBe(1);
});
