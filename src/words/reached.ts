import { sayCount } from "./quantity.ts";

/** Names beyond this number are counted. */
const MOST_NAMED = 10;

interface Named {
  readonly name: string;
  readonly version: string;
  readonly revision: string;
}

/** Which replicas go by what an operator did, as the operations listener answers it. */
export interface Reached {
  readonly took: readonly Named[];
  readonly missing: readonly Named[];
  readonly of: number;
}

/** Where it has effect by now: the end of a sentence. */
export function sayReached({ took, missing, of }: Reached): string {
  if (of === 1) return "on this replica";
  const where = `on ${took.length} of ${of} replicas`;
  if (missing.length === 0) return where;
  const left = missing.length - MOST_NAMED;
  const more = left > 0 ? ` and ${sayCount(left, "other")}` : "";
  return `${where}, not yet on ${missing.slice(0, MOST_NAMED).map(sayReplica).join(", ")}${more}`;
}

/** With its build, where that is known. */
function sayReplica({ name, version, revision }: Named): string {
  const build = [version, revision].filter((part) => part !== "-").join(" ");
  return build === "" ? name : `${name} (${build})`;
}
