import { describe, expect, test } from "vitest";
import type { TransferFactory } from "../../src/sandbox/bodies.ts";
import { contractId, ownContracts } from "../../src/sandbox/contracts.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import type { SampleRegistryOptions } from "../support/sample-registry.ts";
import { ALICE, BOB, DSO, sampleJson, sampleText, UTILITY_ADMIN } from "../support/sample.ts";
import { ask, errorOf, parse } from "../support/wire.ts";

const startRegistry = useSampleRegistries();

const TRANSFER = "/registry/transfer-instruction/v1/transfer-factory";
const ALLOCATION = "/registry/allocation-instruction/v1/allocation-factory";
const TRANSFER_V2 = "/registry/transfer-instruction/v2/transfer-factory";
const ALLOCATION_V2 = "/registry/allocation-instruction/v2/allocation-factory";
const CID = contractId(DSO, "any");
const ACCEPT = `/registry/transfer-instruction/v1/${CID}/choice-contexts/accept`;
const CANCEL = `/registry/allocations/v1/${CID}/choice-contexts/cancel`;
const UTILITY: Partial<SampleRegistryOptions> = { style: "utility", admin: UTILITY_ADMIN };

function errorIn(sample: string): string {
  return (sampleJson(sample) as { error: string }).error;
}

describe("a request body", () => {
  test.each<{
    why: string;
    options?: Partial<SampleRegistryOptions>;
    path: string;
    body: string;
    status: number;
    says: string;
  }>([
    { why: "no JSON", path: TRANSFER, body: "{", status: 400, says: "malformed" },
    { why: "empty for a factory", path: ALLOCATION, body: "", status: 400, says: "malformed" },
    { why: "an array", path: ACCEPT, body: "[]", status: 400, says: "malformed" },
    { why: "no choiceArguments", path: TRANSFER, body: "{}", status: 400, says: "DownField(choiceArguments)" },
    {
      why: "no choiceArguments at the utility",
      options: UTILITY,
      path: ALLOCATION,
      body: "{}",
      status: 422,
      says: errorIn("04-transfer-factory.response.422.utility.json"),
    },
    { why: "choiceArguments a list", path: TRANSFER, body: '{"choiceArguments":[]}', status: 400, says: "wrong type" },
    {
      why: "excludeDebugFields a text",
      path: CANCEL,
      body: '{"excludeDebugFields":"yes"}',
      status: 400,
      says: "wrong",
    },
    {
      why: "wrapped meta",
      path: ACCEPT,
      body: sampleText("05-07-choice-context.request.meta-wrapped-rejected-by-scan.json"),
      status: 400,
      says: "DownField(meta)",
    },
    {
      why: "another admin in expectedAdmin",
      path: TRANSFER,
      body: '{"choiceArguments":{"expectedAdmin":"x::1220"}}',
      status: 400,
      says: "must match registry admin",
    },
    {
      why: "another admin in the transfer",
      path: TRANSFER,
      body: sampleText("04-transfer-factory.request.admin-mismatch.json"),
      status: 400,
      says: errorIn("04-transfer-factory.response.400.chainlink-admin.json"),
    },
    {
      why: "another admin in the allocation",
      path: ALLOCATION,
      body: sampleText("11-allocation-factory.request.utility.json"),
      status: 400,
      says: "must match registry admin",
    },
    {
      why: "another admin in a v2 transfer",
      path: TRANSFER_V2,
      body: sampleText("04-transfer-factory.request.v2-shape.json"),
      status: 400,
      says: "must match registry admin",
    },
    {
      why: "another admin in a v2 allocation",
      path: ALLOCATION_V2,
      body: sampleText("11-allocation-factory.request.v2-shape.json"),
      status: 400,
      says: "must match registry admin",
    },
  ])("is refused: $why", async ({ options, path, body, status, says }) => {
    const { url } = await startRegistry(options);
    const answer = await ask(url + path, { body });
    expect(answer.status).toBe(status);
    expect(errorOf(answer)).toContain(says);
  });

  test("in another media type is refused", async () => {
    const { url } = await startRegistry();
    const answer = await ask(url + ACCEPT, { body: "{}", headers: { "content-type": "text/plain" } });
    expect(answer.status).toBe(415);
  });

  test.each([
    { path: TRANSFER, body: sampleText("04-transfer-factory.request.lenient-old.json") },
    { path: ACCEPT, body: "" },
    { path: ACCEPT, body: "{}" },
    { path: ACCEPT, body: sampleText("05-07-choice-context.request.meta.json") },
    { path: ACCEPT, body: sampleText("05-07-choice-context.request.meta-values.json") },
    { path: CANCEL, body: sampleText("08-10.request.sdk.json") },
    { path: CANCEL, body: '{"meta":null,"excludeDebugFields":null}' },
  ])("of an unusual client is accepted: $body", async ({ path, body }) => {
    const { url } = await startRegistry();
    expect((await ask(url + path, { method: "POST", body })).status).toBe(200);
  });

  test("that names another admin gets a plausible answer where the registry does not look", async () => {
    const { url } = await startRegistry({ checksBodyAdmin: false });
    const answer = await ask(url + TRANSFER, { body: sampleText("04-transfer-factory.request.utility.json") });
    expect(answer.status).toBe(200);
    expect(parse(answer)).toHaveProperty("factoryId");
  });
});

