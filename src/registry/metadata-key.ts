import { hash } from "node:crypto";
import { type CacheKey, cacheKey } from "../cache/stores/store.ts";
import type { CachedOperation } from "../spec/endpoints.ts";

/** What one cached resource of a registry is. */
export interface MetadataAddress {
  readonly operation: CachedOperation;
  /** The instrument id, decoded. */
  readonly id?: string | undefined;
  readonly pageSize?: number | undefined;
  /** What a page is asked for with where the client names no size; undefined: with none. */
  readonly defaultPageSize?: number | undefined;
  /** Percent-encoded, canonical. */
  readonly pageToken?: string | undefined;
}

/** Purge scopes within a partition: `all`, and below it info apart from what is about instruments. */
export const SCOPES = {
  all: ["all"],
  info: ["info"],
  /** Pages and single instruments hold the same data, so they go together. */
  instruments: ["list"],
  /** One instrument, and the pages that may hold it. */
  instrument: (id: string) => ["pages", `instrument:${id}`],
} as const;

/**
 * The cache key: the admin, the endpoint, and the id or page as sent; nothing else of a request takes part.
 *
 * @param admin the registry's party id, which names the partition
 */
export function metadataKey(admin: string, address: MetadataAddress): CacheKey {
  switch (address.operation) {
    case "info":
      return cacheKey({ partition: admin, id: "info", scopes: ["all", "info"] });
    case "instrument":
      return cacheKey({
        partition: admin,
        id: `instrument ${address.id}`,
        scopes: ["all", "list", `instrument:${address.id}`],
      });
    case "instruments": {
      const { pageToken } = address;
      const size = sizeName(address);
      const page = { partition: admin, id: `instruments ${size} ${pageToken ?? ""}`, scopes: PAGE_SCOPES };
      return cacheKey(pageToken === undefined ? page : { ...page, chain: chainOf(address, pageToken) });
    }
  }
}

type PageSizes = Pick<MetadataAddress, "pageSize" | "defaultPageSize">;

/** Tells sizes apart: one that is asked for by default may be lowered where the registry refuses it, a client's may not. */
function sizeName({ pageSize, defaultPageSize }: PageSizes): string {
  if (pageSize !== undefined) return String(pageSize);
  return defaultPageSize === undefined ? "" : `~${defaultPageSize}`;
}

/** Characters of a token that are kept as they are in the name of its chain. */
const MAX_PLAIN_TOKEN = 64;

/**
 * Names a page by its token: tokens are only good for the page size they were issued with. Short,
 * whatever clients and registries make of tokens: thousands of names are remembered.
 */
export function chainOf(address: PageSizes, pageToken: string): string {
  // Servers read `+` as a space or as itself; both spellings of a token mean the one that was issued.
  const token = pageToken.replaceAll("+", "%20");
  return `${sizeName(address)} ${token.length > MAX_PLAIN_TOKEN ? `#${hash("sha256", token, "base64url")}` : token}`;
}

/** The path and query that fetch the resource from its registry, without the size that is asked for by default. */
export function metadataPath(address: MetadataAddress): string {
  switch (address.operation) {
    case "info":
      return "/registry/metadata/v1/info";
    case "instrument":
      return `/registry/metadata/v1/instruments/${encodeURIComponent(address.id ?? "")}`;
    case "instruments": {
      const parameters: string[] = [];
      if (address.pageSize !== undefined) parameters.push(`pageSize=${address.pageSize}`);
      if (address.pageToken !== undefined) parameters.push(`pageToken=${address.pageToken}`);
      const query = parameters.length === 0 ? "" : `?${parameters.join("&")}`;
      return `/registry/metadata/v1/instruments${query}`;
    }
  }
}

const PAGE_SCOPES = ["all", "list", "pages"];
