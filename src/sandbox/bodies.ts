import { DisclosedContracts, type ContractName, type DebugFields, type DisclosedContract } from "./contracts.ts";
import type { ErrorStyle } from "./answer.ts";

/** A value in `choiceContextData`, tagged as the ledger's JSON encoding tags it. */
type ContextValue =
  | { tag: "AV_ContractId"; value: string }
  | { tag: "AV_Bool"; value: boolean }
  | { tag: "AV_List"; value: ContextValue[] };

export interface ChoiceContext {
  choiceContextData: { values: Record<string, ContextValue> };
  disclosedContracts: DisclosedContract[];
}

export interface TransferFactory {
  factoryId: string;
  transferKind: "self" | "direct" | "offer";
  choiceContext: ChoiceContext;
}

export interface AllocationFactory {
  factoryId: string;
  choiceContext: ChoiceContext;
}

/** Factories and choice contexts of one registry, in the shapes and sizes of its family; the same for the same request. */
export class ContextBodies {
  private readonly contracts: DisclosedContracts;
  private readonly style: ErrorStyle;

  constructor(options: { admin: string; seed: number; style: ErrorStyle }) {
    this.contracts = new DisclosedContracts(options.admin, options.seed);
    this.style = options.style;
  }

  /** The round that is open from now on. */
  open(round: number): void {
    this.contracts.open(round);
  }

  transferFactory(choiceArguments: Record<string, unknown>, excludeDebugFields: boolean): TransferFactory {
    const transferKind = this.transferKind(choiceArguments["transfer"]);
    const { factoryId, choiceContext } = this.allocationFactory(excludeDebugFields);
    if (transferKind === "direct") {
      const preapproval = this.contracts.disclose("preapproval", this.factoryDebug(excludeDebugFields));
      choiceContext.choiceContextData.values["transfer-preapproval"] = reference(preapproval);
      choiceContext.disclosedContracts.push(preapproval);
    }
    return { factoryId, transferKind, choiceContext };
  }

  /**
   * The settlement factory of version 2: what every allocation of the batch needs, some ten kilobytes each, so that a
   * hundred of them are an answer of a MiB.
   */
  settlementFactory(allocations: readonly string[], excludeDebugFields: boolean): AllocationFactory {
    const factory = this.allocationFactory(excludeDebugFields);
    const debug = this.factoryDebug(excludeDebugFields);
    const settled = allocations.map((id) => this.contracts.discloseNamed("allocation", debug, id));
    const locked = allocations.map((id) => this.contracts.disclose("lockedAmulet", debug, id));
    const { choiceContextData, disclosedContracts } = factory.choiceContext;
    choiceContextData.values["allocations"] = { tag: "AV_List", value: settled.map(reference) };
    disclosedContracts.push(...settled, ...locked);
    return factory;
  }

  allocationFactory(excludeDebugFields: boolean): AllocationFactory {
    const debug = this.factoryDebug(excludeDebugFields);
    const disclose = (name: ContractName): DisclosedContract => this.contracts.disclose(name, debug);
    if (this.style === "utility") {
      const configuration = disclose("instrumentConfiguration");
      const factory = disclose("utilityFactory");
      return {
        factoryId: factory.contractId,
        choiceContext: {
          choiceContextData: {
            values: {
              "utility.digitalasset.com/instrument-configuration": reference(configuration),
              "utility.digitalasset.com/sender-credentials": { tag: "AV_List", value: [] },
            },
          },
          disclosedContracts: [configuration, factory],
        },
      };
    }
    const rules = disclose("amuletRules");
    const round = disclose("openRound");
    const state = disclose("configState");
    const factory = disclose("amuletFactory");
    const right = disclose("featuredAppRight");
    return {
      factoryId: factory.contractId,
      choiceContext: {
        choiceContextData: {
          values: {
            "amulet-rules": reference(rules),
            "open-round": reference(round),
            "external-party-config-state": reference(state),
            "featured-app-right": reference(right),
          },
        },
        disclosedContracts: [rules, round, state, factory, right],
      },
    };
  }

