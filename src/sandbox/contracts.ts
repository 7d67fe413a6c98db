import { hashText, mulberry32, randomBase64, randomHex } from "./random.ts";

/** What kind of contract a registry discloses; `blob` is the length of its event blob as seen in the field. */
interface ContractKind {
  package: "splice-amulet" | "utility-registry-app-v0" | "utility-credential-v0";
  template: string;
  blob: number;
  payload?: Record<string, unknown>;
}

const KINDS = {
  amuletRules: {
    package: "splice-amulet",
    template: "Splice.AmuletRules:AmuletRules",
    blob: 2468,
    payload: {
      configSchedule: {
        initialValue: {
          transferConfig: {
            createFee: { fee: "0.0" },
            holdingFee: { rate: "0.0000190259" },
            maxNumInputs: "100",
            maxNumOutputs: "100",
            maxNumLockHolders: "50",
          },
          tickDuration: { microseconds: "600000000" },
          packageConfig: randomHex(mulberry32(hashText("packageConfig")), 3000),
        },
        futureValues: [],
      },
      isDevNet: false,
    },
  },
  openRound: {
    package: "splice-amulet",
    template: "Splice.Round:OpenMiningRound",
    blob: 1064,
    payload: {
      round: { number: "88123" },
      amuletPrice: "0.1523",
      opensAt: "2026-09-10T06:20:04.120011Z",
      targetClosesAt: "2026-09-10T06:40:04.120011Z",
      tickDuration: { microseconds: "600000000" },
    },
  },
  configState: {
    package: "splice-amulet",
    template: "Splice.ExternalPartyConfigState:ExternalPartyConfigState",
    blob: 708,
    payload: { holdingFeesOpenRoundNumber: { number: "88100" }, targetArchiveAfter: "2026-09-12T06:00:00Z" },
  },
  amuletFactory: {
    package: "splice-amulet",
    template: "Splice.ExternalPartyAmuletRules:ExternalPartyAmuletRules",
    blob: 580,
  },
  featuredAppRight: { package: "splice-amulet", template: "Splice.Amulet:FeaturedAppRight", blob: 800 },
  preapproval: { package: "splice-amulet", template: "Splice.AmuletRules:TransferPreapproval", blob: 900 },
  // With the legs of a batch in it: the largest that the field has.
  allocation: { package: "splice-amulet", template: "Splice.AmuletAllocation:AmuletAllocation", blob: 8200 },
  allocationInstruction: {
    package: "splice-amulet",
    template: "Splice.AmuletAllocationInstruction:AmuletAllocationInstruction",
    blob: 1240,
  },
  lockedAmulet: { package: "splice-amulet", template: "Splice.Amulet:LockedAmulet", blob: 980 },
  instrumentConfiguration: {
    package: "utility-registry-app-v0",
    template: "Utility.Registry.V0.Configuration.Instrument:InstrumentConfiguration",
    blob: 1600,
  },
  utilityFactory: {
    package: "utility-registry-app-v0",
    template: "Utility.Registry.App.V0.Service.AllocationFactory:AllocationFactory",
    blob: 1068,
  },
  transferRule: {
    package: "utility-registry-app-v0",
    template: "Utility.Registry.V0.Rule.Transfer:TransferRule",
    blob: 1068,
  },
  credential: {
    package: "utility-credential-v0",
    template: "Utility.Credential.V0.Credential:Credential",
    blob: 760,
  },
} as const satisfies Record<string, ContractKind>;

/** The kinds of contracts that sample registries disclose. */
export type ContractName = keyof typeof KINDS;

/** A contract that the client must disclose to its participant (spec.md §2.5). */
export interface DisclosedContract {
  templateId: string;
  contractId: string;
  createdEventBlob: string;
  synchronizerId: string;
  debugPackageName?: string | null;
  debugPayload?: Record<string, unknown> | null;
  debugCreatedAt?: string | null;
}

