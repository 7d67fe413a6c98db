import { createHash } from "node:crypto";
import { elementSpans, memberSpans } from "../spec/json-scan.ts";

/** One instrument as a page's text has it, byte for byte. */
export interface InstrumentSlice {
  readonly id: string;
  readonly text: string;
}

/** What the cache needs to know of an instrument page. */
export interface Page {
  readonly instruments: readonly { readonly id: string }[];
  /** As issued, or undefined on the last page. */
  readonly nextPageToken: string | undefined;
}

/** Reads a page that fits its schema; an empty token ends a listing as an absent one does. */
export function readPage(json: unknown): Page {
  const { instruments, nextPageToken } = json as {
    instruments: readonly { id: string }[];
    nextPageToken?: string | null;
  };
  return { instruments, nextPageToken: nextPageToken === "" || nextPageToken === null ? undefined : nextPageToken };
}

/** The text of each instrument in a page's body. */
export function instrumentSlices(text: string, page: Page): InstrumentSlice[] {
  const spans = memberSpans(text, 0, "instruments");
  // A key given twice: parsers take the last, but what the upstream meant is anybody's guess.
  if (spans.length !== 1) return [];
  return elementSpans(text, spans[0]!.start).map(({ start, end }, at) => ({
    id: page.instruments[at]!.id,
    text: text.slice(start, end),
  }));
}

/**
 * Stands for what a page says about the pages after it: which instruments it lists, and where it goes on. Supplies that
 * move leave it as it is.
 *
 * @param generation of the page itself, so that a change reaches every later page through those between
 */
export function chainDigest(page: Page, generation: string): string {
  const hash = createHash("sha256").update(JSON.stringify([generation, page.nextPageToken]));
  for (const { id } of page.instruments) hash.update(JSON.stringify(id));
  return hash.digest("base64url").slice(0, 22);
}
