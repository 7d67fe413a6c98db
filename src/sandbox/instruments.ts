import { type Random, randomDigits, randomInteger, seededRandom } from "./random.ts";

/** An instrument as a registry lists it, newer fields included. */
export interface Instrument {
  readonly id: string;
  readonly name: string;
  readonly symbol: string;
  readonly decimals: number;
  readonly totalSupply: string | null;
  readonly totalSupplyAsOf: string | null;
  readonly supportedApis: Readonly<Record<string, number>>;
  readonly [newerField: string]: unknown;
}

/** Versions of the transfer and allocation APIs that a sample registry serves. Metadata has version 1 alone. */
export type Apis = "v1" | "v2" | "both";

/** The awkward ones come first, so that short lists have them too: ids with a slash, spaces, other scripts, and a path in them. */
const NOTABLE: readonly Partial<Instrument>[] = [
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

/**
 * `count` instruments that depend on `seed` alone, sorted by id (code units). Each second `totalSupplyAsOf` has no zone, as
 * registries differ in that.
 */
export function sampleInstruments(count: number, seed: number, apis: Apis): readonly Instrument[] {
  const random = seededRandom(seed);
  const instruments = Array.from({ length: count }, (_, i) => {
    const number = String(i).padStart(3, "0");
    return {
      id: `BOND-${2026 + Math.floor(i / 25)}-${number}`,
      name: `Sample Bond ${number}`,
      symbol: `BND${number}`,
      decimals: randomInteger(random, 11),
      totalSupply: randomSupply(random),
      totalSupplyAsOf: `2026-09-10T06:31:01.421109${i % 2 === 0 ? "Z" : ""}`,
      supportedApis: supportedApis(apis),
      ...NOTABLE[i],
    };
  });
  return instruments.sort((a, b) => (a.id < b.id ? -1 : 1));
}

/** The `supportedApis` of info and instruments: exactly what is served, each with the number that clients look for. */
export function supportedApis(apis: Apis): Readonly<Record<string, number>> {
  const families = ["transfer-instruction", "allocation", "allocation-instruction"];
  const versions = apis === "both" ? ["v1", "v2"] : [apis];
  const names = ["metadata-v1", ...versions.flatMap((version) => families.map((family) => `${family}-${version}`))];
  return Object.fromEntries(names.map((name) => [`splice-api-token-${name}`, 1]));
}

/** An amount as registries write it: more digits than a double can hold. */
function randomSupply(random: Random): string {
  return `${randomDigits(random, 9 + randomInteger(random, 6))}.${randomDigits(random, 10)}`;
}
