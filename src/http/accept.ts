import { splitList } from "../cache/rfc/cache-control.ts";
import { weightOf } from "../cache/rfc/vary.ts";

/**
 * How much a client wants a media type, by its `Accept` (RFC 9110 §12.5.1): from 0 to 1; of several ranges that match,
 * the most specific counts. Without the field, everything is as good.
 */
export function qualityOf(accept: string | undefined, type: string): number {
  if (accept === undefined) return 1;
  const ranges = splitList(accept.toLowerCase()).map((member) => member.split(";").map((part) => part.trim()));
  for (const wanted of [type, `${type.slice(0, type.indexOf("/"))}/*`, "*/*"]) {
    const weights = ranges.filter(([range]) => range === wanted).map((parts) => weightOf(parts.slice(1)));
    if (weights.length > 0) return Math.max(...weights);
  }
  return 0;
}
