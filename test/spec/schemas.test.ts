import { readdirSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { Operation } from "../../src/spec/operations.ts";
import { answerProblem, requestProblem } from "../../src/spec/schemas.ts";
import { sampleJson } from "../support/sample.ts";

const SAMPLES = readdirSync(new URL("../fixtures/samples/", import.meta.url));

const OPERATION_OF: Readonly<Record<string, Operation>> = {
  "01-info": "info",
  "02-instruments": "instruments",
  "03-instrument": "instrument",
  "04-transfer-factory": "transfer_factory",
  "05-accept": "transfer_accept",
  "06-reject": "transfer_reject",
  "07-withdraw": "transfer_withdraw",
  "08-execute-transfer": "allocation_execute",
  "09-withdraw-allocation": "allocation_withdraw",
  "10-cancel-allocation": "allocation_cancel",
  "11-allocation-factory": "allocation_factory",
};

const answers = SAMPLES.filter((name) => /\.response\.(?![0-9]{3}\.)(?!404)/.test(name) && !name.includes(".404."));

const INSTRUMENT = { id: "A", name: "A", symbol: "A", decimals: 10, supportedApis: {} };
const CONTRACT = { templateId: "t", contractId: "c", createdEventBlob: "b", synchronizerId: "s" };
const CONTEXT = { choiceContextData: {}, disclosedContracts: [CONTRACT] };

describe("answers as registries send them", () => {
  test("there are samples of all of them", () => {
    expect(answers.length).toBeGreaterThan(15);
  });

  test.each(answers)("%s fits", (name) => {
    expect(answerProblem(OPERATION_OF[name.split(".", 1)[0]!]!, sampleJson(name))).toBeUndefined();
  });

  test.each<[Operation, unknown]>([
    ["info", { adminId: "a::1", supportedApis: {}, brandNew: [1] }],
    ["instruments", { instruments: [] }],
    ["instruments", { instruments: [], nextPageToken: null }],
    ["instrument", { ...INSTRUMENT, totalSupply: null, totalSupplyAsOf: null, paused: true }],
    ["transfer_factory", { factoryId: "f", transferKind: "teleport", choiceContext: CONTEXT }],
    ["allocation_cancel", { ...CONTEXT, disclosedContracts: [{ ...CONTRACT, debugPayload: null }] }],
    ["pass_through", "anything"],
  ])("%s: unknown fields and values are let be", (operation, body) => {
    expect(answerProblem(operation, body)).toBeUndefined();
  });
});

describe("answers that break the published schema", () => {
  test.each<[Operation, unknown, RegExp]>([
    ["info", { supportedApis: {} }, /^adminId is missing$/],
    ["info", { adminId: 1, supportedApis: {} }, /^adminId must be string$/],
    ["info", { adminId: "a::1", supportedApis: [] }, /^supportedApis must be object$/],
    ["info", [], /^the body must be object$/],
    ["info", null, /^the body must be object$/],
    ["instruments", {}, /^instruments is missing$/],
    ["instruments", { instruments: {} }, /^instruments must be array$/],
    ["instruments", { instruments: [INSTRUMENT, { ...INSTRUMENT, decimals: 1.5 }] }, /^instruments\.1\.decimals/],
    ["instruments", { instruments: [], nextPageToken: 7 }, /^nextPageToken/],
    ["instrument", { ...INSTRUMENT, totalSupply: 12 }, /^totalSupply/],
    ["transfer_factory", { factoryId: "f", choiceContext: CONTEXT }, /^transferKind is missing$/],
    ["allocation_factory", { choiceContext: CONTEXT }, /^factoryId is missing$/],
    ["transfer_accept", { choiceContextData: {} }, /^disclosedContracts is missing$/],
    ["allocation_execute", { ...CONTEXT, disclosedContracts: [{}] }, /^disclosedContracts\.0: templateId/],
  ])("%s %j", (operation, body, problem) => {
    expect(answerProblem(operation, body)).toMatch(problem);
  });

  // It was kept for each element, until no memory was left.
  test("of many things that are wrong, the first is told", () => {
    const zeros = Array.from({ length: 2_000_000 }, () => 0);
    expect(answerProblem("instruments", { instruments: zeros })).toBe("instruments.0 must be object");
    const choiceContext = { ...CONTEXT, disclosedContracts: [CONTRACT, ...zeros] };
    const factory = { factoryId: "f", transferKind: "self", choiceContext };
    expect(answerProblem("transfer_factory", factory)).toBe("choiceContext.disclosedContracts.1 must be object");
    const pauseInfo = { reason: [], until: 1 };
    expect(answerProblem("instrument", { ...INSTRUMENT, pauseInfo })).toBe("pauseInfo.reason must be string");
  });
});

describe("requests as clients send them", () => {
  const requests = SAMPLES.filter((name) => name.includes(".request."));

  test.each(requests)("%s is let through", (name) => {
    const kind = name.includes("-factory.") ? "factory" : "context";
    expect(requestProblem(kind, sampleJson(name), false)).toBeUndefined();
  });

  test.each<["factory" | "context", unknown]>([
    ["factory", { choiceArguments: {} }],
    ["factory", { choiceArguments: { anything: [1] }, excludeDebugFields: null, more: 1 }],
    ["factory", { choiceArguments: {}, excludeDebugFields: true }],
    ["context", {}],
    ["context", { meta: null, excludeDebugFields: null }],
    ["context", { meta: {} }],
    ["context", { meta: { values: {} } }],
    ["context", { meta: { values: "" } }],
    ["context", { excludeDebugFields: false, lock: null }],
  ])("%s %j", (kind, body) => {
    expect(requestProblem(kind, body, false)).toBeUndefined();
  });
});

describe("requests that are no requests", () => {
  test.each<["factory" | "context", unknown, RegExp]>([
    ["factory", {}, /^choiceArguments is missing$/],
    ["factory", { choiceArguments: null }, /^choiceArguments must be object$/],
    ["factory", { choiceArguments: [] }, /^choiceArguments must be object$/],
    ["factory", { choiceArguments: "{}" }, /^choiceArguments must be object$/],
    ["factory", { choiceArguments: {}, excludeDebugFields: "true" }, /^excludeDebugFields/],
    ["factory", { choiceArguments: {}, excludeDebugFields: 1 }, /^excludeDebugFields/],
    ["factory", [], /^the body must be object$/],
    ["factory", "x", /^the body must be object$/],
    ["context", [], /^the body must be object$/],
    ["context", null, /^the body must be object$/],
    ["context", 1, /^the body must be object$/],
    ["context", { meta: [] }, /^meta/],
    ["context", { meta: "x" }, /^meta/],
    ["context", { meta: 0 }, /^meta/],
    ["context", { excludeDebugFields: "no" }, /^excludeDebugFields/],
  ])("%s %j", (kind, body, problem) => {
    expect(requestProblem(kind, body, false)).toMatch(problem);
  });

  test("by the published rules alone, meta is a flat map of strings", () => {
    expect(requestProblem("context", { meta: { values: {} } }, true)).toMatch(/^meta/);
    expect(requestProblem("context", { meta: { a: "b" } }, true)).toBeUndefined();
    expect(requestProblem("context", { meta: { "a\nb": { x: 1 } } }, true)).toMatch(/^meta/);
    expect(requestProblem("context", { meta: { "a\nb": "c" } }, true)).toBeUndefined();
    expect(requestProblem("context", { meta: { a: "b", "c\n\u001b[2J": 1 } }, true)).toBe(
      'meta."c\\n\\u001b[2J" must be string',
    );
    expect(requestProblem("context", { meta: { ["k".repeat(900_000)]: {} } }, true)).toMatch(
      /^meta\."k{200}…" must be string$/,
    );
    expect(requestProblem("context", { meta: null }, true)).toBeUndefined();
    expect(requestProblem("factory", { choiceArguments: {} }, true)).toBeUndefined();
  });
});
