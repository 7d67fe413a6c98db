import { describe, expect, test } from "vitest";
import { differences, meaningOf } from "../../src/bodies/meaning.ts";
import { CACHED_OPERATIONS, type Operation, OPERATIONS } from "../../src/spec/operations.ts";
import { ENDPOINT_EXAMPLES } from "../../tools/openapi/examples.ts";

const said = (operation: Operation, body: unknown) =>
  meaningOf(operation, Buffer.from(typeof body === "string" ? body : JSON.stringify(body)));

const instrument = { id: "USD", name: "Dollar", symbol: "$", decimals: 10, supportedApis: { a: 1, b: 0 } };
const contract = { templateId: "p:M:T", contractId: "00aa", createdEventBlob: "Cg==", synchronizerId: "s::1220" };
const other = { ...contract, contractId: "00bb" };
const data = { values: { round: { tag: "AV_ContractId", value: "00aa" }, amount: { tag: "AV_Int", value: 5 } } };
const context = { choiceContextData: data, disclosedContracts: [contract, other] };
const factory = { factoryId: "00ff", transferKind: "offer", choiceContext: context };
const page = { instruments: [instrument, { ...instrument, id: "EUR" }], nextPageToken: "EUR" };

describe("means the same", () => {
  test.each<[string, Operation, unknown, unknown]>([
    [
      "an info whose APIs are in another order",
      "info",
      { adminId: "a", supportedApis: { x: 1, y: 2 } },
      { supportedApis: { y: 2, x: 1 }, adminId: "a" },
    ],
    [
      "an instrument whose supply moved",
      "instrument",
      instrument,
      { ...instrument, totalSupply: "7.0", totalSupplyAsOf: "2026-11-24T00:00:00Z" },
    ],
    ["an instrument with a member nobody knows", "instrument", instrument, { ...instrument, color: "red" }],
    ["a page in another order", "instruments", page, { ...page, instruments: page.instruments.toReversed() }],
    [
      "a context with its contracts in another order",
      "transfer_accept",
      context,
      { ...context, disclosedContracts: [other, contract] },
    ],
    [
      "a context with debug fields",
      "transfer_accept",
      context,
      { ...context, disclosedContracts: [{ ...contract, debugPackageName: "p" }, other] },
    ],
    [
      "a factory with meta of the registry's own",
      "transfer_factory",
      factory,
      { ...factory, meta: { at: 1 }, choiceContext: { ...context, meta: {} } },
    ],
    ["a number written in another way", "instrument", instrument, JSON.stringify(instrument).replace("10", "1e1")],
    ["text written in another way", "instrument", instrument, JSON.stringify(instrument).replace("USD", "\\u0055SD")],
  ])("%s", (_what, operation, one, another) => {
    expect(differences(said(operation, one), said(operation, another), 10)).toEqual([]);
  });
});

