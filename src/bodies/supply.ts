const ZONE = /(?:Z|[+-]\d{2}:?\d{2})$/i;

/**
 * The newest `totalSupplyAsOf` of an instrument or of a page of them, as Unix time in milliseconds; undefined where
 * there is none. Times without a zone, as spec.md §2.2 shows them, are taken for UTC.
 */
export function newestSupply(json: unknown): number | undefined {
  const { instruments } = (json ?? {}) as { instruments?: unknown };
  const all: readonly unknown[] = Array.isArray(instruments) ? instruments : [json];
  let newest = -Infinity;
  for (const instrument of all) {
    const { totalSupplyAsOf } = (instrument ?? {}) as { totalSupplyAsOf?: unknown };
    if (typeof totalSupplyAsOf !== "string") continue;
    const asOf = Date.parse(ZONE.test(totalSupplyAsOf) ? totalSupplyAsOf : `${totalSupplyAsOf}Z`);
    if (asOf > newest) newest = asOf;
  }
  return newest === -Infinity ? undefined : newest;
}
