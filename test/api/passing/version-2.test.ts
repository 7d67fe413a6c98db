import { describe, expect, test } from "vitest";
import { choice, ENDPOINTS, FACTORY, FACTORY_V2, INFO, LIST, pathOf } from "../../support/endpoints.ts";
import { NOTHING_KEPT, startGateway, useGateway } from "../../support/gateway.ts";
import { expectOwnError } from "../../support/http.ts";
import { type Registry, startRegistry } from "../../support/registry.ts";

const SETTLEMENT = pathOf("settlement_factory_v2");
const CANCEL_V2 = pathOf("allocation_cancel_v2");
const OF_VERSION_2 = ENDPOINTS.filter(({ path }) => path.includes("/v2/"));

const serve = useGateway();

async function start(nodes = 1) {
  const amulet = await startRegistry("amulet", { nodes });
  return { amulet, gateway: await serve({ ...NOTHING_KEPT, upstreams: [amulet] }) };
}

const html = ["content-type", "text/html"];

describe("a registry's 404 to a version 2 path stays 404, by which clients fall back to version 1:", () => {
  test.each<[string, object]>([
    ["text", { fields: ["content-type", "text/plain"], body: "nothing here" }],
    ["HTML", { fields: html, body: "<html><h1>404 Not Found</h1><hr>nginx</html>" }],
    ["nothing", { fields: ["content-type", "text/plain"], body: "" }],
    ["JSON of a framework", { body: { detail: "Not Found" } }],
    ["a list", { body: "[404]" }],
    ["broken JSON", { body: '{"error":' }],
  ])("with %s, it says that there is no version 2", async (_what, script) => {
    const { amulet, gateway } = await start();
    for (const { operation, path, kind } of OF_VERSION_2) {
      amulet.on(operation, { status: 404, ...script });
      const answer = await gateway.post(path.replace("{id}", "00ab"), kind === "factory" ? choice() : "{}");
      expectOwnError(answer, 404, "no_such_version");
      expect(answer.error).toMatch(/version 1/);
    }
  });

  test("with an error body of the registry, it is passed on as it is", async () => {
    const { amulet, gateway } = await start();
    const body = '{ "error":"no such contract" }';
    for (const [operation, path] of [
      ["settlement_factory_v2", SETTLEMENT],
      ["allocation_cancel_v2", CANCEL_V2],
    ] as const) {
      amulet.on(operation, { status: 404, body });
      const answer = await gateway.post(path, choice());
      expect([answer.status, answer.text, answer.code]).toEqual([404, body, undefined]);
    }
  });

  test("while an HTML 404 to a path of version 1 says that the URL is probably wrong", async () => {
    const { amulet, gateway } = await start();
    amulet.on("*", { status: 404, fields: html, body: "<html><h1>404 Not Found</h1></html>" });
    for (const request of [{ path: LIST }, { path: FACTORY, body: choice() }]) {
      const answer = await gateway.send(request);
      expectOwnError(answer, 502, "upstream_wrong_url");
      expect(answer.error).toMatch(/URL/);
    }
  });
});

describe("a contract that is being reassigned", () => {
  const up = async (gateway: Awaited<ReturnType<typeof start>>["gateway"]) =>
    (await gateway.operations.upstream("amulet")).state as string;

  test.each<[string, number, string]>([
    ["a 409", 409, '{ "error" : "being reassigned" }'],
    ["a 429 that says ABORTED", 429, '{ "error" : "ABORTED: contract is being moved" }'],
    ["a 429 that says reassign", 429, '{ "error" : "the contract is being reassigned" }'],
  ])("%s goes to the client with its bytes, once, and is no failure of anything", async (_what, status, body) => {
    const { amulet, gateway } = await start(2);
    amulet.on("*", { status, body });
    for (let round = 0; round < 12; round += 1) {
      const answer = await gateway.post(CANCEL_V2);
      expect([answer.status, answer.text, answer.code]).toEqual([status, body, undefined]);
    }
    expect(amulet.count()).toBe(12);
    expect(await up(gateway)).toMatch(/up/);
    amulet.on("*", undefined);
    expect((await gateway.post(FACTORY, choice())).status).toBe(200);
  });
});

test("supportedApis are passed on as the registry says, in info and instruments", async () => {
  const supportedApis = { "splice-api-token-transfer-instruction-v2": 1 };
  const amulet = await startRegistry("amulet", { supportedApis });
  const gateway = await serve({ upstreams: [amulet] });
  expect((await gateway.get(INFO)).json.supportedApis).toEqual(supportedApis);
});

test("clients see new supportedApis as soon as the registry is purged", async () => {
  const amulet: Registry = await startRegistry("amulet");
  const gateway = await serve({ cache: { ttl: { info: "1h" } }, upstreams: [amulet] });
  expect((await gateway.get(INFO)).text).not.toContain("v2");
  amulet.supportedApis = { "splice-api-token-transfer-instruction-v2": 1 };
  expect((await gateway.get(INFO)).text).not.toContain("v2");
  expect((await gateway.operations.purge("amulet")).status).toBe(200);
  expect((await gateway.get(INFO)).text).toContain("v2");
});

test("version 2 has operations of its own in metrics", async () => {
  const gateway = await startGateway({ upstreams: [await startRegistry("amulet")] });
  expect((await gateway.post(FACTORY_V2, choice())).status).toBe(200);
  const count = gateway.operations.metric(
    "registry_gateway_requests_total",
    'operation="transfer_factory_v2"',
    'upstream="amulet"',
  );
  expect(await count).toBe(1);
});
