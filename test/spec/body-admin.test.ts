import { describe, expect, test } from "vitest";
import { adminPathsOf, adminPathsOfPassThrough, adminsNamedBy, AmbiguousBody } from "../../src/spec/body-admin.ts";
import { OPERATIONS } from "../../src/spec/operations.ts";
import { sampleJson, sampleText } from "../support/sample.ts";

const TRANSFER = adminPathsOf("transfer_factory")!;
const ALLOCATION = adminPathsOf("allocation_factory")!;
const V2_TRANSFER = adminPathsOfPassThrough(["transfer-instruction", "v2", "transfer-factory"])!;
const V2_ALLOCATION = adminPathsOfPassThrough(["allocation-instruction", "v2", "allocation-factory"])!;

const namedBy = (text: string, paths = TRANSFER): string[] =>
  adminsNamedBy(text, JSON.parse(text), paths).map(({ admin }) => admin);

interface FactoryRequest {
  choiceArguments: {
    expectedAdmin?: string;
    transfer?: { instrumentId: { admin: string } };
    allocation?: { admin?: string; transferLeg?: { instrumentId: { admin: string } } };
  };
}

describe("the admins that a factory body names", () => {
  test.each([
    "04-transfer-factory.request.amulet.json",
    "04-transfer-factory.request.utility.json",
    "04-transfer-factory.request.admin-mismatch.json",
  ])("of a transfer: the instrument's and the expected one (%s)", (name) => {
    const { choiceArguments } = sampleJson(name) as FactoryRequest;
    const text = sampleText(name);
    expect(adminsNamedBy(text, JSON.parse(text), TRANSFER)).toEqual([
      { admin: choiceArguments.transfer!.instrumentId.admin, at: "choiceArguments.transfer.instrumentId.admin" },
      { admin: choiceArguments.expectedAdmin, at: "choiceArguments.expectedAdmin" },
    ]);
  });

  test.each(["11-allocation-factory.request.amulet.json", "11-allocation-factory.request.utility.json"])(
    "of an allocation: that of its leg's instrument and the expected one (%s)",
    (name) => {
      const { choiceArguments } = sampleJson(name) as FactoryRequest;
      expect(namedBy(sampleText(name), ALLOCATION)).toEqual([
        choiceArguments.allocation!.transferLeg!.instrumentId.admin,
        choiceArguments.expectedAdmin,
      ]);
    },
  );

  test("of version 2", () => {
    const transfer = sampleJson("04-transfer-factory.request.v2-shape.json") as FactoryRequest;
    expect(namedBy(sampleText("04-transfer-factory.request.v2-shape.json"), V2_TRANSFER)).toContain(
      transfer.choiceArguments.transfer!.instrumentId.admin,
    );
    const allocation = sampleJson("11-allocation-factory.request.v2-shape.json") as FactoryRequest;
    expect(namedBy(sampleText("11-allocation-factory.request.v2-shape.json"), V2_ALLOCATION)).toContain(
      allocation.choiceArguments.allocation!.admin,
    );
  });

  test.each([
    ['{"choiceArguments":{}}', []],
    ['{"choiceArguments":{"expectedAdmin":null}}', []],
    ['{"choiceArguments":{"expectedAdmin":""}}', [""]],
    ['{"choiceArguments":{"expectedAdmin":"a::1"}}', ["a::1"]],
    ['{"choiceArguments":{"transfer":{"instrumentId":{"admin":"a::1"}}}}', ["a::1"]],
    ['{"choiceArguments":{"transfer":{"instrumentId":{"admin":null}},"expectedAdmin":"b::1"}}', ["b::1"]],
    ['{"choiceArguments":{"transfer":null,"expectedAdmin":"\\u0061::1"}}', ["a::1"]],
    ['{"choiceArguments":{"\\u0065xpectedAdmin":"a::1"}}', ["a::1"]],
    ['{"choiceArguments":{"transfer":{"instrumentId":{"id":"X"},"sender":"b::1"}}}', []],
    ['{"choiceArguments":{"expectedAdmins":"a::1","allocation":[],"admin":"b::1"}}', []],
    ['{"expectedAdmin":"a::1","choiceArguments":{}}', []],
    ["null", []],
  ] as const)("%s: %j", (text, admins) => {
    expect(namedBy(text)).toEqual(admins);
  });

  test.each([
    '{"choiceArguments":{},"choiceArguments":{"expectedAdmin":"a::1"}}',
    '{"choiceArguments":{"expectedAdmin":"a::1","expectedAdmin":"a::1"}}',
    '{"choiceArguments":{"expectedAdmin":"a::1","expected\\u0041dmin":"b::1"}}',
    '{"choice\\u0041rguments":{},"choiceArguments":{}}',
    '{"choiceArguments":{"transfer":{},"transfer":{}}}',
    '{"choiceArguments":{"transfer":{"instrumentId":{},"instrumentId":{}}}}',
    '{"choiceArguments":{"transfer":{"instrumentId":{"admin":"a::1","\\u0061dmin":"b::1"}}}}',
  ])("cannot be told when a key on the way is there twice: %s", (text) => {
    expect(() => namedBy(text)).toThrow(AmbiguousBody);
    expect(() => namedBy(text)).toThrow(/occurs twice/);
  });

  test.each([
    '{"choiceArguments":{"expectedAdmin":"a::1","ExpectedAdmin":"b::1"}}',
    '{"choiceArguments":{"ExpectedAdmin":"b::1"}}',
    '{"choiceArguments":{"expectedAdmin":"a::1","\\u0045xpectedAdmin":"b::1"}}',
    '{"choiceArguments":{"expectedadmin":"b::1"}}',
    '{"choiceArguments":{"expected_admin":"b::1"}}',
    '{"choiceArguments":{"expected-admin":"b::1"}}',
    '{"choiceArguments":{},"ChoiceArguments":{"expectedAdmin":"b::1"}}',
    '{"choice_arguments":{"expectedAdmin":"b::1"}}',
    '{"choiceArguments":{"tran\u017ffer":{"instrumentId":{"admin":"b::1"}}}}',
    '{"choiceArguments":{"transfer":{"instrumentID":{"admin":"b::1"}}}}',
    '{"choiceArguments":{"transfer":{"instrumentId":{"admin":"a::1","Admin":"b::1"}}}}',
  ])("cannot be told when a key on the way has a lookalike: %s", (text) => {
    expect(() => namedBy(text)).toThrow(AmbiguousBody);
    expect(() => namedBy(text)).toThrow(/looks like/);
  });

  test.each([
    ['[{"choiceArguments":{"expectedAdmin":"a::1"}}]', TRANSFER],
    ['"choiceArguments"', TRANSFER],
    ['{"choiceArguments":[{"expectedAdmin":"a::1"}]}', TRANSFER],
    ['{"choiceArguments":"a::1"}', TRANSFER],
    ['{"choiceArguments":{"transfer":[{"instrumentId":{"admin":"a::1"}}]}}', TRANSFER],
    ['{"choiceArguments":{"transfer":"a::1","expectedAdmin":"a::1"}}', TRANSFER],
    ['{"choiceArguments":{"transfer":{"instrumentId":["a::1","X"]}}}', TRANSFER],
    ['{"choiceArguments":{"transfer":{"instrumentId":"a::1"}}}', V2_TRANSFER],
    ['{"choiceArguments":{"allocation":[{"transferLeg":{"instrumentId":{"admin":"a::1"}}}]}}', ALLOCATION],
    ['{"choiceArguments":{"allocation":{"transferLeg":["a::1"]}}}', ALLOCATION],
    ['{"choiceArguments":{"allocation":{"transferLeg":{"instrumentId":"a::1"}}}}', ALLOCATION],
    ['{"choiceArguments":{"allocation":[{"admin":"a::1"}]}}', V2_ALLOCATION],
    ['{"choiceArguments":{"allocation":"a::1"}}', V2_ALLOCATION],
    ['{"choiceArguments":{"allocation":7}}', V2_ALLOCATION],
  ])("cannot be told when what is on the way is no object: %s", (text, paths) => {
    expect(() => namedBy(text, paths)).toThrow(AmbiguousBody);
    expect(() => namedBy(text, paths)).toThrow(/must be an object/);
  });

  // Version 2 has no such place: it was refused for what it does not say.
  test.each([
    ['{"transferLeg":{"instrumentId":"CBTC"}}', []],
    ['{"transferLeg":"CBTC"}', []],
    ['{"transferLeg":[{"instrumentId":{"admin":"b::1"}}]}', []],
    ['{"transferLeg":{"instrumentId":{"admin":"b::1"}}}', ["b::1"]],
  ])("of an allocation of version 2 are those of a leg where it has one of version 1: %s", (leg, admins) => {
    const allocation = `{"admin":"a::1",${leg.slice(1)}`;
    expect(namedBy(`{"choiceArguments":{"allocation":${allocation}}}`, V2_ALLOCATION)).toEqual(["a::1", ...admins]);
  });

  test.each(["1", "true", "{}", '["a::1"]'])("cannot be told when the admin is %s", (admin) => {
    expect(() => namedBy(`{"choiceArguments":{"expectedAdmin":${admin}}}`)).toThrow(AmbiguousBody);
  });

  test("are not looked for where a key is only inherited", () => {
    expect(adminsNamedBy("{}", Object.create({ choiceArguments: { expectedAdmin: "a::1" } }), TRANSFER)).toEqual([]);
  });
});

