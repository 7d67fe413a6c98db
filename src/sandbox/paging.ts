import type { Catalogue } from "./catalogue.ts";
import type { Instrument } from "./instrument.ts";

/**
 * How a registry pages: tokens that are the last id of the page, tokens that are an index into the id-sorted list, or
 * no paging at all.
 */
export const PAGE_STYLES = ["keyset", "index", "ignored"] as const;
export type PageStyle = (typeof PAGE_STYLES)[number];

/** The largest page and what becomes of a request for more. */
export interface MaxPageSize {
  limit: number;
  beyond: "clamp" | "400";
}

export interface Paging {
  readonly paging: PageStyle;
  readonly defaultPageSize: number;
  readonly maxPageSize: MaxPageSize;
}

export interface Page {
  instruments: readonly Instrument[];
  /** Undefined on the last page, and always where paging is ignored. */
  nextPageToken: string | undefined;
}

/** What is wrong with the paging parameters. */
export interface PagingRefusal {
  refusal: string;
}

function readPageSize(text: string | null, { defaultPageSize, maxPageSize }: Paging): number | PagingRefusal {
  if (text === null) return defaultPageSize;
  const size = Number(text);
  if (!/^\d+$/.test(text) || size < 1) return { refusal: "pageSize must be a positive integer" };
  if (size <= maxPageSize.limit) return size;
  if (maxPageSize.beyond === "clamp") return maxPageSize.limit;
  return { refusal: `pageSize cannot be greater than ${maxPageSize.limit}` };
}

function firstAfter(instruments: readonly Instrument[], id: string): number {
  const index = instruments.findIndex((instrument) => instrument.id > id);
  return index === -1 ? instruments.length : index;
}

function readStart(token: string | null, style: "keyset" | "index", catalogue: Catalogue): number | PagingRefusal {
  if (token === null) return 0;
  if (style === "keyset" && catalogue.hasKnown(token)) return firstAfter(catalogue.list(), token);
  if (style === "index" && /^\d{1,9}$/.test(token) && Number(token) <= catalogue.size) return Number(token);
  return { refusal: "invalid pageToken" };
}

/** The page that `query` asks for, or what the registry has against it. */
export function selectPage(catalogue: Catalogue, query: URLSearchParams, rules: Paging): Page | PagingRefusal {
  const all = catalogue.list();
  const { paging } = rules;
  if (paging === "ignored") return { instruments: all, nextPageToken: undefined };
  const size = readPageSize(query.get("pageSize"), rules);
  if (typeof size === "object") return size;
  const start = readStart(query.get("pageToken"), paging, catalogue);
  if (typeof start === "object") return start;
  const end = Math.min(start + size, all.length);
  const instruments = all.slice(start, end);
  if (end === all.length) return { instruments, nextPageToken: undefined };
  return { instruments, nextPageToken: paging === "keyset" ? instruments.at(-1)!.id : String(end) };
}
