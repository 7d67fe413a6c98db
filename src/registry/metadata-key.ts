import { hash } from "node:crypto";
import { type CacheKey, cacheKey } from "../sharing/entries.ts";
import { endpointOf, endpointPath } from "../spec/endpoints.ts";
import { CACHED_OPERATIONS, cachedRecord, type CachedOperation, forEachCached } from "../spec/operations.ts";

/** What one cached resource of a registry is. */
export interface MetadataAddress {
  readonly operation: CachedOperation;
  /** The id in its path, decoded. */
  readonly id?: string | undefined;
  readonly pageSize?: number | undefined;
  /** What a page is asked for with where the client names no size; undefined: with none. */
  readonly defaultPageSize?: number | undefined;
  /** Percent-encoded, canonical. */
  readonly pageToken?: string | undefined;
}

const ALL = "all";
const PAGES = "pages";

/**
 * The scopes that a purge takes: those of a whole registry, of all entries with the same data as an operation's, or of
 * what has one id, and the pages that may hold it.
 */
export function purgeScopes(operation?: CachedOperation, id?: string): readonly string[] {
  if (operation === undefined) return [ALL];
  return id === undefined ? [cachedRecord(operation).data] : [PAGES, `${operation}:${id}`];
}

/** Those of an answer to a question about these contracts, which a purge of the registry takes as well. */
export function contractScopes(ids: readonly string[]): readonly string[] {
  return [ALL, ...ids.map(contractScope)];
}

/** The scope of what is kept about one contract. */
export function contractScope(id: string): string {
  return `contract:${id}`;
}

/** Those of all its entries; the same arrays for thousands of keys. */
const SHARED_SCOPES = forEachCached(({ address, data }) => (address === "page" ? [ALL, data, PAGES] : [ALL, data]));

/** The scopes of an entry, from the widest to the narrowest. */
function scopesOf(operation: CachedOperation, id: string | undefined): readonly string[] {
  const shared = SHARED_SCOPES[operation];
  return cachedRecord(operation).address === "id" ? [...shared, `${operation}:${id}`] : shared;
}

/**
 * The cache key: the admin, the endpoint, and the id or page as sent; nothing else of a request takes part.
 *
 * @param admin the registry's party id, which names the partition
 */
export function metadataKey(admin: string, address: MetadataAddress): CacheKey {
  const { operation, id, pageToken } = address;
  const key = { partition: admin, scopes: scopesOf(operation, id) };
  switch (cachedRecord(operation).address) {
    case "sole":
      return cacheKey({ ...key, id: operation });
    case "id":
      return cacheKey({ ...key, id: `${operation} ${id}` });
    case "page": {
      const page = { ...key, id: `${operation} ${sizeName(address)} ${tokenName(pageToken)}` };
      return cacheKey(pageToken === undefined ? page : { ...page, chain: chainOf(address, pageToken) });
    }
  }
}

/** What a kept answer is one of: an endpoint's, or that of one of `extraPaths`. */
export type KeptKind = CachedOperation | typeof EXTRA_PATH;

const EXTRA_PATH = "extra_path";

/** The cache key of one of `extraPaths`. */
export function extraPathKey(admin: string, path: string): CacheKey {
  const id = `${EXTRA_PATH} ${path}`;
  return cacheKey({ partition: admin, scopes: [ALL, id], id });
}

const KEY_ID = new RegExp(`^(${[...CACHED_OPERATIONS, EXTRA_PATH].join("|")})(?: (.*))?$`, "s");

/** What the name of a key stands for, as {@link metadataKey} or {@link extraPathKey} made it. */
export function readKeyName(name: string): { readonly operation: KeptKind; readonly key: CacheKey } {
  const end = name.indexOf("\n");
  const [partition, id] = [name.slice(0, end), name.slice(end + 1)];
  const [, first, rest] = KEY_ID.exec(id)!;
  if (first === EXTRA_PATH) return { operation: first, key: extraPathKey(partition, rest!) };
  const operation = first as CachedOperation;
  const key = { partition, id, name, scopes: scopesOf(operation, rest) };
  if (cachedRecord(operation).address !== "page") return { operation, key };
  const [, size, token] = /^(\S*) (.*)$/s.exec(rest!)!;
  const pageToken = token === EMPTY_TOKEN ? "" : token!;
  return { operation, key: token === "" ? key : { ...key, chain: chainName(size!, pageToken) } };
}

/** No encoded token is that. */
const EMPTY_TOKEN = "=";

/** A token that is empty is another question than none: registries differ in what they answer. */
function tokenName(pageToken: string | undefined): string {
  return pageToken === "" ? EMPTY_TOKEN : (pageToken ?? "");
}

type PageSizes = Pick<MetadataAddress, "pageSize" | "defaultPageSize">;

/** Distinguishes sizes: one that is asked for by default may be lowered where the registry refuses it, a client's may not. */
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
  return chainName(sizeName(address), pageToken);
}

function chainName(size: string, pageToken: string): string {
  // Servers read `+` as a space or as itself; both spellings of a token mean the one that was issued.
  const token = pageToken.replaceAll("+", "%20");
  return `${size} ${token.length > MAX_PLAIN_TOKEN ? `#${hash("sha256", token, "base64url")}` : token}`;
}

/** The path and query that fetch the resource from its registry, without the size that is asked for by default. */
export function metadataPath({ operation, id, pageSize, pageToken }: MetadataAddress): string {
  const parameters: string[] = [];
  if (pageSize !== undefined) parameters.push(`pageSize=${pageSize}`);
  if (pageToken !== undefined) parameters.push(`pageToken=${pageToken}`);
  const query = parameters.length === 0 ? "" : `?${parameters.join("&")}`;
  return `${endpointPath(endpointOf(operation), id)}${query}`;
}
