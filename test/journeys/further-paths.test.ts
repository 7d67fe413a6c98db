import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type GatewayUnderTest, startGateway, testConfig } from "../support/gateway.ts";

const INFO = "/registry/metadata/v1/info";
const SCAN_PROXY = "/api/validator/v0/scan-proxy";
const OPERATOR = "/api/utilities/v0/operator";
const ADMINS = { amulet: "amulet::1220aa", bonds: "bonds::1220bb" };

let gateway: GatewayUnderTest;
const asked: { readonly admin: string; readonly url: string; readonly headers: IncomingMessage["headers"] }[] = [];
// Both are below base paths of one server, as hosts of several registries have them.
const server = createServer((request, response) => {
  const { url = "", headers } = request;
  const admin = url.startsWith("/x/bonds") ? ADMINS.bonds : ADMINS.amulet;
  request.resume();
  if (!url.endsWith(INFO)) asked.push({ admin, url, headers });
  const body = url.startsWith(OPERATOR)
    ? '{ "partyId":"operator::1220" }'
    : JSON.stringify({ adminId: admin, supportedApis: {} });
  response.writeHead(200, { "content-type": "application/json" }).end(body);
});

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  gateway = await startGateway({
    upstreams: [
      { name: "amulet", admin: ADMINS.amulet, urls: [`${origin}/x/amulet`], basePaths: [SCAN_PROXY, "/amulet"] },
      { name: "bonds", admin: ADMINS.bonds, urls: [`${origin}/x/bonds`], extraPaths: [OPERATOR] },
    ],
  });
});

afterAll(async () => {
  await gateway.stop();
  server.close();
});

async function ask(
  path: string,
  init: RequestInit = {},
): Promise<{ status: number; text: string; allow: string | null }> {
  const answer = await fetch(gateway.url + path, init);
  return { status: answer.status, text: await answer.text(), allow: answer.headers.get("allow") };
}

test("a base path stands for its registry, cached and passed-through paths alike", async () => {
  for (const base of [SCAN_PROXY, "/amulet", "/amulet/registry"]) {
    expect(JSON.parse((await ask(`${base}${INFO}`)).text)).toMatchObject({ adminId: ADMINS.amulet });
  }
  expect((await ask("/amulet/registry/drafts/v9/x?y=1")).status).toBe(200);
  expect(asked.at(-1)).toMatchObject({ admin: ADMINS.amulet, url: "/x/amulet/registry/drafts/v9/x?y=1" });
});

test("a base path and a header or body that name another registry are refused", async () => {
  const before = asked.length;
  const headers = { "x-instrument-admin": ADMINS.bonds };
  expect((await ask(`/amulet${INFO}`, { headers })).status).toBe(400);
  const body = JSON.stringify({ choiceArguments: { expectedAdmin: ADMINS.bonds } });
  for (const path of ["transfer-instruction/v1/transfer-factory", "conditional-lock/v1/lock-factory"]) {
    const call = { method: "POST", headers: { "content-type": "application/json" }, body };
    const { status, text } = await ask(`/amulet/registry/${path}`, call);
    expect([status, JSON.parse(text)]).toMatchObject([400, { code: "admin_disagreement" }]);
  }
  expect(asked).toHaveLength(before);
});

test("an extra path reaches the registry's origin, with its query and its bytes, here and below the prefix", async () => {
  for (const path of [OPERATOR, gateway.registrar("bonds").slice(gateway.url.length) + OPERATOR]) {
    expect(await ask(`${path}?q=%2F`)).toMatchObject({ status: 200, text: '{ "partyId":"operator::1220" }' });
    expect(asked.at(-1)!.url).toBe(`${OPERATOR}?q=%2F`);
  }
});

test("an extra path is refused of a registry that has none, with another method, and with another admin", async () => {
  const before = asked.length;
  const of = (name: string) => gateway.registrar(name).slice(gateway.url.length);
  expect((await ask(of("amulet") + OPERATOR)).status).toBe(404);
  expect((await ask(OPERATOR, { headers: { "x-instrument-admin": "amulet" } })).status).toBe(400);
  expect(await ask(OPERATOR, { method: "POST", body: "{}" })).toMatchObject({ status: 405, allow: "GET, OPTIONS" });
  for (const path of [`${OPERATOR}/`, `${OPERATOR}/..`, `${OPERATOR}%2F..`, "/api/utilities/v0/other"]) {
    expect([path, (await ask(path)).status]).toEqual([path, 404]);
  }
  expect(asked).toHaveLength(before);
});

