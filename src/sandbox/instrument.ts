import { mulberry32, randomDigits, randomInteger, type Random } from "./random.ts";

/** An instrument as a registry lists it (spec.md §2.2), newer and unknown fields included. */
export interface Instrument {
  id: string;
  name: string;
  symbol: string;
  decimals: number;
  totalSupply?: string | null;
  totalSupplyAsOf?: string | null;
  supportedApis: Record<string, number>;
  [unknownField: string]: unknown;
}

/** The awkward ones come first, so that small catalogues have them too. */
const NOTABLE: readonly (Partial<Instrument> & { id: string })[] = [
  { id: "Amulet", name: "Amulet", symbol: "AMT", decimals: 10 },
  { id: "Amulet/USD", name: "Amulet in US dollars", symbol: "AMT/USD", totalSupply: "12345678901234567890.10" },
  {
    id: "Sample Bond 007",
    paused: true,
    pauseInfo: { reason: "Coupon date processing", until: "2026-09-11T00:00:00Z" },
    accountInputFieldsToShow: ["provider", "accountId"],
  },
  { id: "Ünïcode 代币 🪙", name: "Tökén", symbol: "代币" },
  { id: "..info/x", name: "A name chosen to be taken for a path" },
  { id: "before-first-snapshot", totalSupply: null, totalSupplyAsOf: null },
];

/** An amount as registries write it: many integer digits and ten fractional ones, more than a double can hold. */
export function randomSupply(random: Random): string {
  return `${randomDigits(random, 9 + randomInteger(random, 6))}.${randomDigits(random, 10)}`;
}

/**
 * `count` instruments that depend on `seed` alone: first ids with a slash, spaces, unicode and a path in them, a paused
 * one and one without supply, then bonds. Every second `totalSupplyAsOf` has no zone. All support `apis`.
 */
export function sampleInstruments(count: number, seed: number, apis: Record<string, number>): Instrument[] {
  const random = mulberry32(seed);
  return Array.from({ length: count }, (_, index) => {
    const number = String(index).padStart(3, "0");
    return {
      id: `BOND-${2026 + Math.floor(index / 25)}-${number}`,
      name: `Sample Bond ${number}`,
      symbol: `BND${number}`,
      decimals: randomInteger(random, 11),
      totalSupply: randomSupply(random),
      totalSupplyAsOf: `2026-09-10T06:31:01.421109${index % 2 === 0 ? "Z" : ""}`,
      supportedApis: apis,
      ...NOTABLE[index],
    };
  });
}

const API = "splice-api-token";

/** Of the standard: both versions, or the first alone. */
export const VERSIONS = ["v2", "v1"] as const;
export type Version = (typeof VERSIONS)[number];

/** The APIs that every sample registry serves, with the minor version that clients look for. */
const VERSION_1 = {
  [`${API}-metadata-v1`]: 1,
  [`${API}-transfer-instruction-v1`]: 1,
  [`${API}-allocation-v1`]: 1,
  [`${API}-allocation-instruction-v1`]: 1,
};

const VERSION_2 = {
  [`${API}-transfer-instruction-v2`]: 1,
  [`${API}-allocation-v2`]: 1,
  [`${API}-allocation-instruction-v2`]: 1,
};

/** `supportedApis` of the info and of each generated instrument: exactly what is served. */
export function supportedApis(version: Version): Record<string, number> {
  return version === "v2" ? { ...VERSION_1, ...VERSION_2 } : { ...VERSION_1 };
}