describe("which bodies name an admin", () => {
  test("those of the factories, and no others", () => {
    const naming = OPERATIONS.filter((operation) => adminPathsOf(operation) !== undefined);
    expect(naming).toEqual([
      "transfer_factory",
      "allocation_factory",
      "transfer_factory_v2",
      "allocation_factory_v2",
      "settlement_factory_v2",
    ]);
  });

  test.each([
    ["transfer-instruction/v2/transfer-factory", true],
    ["transfer-instruction/v3/transfer-factory", true],
    ["transfer-instruction/v10/transfer-factory", true],
    ["allocation-instruction/v2/allocation-factory", true],
    ["allocation/v2/settlement-factory", true],
    ["Transfer-Instruction/V1/transfer-factory", true],
    ["allocation-instruction/v2/ALLOCATION-FACTORY", true],
    ["allocations/v2/00ab/choice-contexts/withdraw", false],
    ["transfer-instruction/v2/00ab/choice-contexts/accept", false],
    ["transfer-instruction/v2/allocation-factory", false],
    ["transfer-instruction/vX/transfer-factory", false],
    ["transfer-instruction/v2/transfer-factory/more", false],
    ["transfer-instruction", false],
  ])("of what passes through: %s %s", (path, isNaming) => {
    expect(adminPathsOfPassThrough(path.split("/")) !== undefined).toBe(isNaming);
  });
});