/** What becomes of the debug fields: shown, left out, or there with the value null. */
export type DebugFields = "shown" | "absent" | "null";

const SYNCHRONIZER_ID = `global-domain::1220${randomHex(mulberry32(hashText("synchronizer")), 64)}`;
const NO_DEBUG = { debugPackageName: null, debugPayload: null, debugCreatedAt: null };

/** Those that others take the place of when a new round opens. */
const OF_ROUND: ReadonlySet<ContractName> = new Set(["openRound", "configState", "instrumentConfiguration"]);

/** The contracts of one registry: the same name, label and round always give the same contract, byte for byte. */
export class DisclosedContracts {
  private readonly admin: string;
  private readonly seed: number;
  /** Contracts without a label; those with one are as many as clients invent ids, so they are made anew each time. */
  private readonly common = new Map<ContractName, DisclosedContract>();
  private round = 0;

  constructor(admin: string, seed: number) {
    this.admin = admin;
    this.seed = seed;
  }

  /** The round that is open from now on; 0 at first. */
  open(round: number): void {
    if (round === this.round) return;
    this.round = round;
    for (const name of OF_ROUND) this.common.delete(name);
  }

  /** The contract `name`; `label` distinguishes those that exist once per transfer, allocation or party. */
  disclose(name: ContractName, debug: DebugFields, label?: string): DisclosedContract {
    const contract = label === undefined ? this.commonContract(name) : this.create(name, label);
    if (debug === "absent") return contract;
    if (debug === "null") return { ...contract, ...NO_DEBUG };
    const kind: ContractKind = KINDS[name];
    return {
      ...contract,
      debugPackageName: kind.package,
      debugPayload: { admin: this.admin, ...kind.payload },
      debugCreatedAt: "2026-09-10T06:30:04.120011",
    };
  }

  /** The contract `name` whose id a request names: it is disclosed under that id. */
  discloseNamed(name: ContractName, debug: DebugFields, id: string): DisclosedContract {
    return { ...this.disclose(name, debug, id), contractId: id };
  }

  private commonContract(name: ContractName): DisclosedContract {
    let contract = this.common.get(name);
    if (contract === undefined) {
      contract = this.create(name, OF_ROUND.has(name) && this.round !== 0 ? `round ${this.round}` : "");
      this.common.set(name, contract);
    }
    return contract;
  }

  private create(name: ContractName, label: string): DisclosedContract {
    const kind: ContractKind = KINDS[name];
    const random = mulberry32(this.seed ^ hashText(`${name} ${label}`));
    return {
      templateId: `${randomHex(mulberry32(hashText(kind.package)), 64)}:${kind.template}`,
      contractId: contractId(this.admin, `${name} ${label}`),
      createdEventBlob: `CgMyLjES${randomBase64(random, kind.blob - 8)}`,
      synchronizerId: SYNCHRONIZER_ID,
    };
  }
}

/** Every contract id of one sample registry begins so: `00` and two bytes that depend on its admin alone. */
function ownPrefix(admin: string): string {
  return `00${randomHex(mulberry32(hashText(admin)), 4)}`;
}

/**
 * The contract id (138 hexadecimal digits, the ledger's layout) that the sample registry of `admin` issues under
 * `label`: the same for the same two texts, and recognised by {@link ownContracts}.
 */
export function contractId(admin: string, label: string): string {
  const random = mulberry32(hashText(`${admin} ${label}`));
  return `${ownPrefix(admin)}${randomHex(random, 60)}ca111220${randomHex(random, 64)}`;
}

/**
 * For the option `contracts`: knows the ids that {@link contractId} issues for `admin` and no others, so that of
 * several sample registries exactly one knows a given id.
 */
export function ownContracts(admin: string): (id: string) => boolean {
  const prefix = ownPrefix(admin);
  return (id) => id.length === 138 && id.startsWith(prefix);
}
