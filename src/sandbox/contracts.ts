import { randomBase64, randomHex, seededRandom, seedOf } from "./random.ts";

/** A contract that a client discloses to its participant. */
export interface DisclosedContract {
  readonly templateId: string;
  readonly contractId: string;
  readonly createdEventBlob: string;
  readonly synchronizerId: string;
  readonly debugPackageName?: string;
  readonly debugPayload?: Readonly<Record<string, unknown>>;
  readonly debugCreatedAt?: string;
}

/** One kind of contract; `blob` is the length of its event blob as seen in the field. */
interface ContractKind {
  readonly template: string;
  readonly blob: number;
  readonly payload?: Readonly<Record<string, unknown>>;
}

const KINDS = {
  amuletRules: {
    template: "Splice.AmuletRules:AmuletRules",
    blob: 2868,
    payload: {
      configSchedule: {
        initialValue: {
          transferConfig: { createFee: { fee: "0.0" }, holdingFee: { rate: "0.0000190259" }, maxNumInputs: "100" },
          tickDuration: { microseconds: "600000000" },
          packageConfig: randomHex(seededRandom(seedOf("packageConfig")), 1800),
        },
        futureValues: [],
      },
      isDevNet: false,
    },
  },
  openRound: {
    template: "Splice.Round:OpenMiningRound",
    blob: 1064,
    payload: { round: { number: "88123" }, amuletPrice: "0.1523", opensAt: "2026-09-10T06:20:04.120011Z" },
  },
  configState: {
    template: "Splice.ExternalPartyConfigState:ExternalPartyConfigState",
    blob: 708,
    payload: { holdingFeesOpenRoundNumber: { number: "88100" }, targetArchiveAfter: "2026-09-12T06:00:00Z" },
  },
  amuletFactory: { template: "Splice.ExternalPartyAmuletRules:ExternalPartyAmuletRules", blob: 580 },
  featuredAppRight: { template: "Splice.Amulet:FeaturedAppRight", blob: 800 },
  preapproval: { template: "Splice.AmuletRules:TransferPreapproval", blob: 900 },
  instruction: { template: "Splice.AmuletAllocationInstruction:AmuletAllocationInstruction", blob: 1240 },
  lockedAmulet: { template: "Splice.Amulet:LockedAmulet", blob: 1240 },
  // With the legs of a batch in it: the largest that the field has.
  allocation: { template: "Splice.AmuletAllocation:AmuletAllocation", blob: 8200 },
} as const satisfies Readonly<Record<string, ContractKind>>;

type ContractName = keyof typeof KINDS;

const PACKAGE = "splice-amulet";
const PACKAGE_ID = randomHex(seededRandom(seedOf(PACKAGE)), 64);
const SYNCHRONIZER_ID = `global-domain::1220${randomHex(seededRandom(seedOf("synchronizer")), 64)}`;

/** The contracts of one registry: a name, and the id of what it belongs to, always give the same contract, byte for byte. */
export class Contracts {
  readonly #admin: string;
  readonly #seed: number;
  /** Contracts that exist once. Others are as many as clients invent ids, and are made anew each time. */
  readonly #common = new Map<ContractName, DisclosedContract>();

  constructor(admin: string, seed: number) {
    this.#admin = admin;
    this.#seed = seed;
  }

  /**
   * The contract of a kind as a client discloses it.
   *
   * @param debug whether it has its debug fields
   * @param owner the id of the transfer or allocation that it belongs to; undefined: it exists once
   */
  disclose(name: ContractName, debug: boolean, owner?: string): DisclosedContract {
    const contract = owner === undefined ? this.#commonOne(name) : this.#create(name, owner);
    if (!debug) return contract;
    const { payload }: ContractKind = KINDS[name];
    return {
      ...contract,
      debugPackageName: PACKAGE,
      debugPayload: { admin: this.#admin, ...payload },
      debugCreatedAt: "2026-09-10T06:30:04.120011",
    };
  }

  #commonOne(name: ContractName): DisclosedContract {
    const contract = this.#common.get(name) ?? this.#create(name, "");
    this.#common.set(name, contract);
    return contract;
  }

  #create(name: ContractName, owner: string): DisclosedContract {
    const { template, blob }: ContractKind = KINDS[name];
    const random = seededRandom(this.#seed ^ seedOf(`${name} ${owner}`));
    return {
      templateId: `${PACKAGE_ID}:${template}`,
      // 138 digits: a version, a discriminator, and a suffix that the ledger adds.
      contractId: `00${randomHex(random, 64)}ca111220${randomHex(random, 64)}`,
      createdEventBlob: `CgMyLjES${randomBase64(random, blob - 8)}`,
      synchronizerId: SYNCHRONIZER_ID,
    };
  }
}