function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(shapeOf);
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, shapeOf(inner)]));
  }
  return value === null ? null : typeof value;
}

function transferBetween(sender: string, receiver: string): object {
  return { choiceArguments: { transfer: { sender, receiver } }, excludeDebugFields: true };
}

describe("an answer has the shape and about the size of the sample", () => {
  const ALLOCATION_ID = `/registry/allocations/v1/${CID}/choice-contexts`;
  test.each<{ sample: string; options?: Partial<SampleRegistryOptions>; path: string; body: object }>([
    { sample: "04-transfer-factory.response.amulet.offer", path: TRANSFER, body: transferBetween(ALICE, "x::1220ab") },
    { sample: "04-transfer-factory.response.amulet.direct", path: TRANSFER, body: transferBetween(ALICE, "x::1220aa") },
    {
      sample: "04-transfer-factory.response.utility",
      options: UTILITY,
      path: TRANSFER,
      body: transferBetween(ALICE, BOB),
    },
    { sample: "05-accept.response.amulet", path: ACCEPT, body: { excludeDebugFields: true } },
    { sample: "05-accept.response.utility", options: UTILITY, path: ACCEPT, body: { excludeDebugFields: true } },
    {
      sample: "08-execute-transfer.response.amulet",
      path: `${ALLOCATION_ID}/execute-transfer`,
      body: { excludeDebugFields: true },
    },
    { sample: "10-cancel-allocation.response.amulet", path: CANCEL, body: { excludeDebugFields: true } },
    {
      sample: "11-allocation-factory.response.amulet",
      path: ALLOCATION,
      body: { choiceArguments: {}, excludeDebugFields: true },
    },
    {
      sample: "11-allocation-factory.response.utility",
      options: UTILITY,
      path: ALLOCATION,
      body: { choiceArguments: {}, excludeDebugFields: true },
    },
  ])("$sample", async ({ sample, options, path, body }) => {
    const { url } = await startRegistry(options);
    const answer = await ask(url + path, { body });
    const expected = sampleJson(`${sample}.json`);
    expect(shapeOf(parse(answer))).toEqual(shapeOf(expected));
    const size = JSON.stringify(expected).length;
    expect(Math.abs(answer.body.length - size) / size).toBeLessThan(0.1);
  });

  test("with debug fields unless they are excluded, and the same for the same request", async () => {
    const { url } = await startRegistry();
    const body = { choiceArguments: { transfer: { sender: ALICE, receiver: ALICE } } };
    const answer = await ask(url + TRANSFER, { body });
    const size = JSON.stringify(sampleJson("04-transfer-factory.response.amulet.self.with-debug.json")).length;
    expect(Math.abs(answer.body.length - size) / size).toBeLessThan(0.1);
    const { transferKind, choiceContext } = parse(answer) as TransferFactory;
    expect(transferKind).toBe("self");
    expect(choiceContext.disclosedContracts.map((contract) => contract.debugPackageName)).toEqual(
      Array.from({ length: 5 }, () => "splice-amulet"),
    );
    expect((await ask(url + TRANSFER, { body })).body).toEqual(answer.body);
  });
});

