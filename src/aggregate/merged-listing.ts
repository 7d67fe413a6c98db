import { instrumentBytes } from "../bodies/page.ts";
import type { Found } from "../cache/types.ts";
import type { Clock } from "../clock.ts";
import { GatewayError } from "../errors.ts";
import { parseJson } from "../json.ts";
import type { Registry, RegistryWait } from "../registry/registry.ts";
import {
  boundedWait,
  compose,
  type Composed,
  failureOf,
  getPage,
  identityOf,
  isRegistryFailure,
  joined,
  withAdmin,
} from "./compose.ts";

/** A client's question to the listing of all registries. */
interface MergedQuery {
  /** As written in the query, percent-encoded; undefined: the configured one of each registry. */
  readonly pageSize?: string | undefined;
  /** Token that the page before gave, percent-encoded; undefined: the first page. */
  readonly pageToken?: string | undefined;
  /** Whether a registry that fails is left out and named, in place of failing the page. */
  readonly isPartial: boolean;
}

/** A place in the listing: a registry, and its own token there. */
interface Position {
  readonly registry: Registry;
  /** As the registry issued it; undefined: its first page. */
  readonly token: string | undefined;
}

/**
 * Gives one page of the listing of all registries: the page of one registry, as that cuts it, each instrument with its `admin`.
 * A page token names the registry and holds its own token, so that nothing is to be remembered. A registry without instruments
 * has no page.
 *
 * @param registries those that the client may see, in order
 * @throws GatewayError 400 for a token that is none of this listing; 502 that names a registry that fails
 */
export async function mergedPage(
  registries: readonly Registry[],
  query: MergedQuery,
  wait: RegistryWait,
  clock: Clock,
): Promise<Composed> {
  const missing: string[] = [];
  const passed: Found[] = [];
  let position = query.pageToken === undefined ? first(registries[0]) : readToken(registries, query.pageToken);
  while (position !== undefined) {
    const { registry } = position;
    const after = first(registries[registries.indexOf(registry) + 1]);
    try {
      const { found, instruments, next } = await read(position, query.pageSize, boundedWait(registry, wait, clock));
      const following = next ?? after;
      if (instruments.length > 0 || next !== undefined || after === undefined) {
        return compose(pageOf(instruments, following), [...passed, found], missing, clock.now());
      }
      passed.push(found);
    } catch (error) {
      if (!isRegistryFailure(error)) throw error;
      if (!query.isPartial) throw failureOf(registry.upstream.name, error);
      missing.push(registry.upstream.name);
    }
    position = after;
  }
  return compose(pageOf([], undefined), passed, missing, clock.now());
}

async function read({ registry, token }: Position, pageSize: string | undefined, wait: RegistryWait) {
  const { found, listed, next } = await getPage(registry, { pageSize, token }, wait);
  const instruments = listed.instruments.map((each) => withAdmin(instrumentBytes(listed, each), identityOf(registry)));
  const position: Position | undefined = next === undefined ? undefined : { registry, token: next };
  return { found, instruments, next: position };
}

function pageOf(instruments: readonly (readonly Buffer[])[], next: Position | undefined): Buffer {
  const end = next === undefined ? "]}" : `],"nextPageToken":"${tokenOf(next)}"}`;
  return Buffer.concat([Buffer.from('{"instruments":['), ...joined(instruments), Buffer.from(end)]);
}

function first(registry: Registry | undefined): Position | undefined {
  return registry && { registry, token: undefined };
}

function tokenOf({ registry, token }: Position): string {
  return Buffer.from(JSON.stringify([identityOf(registry), token ?? null])).toString("base64url");
}

function readToken(registries: readonly Registry[], pageToken: string): Position {
  const read = parseJson(Buffer.from(pageToken, "base64url").toString("utf8"));
  const [identity, token] = Array.isArray(read) ? (read as readonly unknown[]) : [];
  if (typeof identity !== "string" || (token !== null && typeof token !== "string")) {
    throw new GatewayError("invalid_page_token", "the pageToken is none of this listing; list again without it");
  }
  // By its alias, where its admin was not known yet when the token was made.
  const registry = registries.find(({ upstream }) => upstream.admin === identity || upstream.name === identity);
  if (registry === undefined) {
    const text = "the registry at which the listing stood is not served here any more; list again without pageToken";
    throw new GatewayError("invalid_page_token", text);
  }
  return { registry, token: token ?? undefined };
}