  /** The context of `choice` on the transfer instruction or allocation with the contract id `id`. */
  choiceContext(id: string, choice: string, excludeDebugFields: boolean): ChoiceContext {
    const debug: DebugFields = excludeDebugFields ? "null" : "shown";
    return this.style === "utility" ? this.utilityContext(id, debug) : this.spliceContext(id, choice, debug);
  }

  /** The same of an allocation instruction, which version 2 alone has. */
  instructionContext(id: string, excludeDebugFields: boolean): ChoiceContext {
    const debug: DebugFields = excludeDebugFields ? "null" : "shown";
    const instruction = this.contracts.discloseNamed("allocationInstruction", debug, id);
    const isUtility = this.style === "utility";
    const rules = this.contracts.disclose(isUtility ? "instrumentConfiguration" : "configState", debug);
    const key = isUtility ? "utility.digitalasset.com/instrument-configuration" : "external-party-config-state";
    return {
      choiceContextData: { values: { [key]: reference(rules) } },
      disclosedContracts: [rules, instruction],
    };
  }

  private spliceContext(id: string, choice: string, debug: DebugFields): ChoiceContext {
    const executes = choice === "execute-transfer";
    const state = this.contracts.disclose("configState", debug);
    const locked = this.contracts.disclose("lockedAmulet", debug, id);
    const context: ChoiceContext = {
      choiceContextData: {
        values: {
          "external-party-config-state": reference(state),
          "expire-lock": { tag: "AV_Bool", value: !executes },
        },
      },
      disclosedContracts: [state, locked],
    };
    if (executes) {
      const right = this.contracts.disclose("featuredAppRight", debug);
      context.choiceContextData.values["featured-app-right"] = reference(right);
      context.disclosedContracts.push(right);
    }
    return context;
  }

  private utilityContext(id: string, debug: DebugFields): ChoiceContext {
    const configuration = this.contracts.disclose("instrumentConfiguration", debug);
    const rule = this.contracts.disclose("transferRule", debug);
    const right = this.contracts.disclose("featuredAppRight", debug);
    const credential = this.contracts.disclose("credential", debug, id);
    return {
      choiceContextData: {
        values: {
          "utility.digitalasset.com/instrument-configuration": reference(configuration),
          "utility.digitalasset.com/transfer-rule": reference(rule),
          "utility.digitalasset.com/sender-credentials": { tag: "AV_List", value: [] },
          "utility.digitalasset.com/receiver-credentials": { tag: "AV_List", value: [reference(credential)] },
          "utility.digitalasset.com/featured-app-right": reference(right),
        },
      },
      disclosedContracts: [configuration, rule, right, credential],
    };
  }

  /** Factories of one family leave the debug fields out, those of the other send null. */
  private factoryDebug(excludeDebugFields: boolean): DebugFields {
    if (!excludeDebugFields) return "shown";
    return this.style === "splice" ? "absent" : "null";
  }

  /** `self` to oneself; `direct` in one family where the receiver has pre-approved; else `offer`. */
  private transferKind(transfer: unknown): TransferFactory["transferKind"] {
    const { sender, receiver } = (transfer ?? {}) as { sender?: unknown; receiver?: unknown };
    const [from, to] = [partyOf(sender), partyOf(receiver)];
    if (from !== undefined && from === to) return "self";
    return this.style === "splice" && hasPreapproved(to) ? "direct" : "offer";
  }
}

/** The party of a transfer's end: in version 1 a text, in version 2 an account with an owner. */
function partyOf(end: unknown): unknown {
  return typeof end === "object" && end !== null && "owner" in end ? end.owner : end;
}

/** Parties whose id ends in an even hexadecimal digit have: a rule by which a caller can choose. */
function hasPreapproved(party: unknown): boolean {
  return typeof party === "string" && /[02468ace]$/i.test(party);
}

function reference(contract: DisclosedContract): ContextValue {
  return { tag: "AV_ContractId", value: contract.contractId };
}
