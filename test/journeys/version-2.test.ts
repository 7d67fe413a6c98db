import { describe, expect, test, vi } from "vitest";
import { contractId } from "../../src/sandbox/contracts.ts";
import { errorOf, send } from "../support/send.ts";
import { ADMINS, useThreeRegistries } from "../support/three-registries.ts";
import { runs } from "../support/thorough.ts";

const PREFIX = "/api/token-standard/v0/registrars";
const TRANSFER = "/registry/transfer-instruction/v2/transfer-factory";
const SETTLEMENT = "/registry/allocation/v2/settlement-factory";
const contextOf = (id: string) => `/registry/allocations/v2/${id}/choice-contexts/cancel`;
const settling = (...allocations: unknown[]) => JSON.stringify({ choiceArguments: { settlement: {}, allocations } });

const OF_AMULET = [contractId(ADMINS.amulet, "1"), contractId(ADMINS.amulet, "2")];
const OF_BONDS = contractId(ADMINS.bonds, "1");

describe("endpoints of version 2", () => {
  const running = useThreeRegistries();

  test.each([
    ["no choice arguments", "{}", /choiceArguments is missing/],
    ["choice arguments that are no object", '{"choiceArguments":[]}', /choiceArguments/],
    ["no body", "", /the body is empty/],
    ["no JSON", "{", /not valid JSON/],
  ])("refuse %s", async (_what, body, why) => {
    running().clearCalls();
    const answer = await send(running().url, { path: `${PREFIX}/amulet${TRANSFER}`, body });
    expect(answer.status).toBe(400);
    expect(errorOf(answer)).toMatch(why);
    expect(running().called()).toEqual([]);
  });

  test("judge nothing inside the choice arguments", async () => {
    const body = '{"choiceArguments":{"transfer":{"sender":5,"receiver":[null]},"actors":"x"}}';
    const answer = await send(running().url, { path: `${PREFIX}/amulet${TRANSFER}`, body });
    expect(answer.status).toBe(200);
    expect(running().registries.amulet.calls.recent.at(-1)!.body.toString()).toBe(body);
  });

  test("are asked again elsewhere when they fail, as those of version 1 are", async () => {
    const { amulet } = running().registries;
    await amulet.faults.set({ kind: "reset", operations: ["transfer_factory_v2"], times: 1 });
    const body = '{"choiceArguments":{}}';
    const answer = await send(running().url, { path: `${PREFIX}/amulet${TRANSFER}`, body });
    await amulet.faults.clear();
    expect(answer.status).toBe(200);
    expect(answer.headers["cache-control"]).toBe("no-store");
  });

  test("have operations of their own in metrics", async () => {
    await send(running().url, { path: `${PREFIX}/amulet${contextOf(OF_AMULET[0]!)}`, body: "{}" });
    const metrics = await (await fetch(`${running().operations}/metrics`)).text();
    expect(metrics).toMatch(
      /registry_gateway_requests_total\{operation="allocation_cancel_v2",upstream="amulet",status="2xx"\} 1/,
    );
  });
});

describe("a registry that has no version 2", () => {
  const running = useThreeRegistries({ registry: { version: "v1" } });

  test.each([
    ["text", { kind: "status", status: 404, body: "nothing here", contentType: "text/plain" }, "nothing here"],
    ["HTML", { kind: "html-404" }, "404"],
    ["nothing", { kind: "status", status: 404, body: "" }, "Not Found"],
  ] as const)("answers 404 with %s, and clients get 404 in the form of errors", async (_what, fault, said) => {
    const { amulet } = running().registries;
    await amulet.faults.set(fault);
    const answer = await send(running().url, { path: `${PREFIX}/amulet${TRANSFER}`, body: '{"choiceArguments":{}}' });
    await amulet.faults.clear();
    expect(answer.status).toBe(404);
    expect(answer.headers["content-type"]).toBe("application/json");
    expect(errorOf(answer)).toContain(said);
  });

  test.each(['{"error": "no such route"}', '{"detail": "Not Found"}', "[404]"])(
    "answers 404 with %s, and clients get its bytes",
    async (body) => {
      const { amulet } = running().registries;
      await amulet.faults.set({ kind: "status", status: 404, body, contentType: "application/json" });
      const answer = await send(running().url, {
        path: `${PREFIX}/amulet${SETTLEMENT}`,
        body: '{"choiceArguments":{}}',
      });
      await amulet.faults.clear();
      expect([answer.status, answer.text]).toEqual([404, body]);
    },
  );

  test("answers 404, whatever was asked for before over the same connection", async () => {
    const { amulet } = running().registries;
    const body = '{"error":"no such route"}';
    await amulet.faults.set({ kind: "status", status: 404, body, contentType: "application/json" });
    const { url } = running();
    for (let i = 0; i < 4; i++) await send(url, { path: `${PREFIX}/amulet/registry/foo/v1/x?a=/instruments/%zz` });
    const answer = await send(url, { path: `${PREFIX}/amulet${TRANSFER}`, body: '{"choiceArguments":{}}' });
    await amulet.faults.clear();
    expect([answer.status, answer.text]).toEqual([404, body]);
  });

  test("answers a path of version 1 with an HTML 404: its URL is wrong", async () => {
    const { amulet } = running().registries;
    await amulet.faults.set({ kind: "html-404", operations: ["transfer_factory"] });
    const path = `${PREFIX}/amulet${TRANSFER.replace("v2", "v1")}`;
    const answer = await send(running().url, { path, body: '{"choiceArguments":{}}' });
    await amulet.faults.clear();
    expect([answer.status, answer.headers["registry-gateway-error"]]).toEqual([502, "upstream_wrong_url"]);
  });
});

