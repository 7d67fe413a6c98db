import type { Instrument } from "./instruments.ts";

/** Kinds of page tokens: the last id of a page, an index into the list, or nothing, since one page has all. */
export type PageTokens = "token-id" | "token-index" | "none";

/** Sizes of pages, in instruments. */
export interface PageSizes {
  /** Instruments of a page without `pageSize`; 25 by default. */
  readonly default: number;
  /** Instruments of the largest page; 1000 by default. */
  readonly most: number;
  /** Answer to a request for more: the largest page, or a 400. */
  readonly beyond: "clamp" | "refuse";
}

export interface Paging {
  readonly tokens: PageTokens;
  readonly sizes: PageSizes;
}

/** A page as it is sent; some registries write null behind the last one, others nothing. */
export interface Page {
  readonly instruments: readonly Instrument[];
  readonly nextPageToken?: string | null;
}

/** The page of `all` (sorted by id) that a query asks for, or the text of the registry's 400. */
export function pageOf(all: readonly Instrument[], query: URLSearchParams, { tokens, sizes }: Paging): Page | string {
  if (tokens === "none") return { instruments: all };
  const size = readSize(query.get("pageSize"), sizes);
  if (typeof size === "string") return size;
  const start = readStart(query.get("pageToken"), tokens, all);
  if (start === undefined) return "invalid pageToken";
  const end = Math.min(start + size, all.length);
  const instruments = all.slice(start, end);
  if (end === all.length) return tokens === "token-id" ? { instruments, nextPageToken: null } : { instruments };
  return { instruments, nextPageToken: tokens === "token-id" ? all[end - 1]!.id : String(end) };
}

function readSize(text: string | null, sizes: PageSizes): number | string {
  if (text === null) return sizes.default;
  if (!/^\d{1,9}$/.test(text) || Number(text) < 1) return "pageSize must be a positive integer";
  if (Number(text) > sizes.most && sizes.beyond === "refuse") return `pageSize cannot be greater than ${sizes.most}`;
  return Math.min(Number(text), sizes.most);
}

/** The index of a page's first instrument; undefined for a token that this listing did not give. */
function readStart(token: string | null, tokens: PageTokens, all: readonly Instrument[]): number | undefined {
  if (token === null) return 0;
  if (tokens === "token-index")
    return /^\d{1,9}$/.test(token) && Number(token) <= all.length ? Number(token) : undefined;
  const last = all.findIndex(({ id }) => id === token);
  return last === -1 ? undefined : last + 1;
}
