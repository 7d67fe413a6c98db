import { sayDuration } from "../src/words/quantity.ts";
import { sayNumber } from "./format.ts";

/** How many requests each client had sent at a moment. */
export interface Sighting {
  readonly at: number;
  readonly requests: ReadonlyMap<string, number>;
}

/** What a client used lately of what its tier lets it have. */
export interface Use {
  /** 1: all of it, or more; undefined: there is no limit, or nothing to compare with yet. */
  readonly share: number | undefined;
  readonly text: string;
}

/** The part of a tier that says how many requests: `per` in milliseconds, or as in the file. */
interface Limit {
  readonly requests?: number | undefined;
  readonly per?: number | undefined;
}

/** Between two sightings. Requests that were refused count, too: they say what the client tried. */
export function clientUse(key: string, limit: Limit | undefined, before: Sighting | undefined, seen: Sighting): Use {
  const earlier = before?.requests.get(key) ?? 0;
  const count = Math.max(0, (seen.requests.get(key) ?? 0) - earlier);
  const length = before === undefined ? 0 : seen.at - before.at;
  const per = limit?.per ?? 60_000;
  const unit = per === 60_000 ? "min" : sayDuration(per);
  const used = length <= 0 ? undefined : (count * per) / length;
  if (limit?.requests === undefined) {
    return { share: undefined, text: used === undefined ? "no limit" : `${sayNumber(used)} / ${unit}, no limit` };
  }
  if (used === undefined) return { share: undefined, text: `up to ${sayNumber(limit.requests)} / ${unit}` };
  return {
    share: used / Math.max(1, limit.requests),
    text: `${sayNumber(used)} of ${sayNumber(limit.requests)} / ${unit}`,
  };
}
