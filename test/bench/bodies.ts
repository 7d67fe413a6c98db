/** Requests and answers of realistic sizes, made up. */

const DIGEST = "1220be58c29e65de40bf273be1dc2b266d43a9a002ea5b18955aeef7aac881bb471a";
const REASON = "the rent of November, as tenant and owner agreed for the flat; in parts to be given back ".repeat(3);
const API = "splice-api-token";
const NOW = "2026-11-28T08:00:00Z";
export const DSO = `DSO::${DIGEST}`;

const hex = (length: number, seed: number): string =>
  seed
    .toString(16)
    .padStart(4, "0")
    .repeat(length / 4);
const instrument = (at: number): object => ({
  id: `Instrument-${String(at).padStart(5, "0")}`,
  name: `Tokenised deposit of series ${at}, issued by a bank`,
  symbol: `TD${at}`,
  totalSupply: `${at}000000.0000000000`,
  totalSupplyAsOf: NOW,
  decimals: 10,
  supportedApis: { [`${API}-metadata-v1`]: 1, [`${API}-holding-v1`]: 1, [`${API}-transfer-instruction-v1`]: 1 },
});

export const INFO = JSON.stringify({ adminId: DSO, supportedApis: { [`${API}-metadata-v1`]: 1 } });

/** 28 instruments, 8.9 kB. */
export const PAGE = JSON.stringify({ instruments: Array.from({ length: 28 }, (_none, at) => instrument(at)) });

/** A transfer of four holdings, 1.5 kB. */
export const FACTORY_REQUEST = JSON.stringify({
  choiceArguments: {
    expectedAdmin: DSO,
    transfer: {
      sender: `alice::1220${hex(64, 1)}`,
      receiver: `bob::1220${hex(64, 2)}`,
      amount: "12.5000000000",
      instrumentId: { admin: DSO, id: "Amulet" },
      requestedAt: NOW,
      executeBefore: NOW,
      inputHoldingCids: Array.from({ length: 4 }, (_none, at) => `00${hex(136, at)}`),
      meta: { values: { "splice.lfdecentralizedtrust.org/reason": REASON } },
    },
    extraArgs: { context: { values: {} }, meta: { values: {} } },
  },
  excludeDebugFields: true,
});

const contract = (at: number): object => ({
  templateId: `${hex(64, at)}:Splice.AmuletRules:AmuletRules`,
  contractId: `00${hex(136, 20 + at)}`,
  createdEventBlob: Buffer.alloc(1_632, `contract ${at} `).toString("base64"),
  synchronizerId: `global-domain::${DIGEST}`,
});

/** Five disclosed contracts, 13 kB. */
export const FACTORY_ANSWER = JSON.stringify({
  factoryId: `00${hex(136, 9)}`,
  transferKind: "direct",
  choiceContext: {
    choiceContextData: { values: { "amulet-rules": { tag: "AV_ContractId", value: `00${hex(136, 10)}` } } },
    disclosedContracts: Array.from({ length: 5 }, (_none, at) => contract(at)),
  },
});