describe("a path", () => {
  test.each([
    { method: "GET", path: "/registry/metadata/v1/nothing", status: 404 },
    { method: "GET", path: "/elsewhere", status: 404 },
    { method: "POST", path: "/registry/metadata/v1/info", status: 405 },
    { method: "GET", path: TRANSFER, status: 405 },
    { method: "HEAD", path: "/registry/metadata/v1/info", status: 200 },
    { method: "GET", path: "/registry/metadata/v1/instruments/%E0%A4%A", status: 404 },
  ])("$method $path gives $status", async ({ method, path, status }) => {
    const { url } = await startRegistry();
    expect((await ask(url + path, { method })).status).toBe(status);
  });

  test("of version 2 answers where it is live, and nowhere else", async () => {
    const body = sampleText("04-transfer-factory.request.v2-shape.json");
    const context = `/registry/allocations/v2/${CID}/choice-contexts/withdraw`;
    const settlement = "/registry/allocation/v2/settlement-factory";
    const live = await startRegistry(UTILITY);
    expect(parse(await ask(live.url + TRANSFER_V2, { body }))).toHaveProperty("transferKind", "offer");
    expect(parse(await ask(live.url + settlement, { body }))).toHaveProperty("factoryId");
    expect(parse(await ask(live.url + context, { body: {} }))).toHaveProperty("disclosedContracts");
    for (const operation of ["transfer_factory_v2", "settlement_factory_v2", "allocation_withdraw_v2"] as const) {
      expect(live.calls.count(operation)).toBe(1);
    }
    const old = await startRegistry({ ...UTILITY, version: "v1" });
    for (const path of [TRANSFER_V2, settlement, context, "/registry/draft/v9/x"]) {
      expect((await ask(old.url + path, { body })).status).toBe(404);
    }
  });

  test("of a settlement discloses what each of a hundred allocations needs, and takes no more", async () => {
    const { url } = await startRegistry({ contracts: ownContracts(DSO) });
    const settle = (legs: number, allocations: unknown) =>
      ask(`${url}/registry/allocation/v2/settlement-factory`, {
        body: {
          choiceArguments: { settlement: {}, transferLegs: Array.from({ length: legs }, () => ({})), allocations },
        },
      });
    const ids = Array.from({ length: 100 }, (_none, at) => contractId(DSO, `allocation ${at}`));
    const answer = await settle(100, ids);
    expect(answer.status).toBe(200);
    const { choiceContext } = parse(answer) as { choiceContext: { disclosedContracts: { contractId: string }[] } };
    const disclosed = choiceContext.disclosedContracts.map((each) => each.contractId);
    expect(new Set(disclosed).size).toBe(disclosed.length);
    for (const id of ids) expect(disclosed).toContain(id);
    expect(JSON.stringify(choiceContext).length).toBeGreaterThan(1_000_000);
    expect((await settle(101, ids)).status).toBe(400);
    expect((await settle(1, [...ids, contractId(DSO, "one more")])).status).toBe(400);
    expect((await settle(1, [contractId(UTILITY_ADMIN, "of another")])).status).toBe(404);
    expect((await settle(1, "all")).status).toBe(400);
    expect((await settle(1, [7])).status).toBe(400);
  });

  test("of an allocation instruction discloses it, or knows it not in words of its own", async () => {
    const { url } = await startRegistry({ contracts: ownContracts(DSO) });
    const path = (id: string, choice: string) =>
      `${url}/registry/allocation-instruction/v2/${id}/choice-contexts/${choice}`;
    const own = contractId(DSO, "instruction");
    for (const choice of ["accept", "withdraw"]) {
      const answer = await ask(path(own, choice), { body: {} });
      expect(parse(answer)).toMatchObject({ disclosedContracts: [{}, { contractId: own }] });
    }
    const unknown = await ask(path(contractId(UTILITY_ADMIN, "x"), "accept"), { body: {} });
    expect([unknown.status, parse(unknown)]).toEqual([
      404,
      { error: expect.stringContaining("AllocationInstruction") },
    ]);
  });

  test("of a draft echoes the request", async () => {
    const { url } = await startRegistry();
    const answer = await ask(`${url}/registry/draft/v9/x?y=%20z`, { body: ' {"a": 1.0} ' });
    expect(parse(answer)).toEqual({
      method: "POST",
      url: "/registry/draft/v9/x?y=%20z",
      contentType: "application/json",
      body: ' {"a": 1.0} ',
    });
  });
});

test("of several registries exactly the one that issued a contract id knows it", async () => {
  const admins = [DSO, UTILITY_ADMIN, "third::1220"];
  const registries = await Promise.all(admins.map((admin) => startRegistry({ admin, contracts: ownContracts(admin) })));
  const path = `/registry/transfer-instruction/v1/${contractId(UTILITY_ADMIN, "x")}/choice-contexts/accept`;
  const answers = await Promise.all(registries.map((registry) => ask(registry.url + path, { body: {} })));
  expect(answers.map((answer) => answer.status)).toEqual([404, 200, 404]);
  expect(contractId(DSO, "x")).toMatch(/^[0-9a-f]{138}$/);
});
