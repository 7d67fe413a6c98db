import type { EndpointName } from "../../src/spec/operations.ts";

/**
 * Bodies to show in the description of the API. All values are made up; shapes and lengths are those of real ones, but
 * for `createdEventBlob`, which is some kilobytes long.
 */

const ADMIN = "DSO::122013f1b3a8b865a947969cfcf9054ab44278d613287a03b5dd73805825ad075401";
const OTHER_ADMIN = "bonds-issuer::1220219445d7dcf089d2165e41930563d547df488ef16ad14540d5303483a00881b7";
const ALICE = "alice::12200361bd022790ac6e4804029d97efbf968757f94d4efa8d9d37b085ff3a0f97a1";
const BOB = "bob::12204f4025d2da5849f68e5858027ff8382cb187acc2bcc1989a8529ce744fd5efcd";
const EXECUTOR = "otc-app::1220fb8a1aec76eafb3d268e4ce9613e993aaf9f67f9799ffb054c4474c94b8ab15a";
const FACTORY =
  "009e19d00ae52b8c820b0f53bb49031f572907520cb0d6803368fb80ac16a59499ca1112204a4b2e3e7b20fd30c73b89e337373b8008e28c7a9ec2970a3aabfbee9014feac";
const RULES =
  "003de96fc9fb208668febd0bae90cc05a8e448eb8a1c81cd2b1382fa2228598d0bca1112207441f594f0c40c66cb1729de4b41494be01d296dd8d9719782a17403a1ff695e";
const HOLDING =
  "0037342e01a249a1c66a9f050880b034ba5e5c079e321114fd803b875b05a4c583ca111220a6b7b9f8ab660af2a3731ca9e5f3ecf59c2a6f98a42bf433250284dbe2084789";

const SUPPORTED = { "splice-api-token-metadata-v1": 1, "splice-api-token-transfer-instruction-v1": 1 };

const INSTRUMENT = {
  id: "Amulet",
  name: "Amulet",
  symbol: "AMT",
  totalSupply: "38211004517.2918370044",
  totalSupplyAsOf: "2026-09-10T06:00:00.000000",
  decimals: 10,
  supportedApis: SUPPORTED,
};

const BOND = {
  id: "BOND-2026-000",
  name: "Sample Bond 000",
  symbol: "BND000",
  totalSupply: "676194614.45",
  totalSupplyAsOf: "2026-09-10T06:31:01.421109",
  decimals: 2,
  supportedApis: SUPPORTED,
};

const CHOICE_CONTEXT = {
  choiceContextData: { values: { "amulet-rules": { tag: "AV_ContractId", value: RULES } } },
  disclosedContracts: [
    {
      templateId: "0f9d73b2a860614c04c75366e5c4265654fb01b003fcbfb6ef165ae406948e04:Splice.AmuletRules:AmuletRules",
      contractId: RULES,
      createdEventBlob: "CgMyLjES933TB43EI4Oq",
      synchronizerId: "global-domain::12204dbe960d2d09871d46ca381e7b00e5d735bd5fa4e0d64ff36f3b07caf2ca79f2",
    },
  ],
};

const NO_META = { values: {} };
const EXTRA_ARGS = { context: { values: {} }, meta: NO_META };
const INSTRUMENT_ID = { admin: ADMIN, id: "Amulet" };

const TRANSFER = {
  sender: ALICE,
  receiver: BOB,
  amount: "100.0000000000",
  instrumentId: INSTRUMENT_ID,
  requestedAt: "2026-09-10T06:39:12.301Z",
  executeBefore: "2026-09-11T06:40:12.301Z",
  inputHoldingCids: [HOLDING],
  meta: NO_META,
};

/** Of version 2: parties are accounts. */
const ALICES_ACCOUNT = { owner: ALICE, provider: null, id: "" };
const BOBS_ACCOUNT = { owner: BOB, provider: null, id: "" };

const TRANSFER_V2 = { ...TRANSFER, sender: ALICES_ACCOUNT, receiver: BOBS_ACCOUNT };

const LEG_V2 = {
  transferLegId: "leg-0",
  sender: ALICES_ACCOUNT,
  receiver: BOBS_ACCOUNT,
  amount: "20.0000000000",
  instrumentId: "Amulet",
  meta: NO_META,
};

const ALLOCATION = {
  settlement: {
    executor: EXECUTOR,
    settlementRef: { id: "trade-17", cid: null },
    requestedAt: "2026-09-10T06:30:00.000Z",
    allocateBefore: "2026-09-10T08:30:00.000Z",
    settleBefore: "2026-09-11T06:30:00.000Z",
    meta: NO_META,
  },
  transferLegId: "leg-0",
  transferLeg: { sender: ALICE, receiver: BOB, amount: "20.0000000000", instrumentId: INSTRUMENT_ID, meta: NO_META },
};

