/** At night every case of a large table is tried and every property has its full number of runs, from a seed of its own. */
export const IS_THOROUGH = process.env["TEST_THOROUGH"] === "yes";

/** How many runs a property gets. */
export function runs(usual: number, thorough: number): number {
  return IS_THOROUGH ? thorough : usual;
}

/** The cases for the `at`th of `count` places that are alike: each case has one place, at night every place has all. */
export function shareOf<T>(cases: readonly T[], at: number, count: number): readonly T[] {
  return IS_THOROUGH ? cases : cases.filter((_each, index) => index % count === at);
}
