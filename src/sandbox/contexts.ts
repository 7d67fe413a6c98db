import { isObject } from "../json.ts";
import type { Contracts, DisclosedContract } from "./contracts.ts";

/** A value in `choiceContextData`, tagged as the ledger's JSON encoding tags it. */
type ContextValue =
  | { readonly tag: "AV_ContractId"; readonly value: string }
  | { readonly tag: "AV_Bool"; readonly value: boolean }
  | { readonly tag: "AV_List"; readonly value: readonly ContextValue[] };

export interface ChoiceContext {
  readonly choiceContextData: { readonly values: Readonly<Record<string, ContextValue>> };
  readonly disclosedContracts: readonly DisclosedContract[];
}

export interface Factory {
  readonly factoryId: string;
  readonly transferKind?: "self" | "direct" | "offer";
  readonly choiceContext: ChoiceContext;
}

type Arguments = Readonly<Record<string, unknown>>;

/** The answer to a transfer factory request: 9 kB, 11 kB where the receiver has pre-approved, more with debug fields. */
export function transferFactory(contracts: Contracts, choiceArguments: Arguments, debug: boolean): Factory {
  const transferKind = transferKindOf(choiceArguments["transfer"]);
  const { factoryId, choiceContext } = allocationFactory(contracts, debug);
  if (transferKind !== "direct") return { factoryId, transferKind, choiceContext };
  const preapproval = contracts.disclose("preapproval", debug);
  return {
    factoryId,
    transferKind,
    choiceContext: withContracts(choiceContext, { "transfer-preapproval": reference(preapproval) }, [preapproval]),
  };
}

/** The answer to an allocation factory request, 9 kB. */
export function allocationFactory(contracts: Contracts, debug: boolean): Factory {
  const rules = contracts.disclose("amuletRules", debug);
  const round = contracts.disclose("openRound", debug);
  const state = contracts.disclose("configState", debug);
  const factory = contracts.disclose("amuletFactory", debug);
  const right = contracts.disclose("featuredAppRight", debug);
  const values = {
    "amulet-rules": reference(rules),
    "open-round": reference(round),
    "external-party-config-state": reference(state),
    "featured-app-right": reference(right),
  };
  const disclosedContracts = [rules, round, state, factory, right];
  return { factoryId: factory.contractId, choiceContext: { choiceContextData: { values }, disclosedContracts } };
}

/** The answer to a settlement: ten kilobytes for each allocation of the batch, so that a hundred are a MiB. */
export function settlementFactory(contracts: Contracts, allocations: readonly string[], debug: boolean): Factory {
  const { factoryId, choiceContext } = allocationFactory(contracts, debug);
  const settled = allocations.map((id) => ({ ...contracts.disclose("allocation", debug, id), contractId: id }));
  const locked = allocations.map((id) => contracts.disclose("lockedAmulet", debug, id));
  const values = { allocations: { tag: "AV_List", value: settled.map(reference) } } as const;
  return { factoryId, choiceContext: withContracts(choiceContext, values, [...settled, ...locked]) };
}

/** The context of a choice on a transfer instruction or allocation: 3 kB, 5 kB to execute a transfer. */
export function choiceContext(contracts: Contracts, id: string, isExecution: boolean, debug: boolean): ChoiceContext {
  const state = contracts.disclose("configState", debug);
  const locked = contracts.disclose("lockedAmulet", debug, id);
  const context: ChoiceContext = {
    choiceContextData: {
      values: {
        "external-party-config-state": reference(state),
        "expire-lock": { tag: "AV_Bool", value: !isExecution },
      },
    },
    disclosedContracts: [state, locked],
  };
  if (!isExecution) return context;
  const right = contracts.disclose("featuredAppRight", debug);
  return withContracts(context, { "featured-app-right": reference(right) }, [right]);
}

/** The context of a choice on an allocation instruction, which version 2 alone has: 4 kB. */
export function instructionContext(contracts: Contracts, id: string, debug: boolean): ChoiceContext {
  const state = contracts.disclose("configState", debug);
  const instruction = { ...contracts.disclose("instruction", debug, id), contractId: id };
  return {
    choiceContextData: { values: { "external-party-config-state": reference(state) } },
    disclosedContracts: [state, instruction],
  };
}

function withContracts(
  { choiceContextData, disclosedContracts }: ChoiceContext,
  values: Readonly<Record<string, ContextValue>>,
  contracts: readonly DisclosedContract[],
): ChoiceContext {
  return {
    choiceContextData: { values: { ...choiceContextData.values, ...values } },
    disclosedContracts: [...disclosedContracts, ...contracts],
  };
}

function reference({ contractId }: DisclosedContract): ContextValue {
  return { tag: "AV_ContractId", value: contractId };
}

/** `self` to oneself, `direct` where the receiver has pre-approved (its id ends in an even digit, so that callers can choose), else `offer`. */
function transferKindOf(transfer: unknown): "self" | "direct" | "offer" {
  const { sender, receiver } = isObject(transfer) ? transfer : {};
  const [from, to] = [partyOf(sender), partyOf(receiver)];
  if (from !== undefined && from === to) return "self";
  return to !== undefined && /[02468ace]$/i.test(to) ? "direct" : "offer";
}

/** The party of a transfer's end: in version 1 a text, in version 2 an account with an owner. */
function partyOf(end: unknown): string | undefined {
  const party = isObject(end) ? end["owner"] : end;
  return typeof party === "string" ? party : undefined;
}
