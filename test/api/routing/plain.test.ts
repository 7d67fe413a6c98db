import { describe, expect, test } from "vitest";
import {
  ACCEPT,
  ADMIN_HEADER,
  CANCEL,
  choice,
  DRAFT,
  ENDPOINTS,
  expecting,
  FACTORY,
  INFO,
  LIST,
  pathOf,
  PREFIX,
} from "../../support/endpoints.ts";
import { startGateway, useGateway } from "../../support/gateway.ts";
import { expectOwnError, type Request } from "../../support/http.ts";
import { type Registry, startRegistry, STRANGER } from "../../support/registry.ts";

const serve = useGateway();
const two = async (): Promise<[Registry, Registry]> => [await startRegistry("amulet"), await startRegistry("bonds")];

/** What names no registry. */
const NAMELESS: readonly Request[] = [
  { path: LIST },
  { path: CANCEL, body: "{}" },
  { path: FACTORY, body: choice() },
  { path: pathOf("settlement_factory_v2"), body: choice() },
  { path: DRAFT },
];

describe("a sole upstream is always the plain one", () => {
  test.each(["aggregate", "off", "amulet"])("with routing.plain %s", async (plain) => {
    const amulet = await startRegistry("amulet");
    const gateway = await serve({ routing: { plain }, upstreams: [amulet] });
    for (const request of [{ path: INFO }, { path: FACTORY, body: expecting(amulet.admin) }, ...NAMELESS]) {
      expect([request.path, (await gateway.send(request)).status]).toEqual([request.path, 200]);
    }
  });

  test("also where it has to learn its admin, and where others are not enabled", async () => {
    const [amulet, bonds] = await two();
    const { admin: _learned, ...unpinned } = amulet.upstream();
    const gateway = await serve({ upstreams: [unpinned, bonds.upstream({ enabled: false })] });
    for (const request of NAMELESS) expect((await gateway.send(request)).status).toBe(200);
    expect(bonds.calls).toEqual([]);
  });

  test("and still an admin that is not its own is unknown", async () => {
    const amulet = await startRegistry("amulet");
    const gateway = await serve({ upstreams: [amulet] });
    for (const request of [
      { path: `${gateway.base(STRANGER)}${INFO}` },
      { path: `${gateway.base(STRANGER)}${CANCEL}`, body: "{}" },
      { path: FACTORY, body: expecting(STRANGER) },
      { path: CANCEL, body: "{}", headers: { [ADMIN_HEADER]: STRANGER } },
      { path: LIST, headers: { [ADMIN_HEADER]: STRANGER } },
    ]) {
      expectOwnError(await gateway.send(request), 404, "admin_unknown");
    }
    expect(amulet.asked).toEqual([]);
  });
});

describe("before several registries", () => {
  test("routing.plain names the one that requests without a name mean; a name goes before it", async () => {
    const [amulet, bonds] = await two();
    const gateway = await serve({ routing: { plain: "bonds" }, upstreams: [amulet, bonds] });
    for (const request of NAMELESS) expect((await gateway.send(request)).status).toBe(200);
    expect(amulet.asked).toEqual([]);
    expect(bonds.asked).toHaveLength(NAMELESS.length);
    expect((await gateway.post(FACTORY, expecting(amulet.admin))).status).toBe(200);
    expect((await gateway.post(CANCEL, "{}", { [ADMIN_HEADER]: "amulet" })).status).toBe(200);
    expect(amulet.asked).toEqual(["transfer_factory", "allocation_cancel"]);
  });

  test("an upstream that routing.plain names and that is not enabled has no other in its place", async () => {
    const [amulet, bonds] = await two();
    const gold = await startRegistry("gold");
    const gateway = await serve({
      routing: { plain: "gold" },
      upstreams: [amulet, bonds, gold.upstream({ enabled: false })],
    });
    for (const request of NAMELESS) {
      const { status } = await gateway.send(request);
      expect([400, 404, 503]).toContain(status);
    }
    for (const each of [amulet, bonds, gold]) expect(each.asked).toEqual([]);
  });

  test("off refuses all that names none, and says how to name one", async () => {
    const [amulet, bonds] = await two();
    const gateway = await serve({ routing: { plain: "off" }, upstreams: [amulet, bonds] });
    for (const request of [{ path: INFO }, ...NAMELESS]) {
      const answer = await gateway.send(request);
      expectOwnError(answer, 400, "admin_missing");
      expect(answer.error).toContain(PREFIX);
    }
    expect((await gateway.post(FACTORY, expecting(amulet.admin))).status).toBe(200);
    expect([amulet.asked, bonds.asked]).toEqual([["transfer_factory"], []]);
  });

  test("aggregate lists all, and refuses info and calls that name none with the base URLs", async () => {
    const [amulet, bonds] = await two();
    const gateway = await serve({ upstreams: [amulet, bonds] });
    expect((await gateway.get(LIST)).status).toBe(200);
    for (const request of [{ path: INFO }, ...NAMELESS.slice(1)]) {
      const answer = await gateway.send(request);
      expectOwnError(answer, 400, "admin_missing");
      for (const name of ["amulet", "bonds"]) expect(answer.error).toContain(name);
      expect(answer.error).toContain(PREFIX);
    }
    expect([amulet.asked, bonds.asked]).toEqual([["instruments"], expect.anything()]);
  });
});