describe("means something else", () => {
  test.each<[string, Operation, unknown, unknown, readonly (string | RegExp)[]]>([
    ["an info of another admin", "info", { adminId: "a" }, { adminId: "b" }, ["adminId"]],
    [
      "an info with another minor version",
      "info",
      { adminId: "a", supportedApis: { x: 1 } },
      { adminId: "a", supportedApis: { x: 2 } },
      ["supportedApis"],
    ],
    ["an instrument of other decimals", "instrument", instrument, { ...instrument, decimals: 6 }, ["decimals"]],
    ["one that is paused", "instrument", instrument, { ...instrument, paused: true }, ["paused"]],
    ["a page that lacks one", "instruments", page, { ...page, instruments: [instrument] }, [/^instrument /]],
    [
      "a page that has one twice",
      "instruments",
      page,
      { ...page, instruments: [...page.instruments, instrument] },
      [/^instrument /],
    ],
    ["a page that goes on elsewhere", "instruments", page, { ...page, nextPageToken: "ZZZ" }, ["nextPageToken"]],
    ["a page that is the last", "instruments", page, { instruments: page.instruments }, ["nextPageToken"]],
    [
      "a blob that differs by one byte",
      "transfer_accept",
      context,
      { ...context, disclosedContracts: [{ ...contract, createdEventBlob: "Cw==" }, other] },
      ["disclosedContracts"],
    ],
    [
      "a contract that is there twice",
      "transfer_accept",
      context,
      { ...context, disclosedContracts: [contract, other, other] },
      ["disclosedContracts"],
    ],
    [
      "another synchronizer",
      "transfer_accept",
      context,
      { ...context, disclosedContracts: [{ ...contract, synchronizerId: "t::1220" }, other] },
      ["disclosedContracts"],
    ],
    [
      "another choice context",
      "transfer_accept",
      context,
      { ...context, choiceContextData: { values: {} } },
      ["choiceContextData"],
    ],
    ["another factory", "allocation_factory", factory, { ...factory, factoryId: "00fe" }, ["factoryId"]],
    ["another kind of transfer", "transfer_factory", factory, { ...factory, transferKind: "self" }, ["transferKind"]],
    [
      "a number beyond what JavaScript tells apart",
      "transfer_accept",
      JSON.stringify(context).replace(":5}", ":9007199254740993}"),
      JSON.stringify(context).replace(":5}", ":9007199254740992}"),
      ["choiceContextData"],
    ],
  ])("%s", (_what, operation, one, another, parts) => {
    const found = differences(said(operation, one), said(operation, another), 10);
    expect(found).toHaveLength(parts.length);
    for (const [i, part] of parts.entries()) expect(found[i]).toMatch(part);
  });

  // Parsers differ in which of the two they take: the answer that leaves would be another one for some clients.
  test.each([
    ['{"factoryId":"00ff","factoryId":"00ee"', '"factoryId":"00ff"'],
    ['{"factory\\u0049d":"00ee","factoryId":"00ff"', '"factoryId":"00ff"'],
    ['{"x":{"a":1,"a":2},"factoryId":"00ff"', '"factoryId":"00ff"'],
    ['{"__proto__":1,"__proto__":2,"factoryId":"00ff"', '"factoryId":"00ff"'],
  ])("what gives a key twice: %s", (start, replaced) => {
    const text = JSON.stringify(factory);
    const twice = text.replace(`{${replaced}`, start);
    expect(JSON.parse(twice)).toMatchObject({ factoryId: expect.any(String) });
    expect(Object.keys(said("transfer_factory", twice))).toEqual(["body"]);
  });

  test.each(["[]", "null", "1", '"text"', "{", "{}", '{"disclosedContracts":{}}', '{"disclosedContracts":[1]}'])(
    "what is none: %s",
    (text) => {
      expect(Object.keys(said("transfer_accept", text))).toEqual(["body"]);
    },
  );
});

const numberSaid = (number: string) => said("instrument", JSON.stringify(instrument).replace("10", number));

test.each([
  ["1.50", "1.5"],
  ["0.1", "1e-1"],
  ["100", "1E+2"],
  ["-120.0", "-1.2e2"],
  ["0", "-0.00e9"],
  ["0.00", `0e${"9".repeat(400)}`],
  ["9007199254740993", "9007199254740.993e3"],
  ["1e400", "10e399"],
  ["1e-400", "0.01e-398"],
])("%s is the number %s", (one, another) => {
  expect(numberSaid(one)).toEqual(numberSaid(another));
});

test.each([
  ["1", "1.0000000000000000001"],
  ["9007199254740991", "9007199254740991.4"],
  ["0", "1e-400"],
  ["1", "-1"],
  ["1e400", "1e401"],
  ["0.1", "0.10000000000000000001"],
  [`1e${"9".repeat(400)}`, `1e${"9".repeat(399)}8`],
  ["1", '"1"'],
])("%s is another number than %s", (one, another) => {
  expect(numberSaid(one)).not.toEqual(numberSaid(another));
});

test("a number with a million zeros, or an exponent of as many digits, is read like any other", () => {
  const zeros = "0".repeat(1_000_000);
  expect(numberSaid(`1${zeros}1.${zeros}`)).toEqual(numberSaid(`1${zeros}1`));
  expect(numberSaid(`1e${zeros}1`)).not.toEqual(numberSaid("1"));
});

test("texts with colons and quotes in strings are read as what they are", () => {
  const strange = { ...instrument, name: 'a:"b\\":{"c":1}' };
  expect(Object.keys(said("instrument", strange))).toContain("name");
});

test("ids of instruments stand in no part", () => {
  expect(JSON.stringify(said("instruments", page))).not.toMatch(/USD|EUR/);
});

test.each(OPERATIONS.filter((operation) => operation !== "pass_through"))("the answer of %s has parts", (operation) => {
  const parts = said(operation, ENDPOINT_EXAMPLES[operation].answer);
  expect(Object.keys(parts)).not.toContain("body");
  expect(Object.keys(parts).length).toBeGreaterThan(CACHED_OPERATIONS.some((each) => each === operation) ? 0 : 1);
});