test("a draft's factory goes where path, header or body say, and nowhere where they name two", async () => {
  const lock = (choiceArguments: object) =>
    ask("/registry/conditional-lock/v1/lock-factory", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ choiceArguments }),
    });
  for (const admin of Object.values(ADMINS)) {
    expect((await lock({ lock: { instrumentId: { admin, id: "A" } } })).status).toBe(200);
    expect(asked.at(-1)!.admin).toBe(admin);
  }
  const body = JSON.stringify({ choiceArguments: {} });
  const headers = { "content-type": "application/json" };
  const draft = "/registry/conditional-lock/v1/lock-factory";
  for (const name of ["amulet", "bonds"] as const) {
    const byPath = gateway.registrar(name).slice(gateway.url.length) + draft;
    expect((await ask(byPath, { method: "POST", headers, body })).status).toBe(200);
    expect(asked.at(-1)!.admin).toBe(ADMINS[name]);
    const byHeader = { ...headers, "x-instrument-admin": ADMINS[name] };
    expect((await ask(draft, { method: "POST", headers: byHeader, body })).status).toBe(200);
    expect(asked.at(-1)).toMatchObject({ admin: ADMINS[name], url: `/x/${name}${draft}` });
  }
  const two = { expectedAdmin: ADMINS.amulet, lock: { instrumentId: { admin: ADMINS.bonds, id: "A" } } };
  expect((await lock(two)).status).toBe(400);
  expect((await lock({})).status).toBe(400);
  const others = { ...headers, "x-instrument-admin": ADMINS.bonds };
  const of = {
    method: "POST",
    headers: others,
    body: JSON.stringify({ choiceArguments: { expectedAdmin: ADMINS.amulet } }),
  };
  expect(JSON.parse((await ask(draft, of)).text)).toMatchObject({ code: "admin_disagreement" });
});

test.each([
  [{ basePaths: ["/a/../b"] }, "must not have segments"],
  [{ basePaths: ["/a/"] }, "is not a path"],
  [{ basePaths: ["a"] }, "is not a path"],
  [{ basePaths: ["/a?b"] }, "is not a path"],
  [{ basePaths: ["/a%2Fb"] }, "is not a path"],
  [{ basePaths: ["/a/registry"] }, "must not name registry"],
  [{ extraPaths: ["/registry/x"] }, "must not name registry"],
  [{ extraPaths: ["/../x"] }, "must not have segments"],
  [{ extraPaths: ["/docs"] }, "gateway's own"],
  [{ extraPaths: ["/catalog/v1/x"] }, "gateway's own"],
  [{ basePaths: ["/api/token-standard/v0/registrars/x"] }, "routing.prefix"],
  [{ extraPaths: ["/api/token-standard/v0/registrars/x"] }, "routing.prefix"],
  [{ extraPaths: ["/a", "/a"] }, "the same extra path"],
  [{ basePaths: ["/a", "/a"] }, "the same base path"],
  [{ basePaths: ["/a", "/a/b"] }, "below the base path"],
])("%j is refused by check", (keys, why) => {
  const upstream = { name: "a", urls: ["http://127.0.0.1:1"], ...keys };
  expect(() => testConfig({ upstreams: [upstream] })).toThrow(why);
});

test("two upstreams with one base path are refused by check", () => {
  const upstreams = ["a", "b"].map((name) => ({ name, urls: [`http://127.0.0.1:1/${name}`], basePaths: ["/x"] }));
  expect(() => testConfig({ upstreams })).toThrow("the same base path");
});

test("an extra path at or below another upstream's base path is refused by check, and below its own is not", () => {
  const check = (...keys: object[]) =>
    testConfig({
      upstreams: keys.map((each, at) => Object.assign({ name: `u${at}`, urls: [`http://127.0.0.1:1/${at}`] }, each)),
    });
  for (const path of ["/x", "/x/y"]) {
    expect(() => check({ basePaths: ["/x"] }, { extraPaths: [path] })).toThrow("another upstream's base path");
    expect(() => check({ basePaths: ["/x"], extraPaths: [path] })).not.toThrow();
  }
  expect(() => check({ basePaths: ["/x"] }, { extraPaths: ["/xy"] }, { extraPaths: ["/xy"] })).not.toThrow();
  const upstreams = [{ name: "u", urls: ["http://127.0.0.1:1"], basePaths: ["/x"] }];
  const discovery = { sources: [{ file: "list.json" }], defaults: { extraPaths: ["/x/y"] } };
  expect(() => testConfig({ upstreams, discovery })).toThrow("another upstream's base path");
});
