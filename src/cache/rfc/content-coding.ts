import { splitList } from "./cache-control.ts";
import { weightOf } from "./vary.ts";

/** The codings an answer can be sent in. */

/** Distinct `Accept-Encoding` values whose reading is remembered: browsers and clients send a handful. */
const REMEMBERED = 64;

/** Whether `Accept-Encoding` prefers gzip to identity, or at least as much (RFC 9110 §12.5.3). */
export function prefersGzip(acceptEncoding: string): boolean {
  let gzip: number | undefined;
  let identity: number | undefined;
  let others = 0;
  for (const member of splitList(acceptEncoding.toLowerCase())) {
    const [coding, ...parameters] = member.split(";").map((part) => part.trim());
    const weight = weightOf(parameters);
    if (coding === "gzip" || coding === "x-gzip") gzip = Math.max(gzip ?? 0, weight);
    else if (coding === "identity") identity = weight;
    else if (coding === "*") others = weight;
  }
  const weight = gzip ?? others;
  return weight > 0 && weight >= (identity ?? 0);
}

/** Reads `Accept-Encoding`, remembering the last few distinct values. */
export class CodingChoice {
  private readonly remembered = new Map<string, boolean>();

  acceptsGzip(acceptEncoding: string): boolean {
    const known = this.remembered.get(acceptEncoding);
    if (known !== undefined) return known;
    const gzip = prefersGzip(acceptEncoding);
    if (this.remembered.size >= REMEMBERED) this.remembered.clear();
    this.remembered.set(acceptEncoding, gzip);
    return gzip;
  }
}
