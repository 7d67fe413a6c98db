import { beforeEach, describe, expect, test } from "vitest";
import { ACCEPT, ADMIN_HEADER, choice, DRAFT, ENDPOINTS, FACTORY, LIST } from "../../support/endpoints.ts";
import { NOTHING_KEPT, useGateway } from "../../support/gateway.ts";
import { expectOwnError, send } from "../../support/http.ts";
import { atFirst, startRegistry } from "../../support/registry.ts";
import { useThree } from "../../support/three.ts";

const three = useThree({ keys: NOTHING_KEPT });
const serve = useGateway();

beforeEach(() => {
  for (const registry of Object.values(three().registries)) registry.calls.length = 0;
});

describe.each(ENDPOINTS)("$operation", ({ operation, method, path, kind }) => {
  const id = operation === "instrument" ? "BONDS-00001" : "00ab/cd é";
  const below = path.replace("{id}", () => encodeURIComponent(id));
  const body = kind === "factory" ? choice() : "{}";

  test("is byte for byte the registry's answer, by prefix and by header", async () => {
    const { gateway, registries } = three();
    const { bonds } = registries;
    const request = method === "GET" ? { path: below } : { path: below, body };
    const direct = await send(bonds.url, request);
    for (const [base, headers] of [
      [gateway.base("bonds"), {}],
      [gateway.base(bonds.admin), {}],
      ["", { [ADMIN_HEADER]: bonds.admin }],
    ] as const) {
      bonds.calls.length = 0;
      const answer = await gateway.send({ ...request, path: base + below, headers });
      expect([answer.status, answer.text]).toEqual([200, direct.text]);
      expect(answer.headers["content-type"]).toMatch(/^application\/json/);
      const { url, body: received } = bonds.calls.findLast((call) => call.operation === operation)!;
      expect([url.replace("?pageSize=1000", ""), received.toString()]).toEqual([below, method === "GET" ? "" : body]);
    }
  });

  test("of another method is 405 that names the right ones", async () => {
    const { gateway, asked } = three();
    const wrong = method === "GET" ? ["POST", "PUT", "DELETE"] : ["GET", "PUT", "PATCH"];
    for (const each of wrong) {
      const answer = await gateway.send({ method: each, path: gateway.base("bonds") + below });
      expectOwnError(answer, 405, "method_not_allowed");
      expect(answer.headers.allow).toContain(method);
    }
    expect(asked()).toEqual([]);
  });
});

const POSTS = ENDPOINTS.filter(({ method }) => method === "POST");

describe.each(POSTS)("a POST, $operation,", ({ operation, path, kind }) => {
  const below = path.replace("{id}", "00ab");
  const body = kind === "factory" ? choice() : "{}";

  test("is never kept, here or by the client", async () => {
    const { gateway, registries } = three();
    registries.bonds.on(operation, {
      fields: ["Cache-Control", "public, max-age=600", "ETag", '"x"', "Expires", "Fri, 20 Nov 2099 10:00:00 GMT"],
      body: { factoryId: "f", transferKind: "self", choiceContext: {}, choiceContextData: {}, disclosedContracts: [] },
    });
    for (let round = 1; round <= 2; round += 1) {
      const answer = await gateway.post(gateway.base("bonds") + below, body);
      expect([answer.status, answer.headers["cache-control"], answer.cache]).toEqual([200, "no-store", undefined]);
      expect(answer.headers.expires).toBeUndefined();
    }
    expect(registries.bonds.count()).toBe(2);
  });

  test("of two clients at once is two calls", async () => {
    const { gateway, registries } = three();
    const release = registries.bonds.hold(operation);
    const both = [1, 2].map(() => gateway.post(gateway.base("bonds") + below, body));
    await registries.bonds.reached(2);
    release();
    for (const answer of both) expect((await answer).status).toBe(200);
  });
});

test.each(ENDPOINTS.filter(({ naming }) => naming !== undefined))(
  "$operation keeps its bytes where its body names the admin that the path names",
  async ({ path, naming }) => {
    const { gateway, registries } = three();
    const named = ` ${choice(naming!(registries.bonds.admin))}\n`;
    expect((await gateway.post(gateway.base("bonds") + path, named)).status).toBe(200);
    expect(registries.bonds.last.body.toString()).toBe(named);
  },
);

test("HEAD has the head of GET and no body", async () => {
  const { gateway } = three();
  for (const path of [`${gateway.base("amulet")}${LIST}`, `${gateway.base("amulet")}${LIST}/nothing`, "/nothing"]) {
    const [got, head] = [await gateway.get(path), await gateway.send({ path, method: "HEAD" })];
    expect([head.status, head.text]).toEqual([got.status, ""]);
    for (const name of ["content-type", "cache-control", "access-control-allow-origin", "registry-gateway-error"]) {
      expect([name, head.headers[name]]).toEqual([name, got.headers[name]]);
    }
  }
});

