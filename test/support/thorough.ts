/** At night properties are tried with many and other cases, and tables in full. */
export const IS_THOROUGH = process.env["TEST_THOROUGH"] === "yes";

/** How many runs a property has: at each push, and at night. */
export function runs(atPush: number, atNight: number): number {
  return IS_THOROUGH ? atNight : atPush;
}

/** At each push every n-th case, the `place`-th one first; at night all. */
export function shareOf<T>(cases: readonly T[], place: number, n: number): readonly T[] {
  return IS_THOROUGH ? cases : cases.filter((_each, at) => at % n === place % n);
}
