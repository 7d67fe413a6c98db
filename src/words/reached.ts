import { sayCount } from "./quantity.ts";

/** Names beyond so many are counted. */
const MOST_NAMED = 10;

/** Which replicas go by what an operator did, as the operations listener answers it. */
export interface Reached {
  readonly took: readonly string[];
  readonly missing: readonly string[];
  readonly of: number;
}

/** Where it has effect by now: the end of a sentence. */
export function sayReached({ took, missing, of }: Reached): string {
  if (of === 1) return "on this replica";
  const where = `on ${took.length} of ${of} replicas`;
  if (missing.length === 0) return where;
  const left = missing.length - MOST_NAMED;
  const more = left > 0 ? ` and ${sayCount(left, "other")}` : "";
  return `${where}, not yet on ${missing.slice(0, MOST_NAMED).join(", ")}${more}`;
}