describe("a call that fails at one node", () => {
  const start = async (keys: object = {}) => {
    const amulet = await startRegistry("amulet", { nodes: 2 });
    const gateway = await serve({ ...NOTHING_KEPT, upstreams: [amulet.upstream(keys)] });
    return { amulet, gateway };
  };
  const failing = [
    ["breaks off", "reset"],
    ["answers 502 in HTML", { status: 502, fields: ["content-type", "text/html"], body: "<html>" }],
    ["answers 503", { status: 503, body: { error: "no" } }],
    ["answers no JSON", { body: "{" }],
  ] as const;

  test.each(failing)("and %s is asked of another with the same bytes", async (_what, script) => {
    const { amulet, gateway } = await start();
    const body = '{ "choiceArguments":{"x":1.0e0} }';
    amulet.on("transfer_factory", atFirst(script));
    expect((await gateway.post(FACTORY, body)).status).toBe(200);
    expect(amulet.of().map((call) => call.body.toString())).toEqual([body, body]);
    expect(new Set(amulet.of().map(({ node }) => node)).size).toBe(2);
  });

  test.each([400, 409, 422, 500])("by an error of its own, %i, is not: that answer goes", async (status) => {
    const { amulet, gateway } = await start();
    amulet.on("*", { status, body: { error: "no" } });
    expect((await gateway.post(FACTORY, choice())).status).toBe(status);
    expect(amulet.count()).toBe(1);
  });

  test("is asked once with retries: 0, and its error goes", async () => {
    const { amulet, gateway } = await start({ retries: 0 });
    amulet.on("*", { status: 503, body: { error: "no" } });
    const answer = await gateway.post(FACTORY, choice());
    expect([answer.status, answer.text]).toEqual([503, '{"error":"no"}']);
    expect(amulet.count()).toBe(1);
  });
});

test("retries take no more than a fifth of the calls, or one a second, whatever fails", async () => {
  const amulet = await startRegistry("amulet", { nodes: 2 });
  const gateway = await serve({ ...NOTHING_KEPT, upstreams: [amulet] });
  amulet.on("*", { status: 503, body: { error: "no" } });
  for (let round = 0; round < 60; round += 1) expect((await gateway.post(FACTORY, choice())).status).toBe(503);
  expect(amulet.count()).toBeGreaterThan(60);
  expect(amulet.count()).toBeLessThan(60 * 1.2 + 15);
});

test("what passes through is tried once, whatever comes back", async () => {
  const amulet = await startRegistry("amulet", { nodes: 2 });
  const gateway = await serve({ upstreams: [amulet] });
  for (const script of [
    "reset",
    { status: 500, body: "x" },
    { status: 503, body: "x" },
    { status: 429, body: "x" },
  ] as const) {
    amulet.reset().on(DRAFT, script);
    const expected = script === "reset" ? 502 : script.status;
    for (const body of [undefined, "{}"]) {
      amulet.calls.length = 0;
      const answer = await gateway.send({ path: DRAFT, ...(body !== undefined && { body }) });
      expect([expected, 503, 429]).toContain(answer.status);
      expect(amulet.count()).toBeLessThanOrEqual(1);
    }
  }
});

describe("a 404 is asked of one other node, since nodes index late:", () => {
  const late = ["instrument", ...ENDPOINTS.filter(({ kind }) => kind === "context").map(({ operation }) => operation)];
  test.each(late)("%s", async (operation) => {
    const amulet = await startRegistry("amulet", { nodes: 2 });
    const gateway = await serve({ ...NOTHING_KEPT, upstreams: [amulet] });
    const endpoint = ENDPOINTS.find((each) => each.operation === operation)!;
    const path = endpoint.path.replace("{id}", "AMULET-00001");
    const request = endpoint.method === "GET" ? { path } : { path, body: "{}" };
    amulet.on(operation, atFirst({ status: 404, body: { error: "not yet" } }));
    expect((await gateway.send(request)).status).toBe(200);
    expect(new Set(amulet.of().map(({ node }) => node)).size).toBe(2);
    // Both say so: one other node is asked, and its answer goes.
    amulet.calls.length = 0;
    amulet.on(operation, { status: 404, body: { error: "nowhere" } });
    const nowhere = await gateway.send(request);
    expect([nowhere.status, nowhere.text]).toEqual([404, '{"error":"nowhere"}']);
    expect(amulet.count()).toBeLessThanOrEqual(2);
  });

  test("where the other fails, the first one's answer goes", async () => {
    const amulet = await startRegistry("amulet", { nodes: 2 });
    const gateway = await serve({ ...NOTHING_KEPT, upstreams: [amulet] });
    amulet.on("allocation_cancel", atFirst({ status: 404, body: { error: "not yet" } }, "reset"));
    const answer = await gateway.post(
      ENDPOINTS.find(({ operation }) => operation === "allocation_cancel")!.path.replace("{id}", "x"),
    );
    expect([answer.status, answer.text]).toEqual([404, '{"error":"not yet"}']);
  });

  test("but not of a sole node, and not for a factory", async () => {
    const amulet = await startRegistry("amulet");
    const gateway = await serve({ ...NOTHING_KEPT, upstreams: [amulet] });
    amulet.on("*", { status: 404, body: { error: "no" } });
    expect((await gateway.post(ACCEPT)).status).toBe(404);
    expect(amulet.count()).toBe(1);
  });
});
