import { expect, test } from "vitest";
import { GatewayError } from "../../../src/errors.ts";
import { meaningOf } from "../../../src/upstream/meaning.ts";
import type { Answer } from "../../../src/upstream/types.ts";

function answer(json: unknown, status = 200): Answer {
  const body = Buffer.from(JSON.stringify(json) ?? "");
  return { status, fields: [], body, json, node: "", receivedAt: 0 };
}

const contract = (contractId: string, more: object = {}) => ({
  templateId: "t",
  contractId,
  createdEventBlob: "b",
  synchronizerId: "s",
  ...more,
});
const context = (more: object = {}) => ({
  choiceContextData: { values: { a: 1, b: [1, 2] } },
  disclosedContracts: [contract("1"), contract("2")],
  ...more,
});
const factory = (more: object = {}) => ({ factoryId: "f", transferKind: "self", choiceContext: context(), ...more });

test.each([
  {
    name: "members in another order",
    other: { choiceContext: context(), transferKind: "self", factoryId: "f" },
    same: true,
  },
  {
    name: "contracts in another order",
    other: factory({ choiceContext: context({ disclosedContracts: [contract("2"), contract("1")] }) }),
    same: true,
  },
  {
    name: "a contract twice",
    other: factory({ choiceContext: context({ disclosedContracts: [contract("1"), contract("2"), contract("2")] }) }),
    same: true,
  },
  {
    name: "debug fields",
    other: factory({
      choiceContext: context({
        disclosedContracts: [contract("1", { debugPackageName: "p" }), contract("2", { debugPayload: {} })],
      }),
    }),
    same: true,
  },
  { name: "meta and unknown members", other: factory({ meta: { a: "b" }, more: 1 }), same: true },
  { name: "another factory", other: factory({ factoryId: "g" }), same: false },
  { name: "another kind", other: factory({ transferKind: "offer" }), same: false },
  {
    name: "a contract fewer",
    other: factory({ choiceContext: context({ disclosedContracts: [contract("1")] }) }),
    same: false,
  },
  {
    name: "another blob",
    other: factory({
      choiceContext: context({ disclosedContracts: [contract("1", { createdEventBlob: "c" }), contract("2")] }),
    }),
    same: false,
  },
  {
    name: "values in another order",
    other: factory({ choiceContext: context({ choiceContextData: { values: { a: 1, b: [2, 1] } } }) }),
    same: false,
  },
  { name: "nothing of a factory", other: {}, same: false },
])("two factories that differ in $name: the same? $same", ({ other, same }) => {
  const [one, two] = [factory(), other].map((json) => meaningOf("transfer_factory", answer(json)));
  expect(one === two).toBe(same);
});

test("equal errors of the registry are equal, and those of a node agree with none", () => {
  const say = (each: Answer | GatewayError) => meaningOf("transfer_accept", each);
  expect(say(answer({ error: "no contract", trace: 1 }, 404))).toBe(
    say(answer({ trace: 2, error: "no contract" }, 404)),
  );
  expect(say(answer({ error: "no contract" }, 404))).not.toBe(say(answer({ error: "no contract" }, 400)));
  expect(say(answer({ error: "no contract" }, 404))).not.toBe(say(answer({ error: "gone" }, 404)));
  expect(say(new GatewayError("upstream_error", "x", { status: 404 }))).toBe(
    say(new GatewayError("upstream_error", "x", { status: 404 })),
  );
  for (const status of [429, 500, 503]) expect(say(answer({ error: "busy" }, status))).toBeUndefined();
  expect(say(new GatewayError("upstream_timeout", "late"))).toBeUndefined();
});

test("what is too deep to be gone through means only itself", () => {
  let deep: unknown = 1;
  for (let i = 0; i < 100_000; i += 1) deep = [deep];
  const body = Buffer.from("deep");
  expect(
    meaningOf("transfer_accept", { ...answer({}), json: { choiceContextData: deep, disclosedContracts: [] }, body }),
  ).toBe("deep");
});