describe("a contract that is on its way to another synchronizer", () => {
  const running = useThreeRegistries();

  test("is 409 with the registry's bytes, once, and no failure of anything", async () => {
    const { amulet } = running().registries;
    const body = '{ "error" : "being reassigned" }';
    await amulet.faults.set({ kind: "status", status: 409, body, contentType: "application/json" });
    running().clearCalls();
    for (let turn = 0; turn < 15; turn += 1) {
      const answer = await send(running().url, { path: `${PREFIX}/amulet${contextOf(OF_AMULET[0]!)}`, body: "{}" });
      expect([answer.status, answer.text]).toEqual([409, body]);
    }
    await amulet.faults.clear();
    expect(running().called()).toEqual(Array.from({ length: 15 }, () => "amulet allocation_cancel_v2"));
    const status = (await (await fetch(`${running().operations}/status`)).json()) as {
      upstreams: { name: string; state: string; breaker: string }[];
    };
    expect(status.upstreams.find(({ name }) => name === "amulet")).toMatchObject({ state: "up", breaker: "closed" });
  });
});

describe("a settlement at the plain base URL", () => {
  const running = useThreeRegistries({ keys: { routing: { learn: true } } });
  const settle = (body: string) => send(running().url, { path: SETTLEMENT, body });
  const teach = async (name: "amulet" | "bonds", id: string, version: "v1" | "v2") => {
    const path = `${PREFIX}/${name}${contextOf(id).replace("v2", version)}`;
    expect((await send(running().url, { path, body: "{}" })).status).toBe(200);
  };

  test("goes where all its allocations were answered before, in either version, and nowhere else", async () => {
    const [first, second] = OF_AMULET as [string, string];
    const refused = await settle(settling(first));
    expect([refused.status, refused.headers["registry-gateway-error"]]).toEqual([400, "admin_missing"]);
    expect(errorOf(refused)).not.toContain("choiceArguments");
    await teach("amulet", first, "v1");
    await vi.waitFor(async () => expect((await settle(settling(first))).status).toBe(200), { timeout: 60_000 });
    expect((await settle(settling(first, second))).status).toBe(400);
    await teach("amulet", second, "v2");
    await vi.waitFor(async () => expect((await settle(settling(first, second))).status).toBe(200), { timeout: 60_000 });
    await teach("bonds", OF_BONDS, "v2");
    running().clearCalls();
    const mixed = await settle(settling(first, OF_BONDS));
    expect([mixed.status, mixed.headers["registry-gateway-error"]]).toEqual([400, "contract_ambiguous"]);
    expect(errorOf(mixed)).toContain("not all of one registry");
    expect((await settle(settling(first, { contractId: second }))).status).toBe(400);
    const twice = `{"choiceArguments":{"allocations":[${JSON.stringify(first)}],"allocations":[${JSON.stringify(OF_BONDS)}]}}`;
    expect((await settle(twice)).status).toBe(400);
    expect(running().called()).toEqual([]);
  });

  test("that names an admin goes there, whatever its allocations were", async () => {
    await teach("amulet", OF_AMULET[0]!, "v2");
    running().clearCalls();
    const answer = await send(running().url, {
      path: SETTLEMENT,
      body: settling(OF_AMULET[0]),
      headers: { "x-instrument-admin": "bonds" },
    });
    // That registry does not know the allocation, and says so.
    expect([answer.status, answer.headers["registry-gateway-error"]]).toEqual([404, undefined]);
    expect(running().called()).toEqual(["bonds settlement_factory_v2"]);
  });
});

describe("bodies of a hundred legs", () => {
  // What takes long on a busy machine is not too large.
  const running = useThreeRegistries({ upstreamKeys: { timeout: "1m", attemptTimeout: "1m" } });

  // At night so many that all answers together are larger than what bodies of requests may take.
  const AT_ONCE = runs(2, 20);

  test(`go through with default limits, ${AT_ONCE} at once`, async () => {
    const leg = { transferLegId: "leg", sender: { owner: ADMINS.amulet, id: "x".repeat(4_000) }, amount: "1.0" };
    const transferLegs = Array.from({ length: 100 }, (_, index) => ({
      ...leg,
      transferLegId: `leg-${index}`,
      note: "y".repeat(5_000),
    }));
    const body = JSON.stringify({ choiceArguments: { settlement: {}, transferLegs, allocations: [] } });
    expect(body.length).toBeGreaterThan(900_000);
    expect(body.length).toBeLessThan(1_048_576);
    const { amulet } = running().registries;
    const large = JSON.stringify({
      factoryId: "00ab",
      choiceContext: { choiceContextData: { pad: "z".repeat(7_900_000) }, disclosedContracts: [] },
    });
    await amulet.faults.set({ kind: "status", status: 200, body: large, contentType: "application/json" });
    const asked = Array.from({ length: AT_ONCE }, () =>
      send(running().url, { path: `${PREFIX}/amulet${SETTLEMENT}`, body }),
    );
    const answers = await Promise.all(asked);
    await amulet.faults.clear();
    const refused = answers.filter(({ status }) => status !== 200).map(({ status, text }) => `${status} ${text}`);
    expect(refused).toEqual([]);
    expect(answers.every(({ text }) => text === large)).toBe(true);
    expect(
      amulet.calls.recent
        .filter(({ operation }) => operation === "settlement_factory_v2")
        .every((call) => call.body.toString() === body),
    ).toBe(true);
  });
});