test("each factory is routed by the admin that its body names where the standard has it", async () => {
  const [amulet, bonds] = await two();
  const gateway = await serve({ upstreams: [amulet, bonds] });
  for (const { path, naming } of ENDPOINTS) {
    if (naming === undefined) continue;
    for (const registry of [amulet, bonds]) {
      registry.calls.length = 0;
      expect((await gateway.post(path, choice(naming(registry.admin)))).status).toBe(200);
      expect(registry.of().map(({ url }) => url)).toEqual([path]);
    }
  }
});

test("a body of version 2 whose legs are text names no admin by them", async () => {
  const [amulet, bonds] = await two();
  const gateway = await serve({ upstreams: [amulet, bonds] });
  const body = choice({ allocation: { admin: bonds.admin, transferLeg: "a leg" }, actors: ["x"] });
  expect((await gateway.post(pathOf("allocation_factory_v2"), body)).status).toBe(200);
  expect(bonds.last.body.toString()).toBe(body);
});

test("prefix and header are as configured", async () => {
  const [amulet, bonds] = await two();
  const routing = { prefix: "/registries", adminHeader: "X-Registry" };
  const gateway = await startGateway({ routing, upstreams: [amulet, bonds] });
  expect((await gateway.post(`/registries/bonds${CANCEL}`)).status).toBe(200);
  expect((await gateway.post(CANCEL, "{}", { "x-registry": amulet.admin })).status).toBe(200);
  expect((await gateway.post(`${PREFIX}/bonds${CANCEL}`)).status).toBe(404);
  expect((await gateway.post(CANCEL, "{}", { [ADMIN_HEADER]: amulet.admin })).status).toBe(400);
  expect([amulet.asked, bonds.asked]).toEqual([["allocation_cancel"], ["allocation_cancel"]]);
});

test("an upstream that is not enabled is unknown", async () => {
  const [amulet, bonds] = await two();
  const gateway = await serve({ upstreams: [amulet, bonds.upstream({ enabled: false })] });
  for (const admin of ["bonds", bonds.admin]) {
    expectOwnError(await gateway.get(`${gateway.base(admin)}${INFO}`), 404, "admin_unknown");
  }
  expect(bonds.calls).toEqual([]);
});

test("a party id with further colons, and an alias that looks like nothing else, are names like any other", async () => {
  const odd = await startRegistry("odd-name.1", { admin: `a::b::1220${"0".repeat(64)}` });
  const gateway = await serve({ upstreams: [odd, await startRegistry("bonds")] });
  for (const admin of [odd.admin, encodeURIComponent(odd.admin), "odd-name.1"]) {
    expect((await gateway.post(`${PREFIX}/${admin}${ACCEPT}`)).status).toBe(200);
  }
});

test("base URLs of nodes may end in a slash, in /registry or in both, and lie below a path", async () => {
  const plain = await startRegistry("plain");
  const nested = await startRegistry("nested", { basePath: "/some/registrars/x" });
  for (const end of ["", "/", "/registry", "/registry/"]) {
    const upstreams = [plain, nested].map((each) => each.upstream({ urls: each.urls.map((url) => url + end) }));
    const gateway = await serve({ upstreams });
    for (const name of ["plain", "nested"]) expect((await gateway.post(gateway.base(name) + CANCEL)).status).toBe(200);
  }
  expect(new Set(nested.of().map(({ url }) => url))).toEqual(new Set([CANCEL]));
});

test("while an upstream has not told its admin, an unmatched admin is 503 and a known one is served", async () => {
  const [amulet, bonds] = await two();
  const { admin, ...unpinned } = bonds.upstream();
  await bonds.close();
  const gateway = await serve({ upstreams: [amulet, unpinned] });
  for (const request of [
    { path: `${gateway.base(String(admin))}${LIST}` },
    { path: FACTORY, body: expecting(bonds.admin) },
    { path: LIST, headers: { [ADMIN_HEADER]: bonds.admin } },
  ]) {
    const answer = await gateway.send(request);
    expectOwnError(answer, 503, "admin_not_known_yet");
    expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
  }
  expect((await gateway.get(`${gateway.base("amulet")}${LIST}`)).status).toBe(200);
  expectOwnError(
    await gateway.post(gateway.base("amulet") + FACTORY, expecting(bonds.admin)),
    400,
    "admin_disagreement",
  );
  expect(amulet.asked).toEqual(["instruments"]);
});