/** A request body (where there is one) and a success body. */
export interface BodyExample {
  readonly request?: unknown;
  readonly answer: unknown;
  /** On the plain base URL of several registries. */
  readonly merged?: unknown;
}

const CONTEXT: BodyExample = { request: { meta: {}, excludeDebugFields: true }, answer: CHOICE_CONTEXT };

/** By endpoint. */
export const ENDPOINT_EXAMPLES: Readonly<Record<EndpointName, BodyExample>> = {
  info: { answer: { adminId: ADMIN, supportedApis: SUPPORTED } },
  instruments: {
    answer: { instruments: [INSTRUMENT], nextPageToken: "Amulet" },
    merged: {
      instruments: [
        { admin: ADMIN, ...INSTRUMENT },
        { admin: OTHER_ADMIN, ...BOND },
      ],
    },
  },
  instrument: { answer: INSTRUMENT, merged: { admin: ADMIN, ...INSTRUMENT } },
  transfer_factory: {
    request: {
      choiceArguments: { expectedAdmin: ADMIN, transfer: TRANSFER, extraArgs: EXTRA_ARGS },
      excludeDebugFields: true,
    },
    answer: { factoryId: FACTORY, transferKind: "offer", choiceContext: CHOICE_CONTEXT },
  },
  transfer_accept: CONTEXT,
  transfer_reject: CONTEXT,
  transfer_withdraw: CONTEXT,
  allocation_execute: CONTEXT,
  allocation_withdraw: CONTEXT,
  allocation_cancel: CONTEXT,
  allocation_factory: {
    request: {
      choiceArguments: {
        expectedAdmin: ADMIN,
        allocation: ALLOCATION,
        requestedAt: "2026-09-10T06:39:12.301Z",
        inputHoldingCids: [HOLDING],
        extraArgs: EXTRA_ARGS,
      },
      excludeDebugFields: true,
    },
    answer: { factoryId: FACTORY, choiceContext: CHOICE_CONTEXT },
  },
  transfer_factory_v2: {
    request: { choiceArguments: { transfer: TRANSFER_V2, actors: [ALICE], extraArgs: EXTRA_ARGS } },
    answer: { factoryId: FACTORY, transferKind: "offer", choiceContext: CHOICE_CONTEXT },
  },
  transfer_accept_v2: CONTEXT,
  transfer_reject_v2: CONTEXT,
  transfer_withdraw_v2: CONTEXT,
  allocation_factory_v2: {
    request: {
      choiceArguments: {
        settlement: ALLOCATION.settlement,
        allocation: { admin: ADMIN, authorizer: ALICES_ACCOUNT, transferLegs: [LEG_V2], meta: NO_META },
        requestedAt: "2026-09-10T06:39:12.301Z",
        inputHoldingCids: [HOLDING],
        actors: [ALICE],
        extraArgs: EXTRA_ARGS,
      },
    },
    answer: { factoryId: FACTORY, choiceContext: CHOICE_CONTEXT },
  },
  allocation_instruction_accept_v2: CONTEXT,
  allocation_instruction_withdraw_v2: CONTEXT,
  settlement_factory_v2: {
    request: {
      choiceArguments: {
        settlement: ALLOCATION.settlement,
        transferLegs: [LEG_V2],
        allocations: [HOLDING],
        actors: [EXECUTOR],
        extraArgs: EXTRA_ARGS,
      },
    },
    answer: { factoryId: FACTORY, choiceContext: CHOICE_CONTEXT },
  },
  allocation_withdraw_v2: CONTEXT,
  allocation_cancel_v2: CONTEXT,
};

export const REGISTRIES_EXAMPLE = {
  registries: [
    {
      name: "amulet",
      admin: ADMIN,
      basePath: "/api/token-standard/v0/registrars/amulet",
      supportedApis: SUPPORTED,
      health: "up",
      instrumentCount: 1,
      asOf: "2026-09-10T06:40:00.000Z",
    },
  ],
};

export const CATALOGUE_EXAMPLE = { instruments: [{ admin: ADMIN, registry: "amulet", ...INSTRUMENT }] };

const CHANGE_EXAMPLE = {
  id: "m3Qx0b1fZ8K2sVtA",
  type: "instrument_changed",
  admin: ADMIN,
  registry: "amulet",
  at: "2026-11-20T12:00:00.000Z",
  instrument: { id: "Amulet", symbol: "CC" },
};

export const CHANGES_EXAMPLE = { changes: [CHANGE_EXAMPLE], lastId: CHANGE_EXAMPLE.id, reset: false, more: false };

export const CHANGE_EVENTS_EXAMPLE = `id: ${CHANGE_EXAMPLE.id}\nevent: change\ndata: ${JSON.stringify(CHANGE_EXAMPLE)}\n\n`;
