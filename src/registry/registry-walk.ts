import { createHash } from "node:crypto";
import type { ListedPage } from "../bodies/page.ts";
import type { CacheAnswer, Resource } from "../cache/resource.ts";
import type { Clock, Instant } from "../clock.ts";
import type { Coordinator } from "../coordination/coordinator.ts";
import { GatewayError } from "../errors.ts";
import { fieldValues } from "../fields.ts";
import { freshnessLeft } from "./freshness-left.ts";
import { type FoundPage, Listing, type ListingAsk, type ListingKnowledge } from "./listing.ts";
import type { RegistryMetadata } from "./registry-metadata.ts";
import type { WalkShare } from "./walk-budget.ts";

/** A whole listing, read from end to end. */
export interface RegistryWalk {
  readonly registry: RegistryMetadata;
  readonly admin: string;
  /** The registry's answer to info, where it gave one. */
  readonly info: CacheAnswer | undefined;
  readonly pages: readonly ListedPage[];
  /** What the pages say about keeping them: each `Cache-Control` once. */
  readonly cacheControl: readonly string[];
  /** Stands for the bytes of all pages. */
  readonly digest: string;
  /** False when the listing is longer than what may be read of one. */
  readonly isWhole: boolean;
  /** Of the listing, read before the first page: with another one now, none of this may be used. */
  readonly epoch: string;
  /** When the registry answered with the oldest of its pages. */
  readonly asOf: Instant;
  /** When the first of its pages is no longer fresh. */
  readonly freshUntil: Instant;
}

export interface WalkOptions {
  readonly clock: Clock;
  readonly coordinator: Coordinator;
  readonly knowledge: ListingKnowledge;
  readonly signal: AbortSignal;
  /** What it may read; ended by the caller. */
  readonly share: WalkShare;
}

/** Beyond, a listing is too long to be searched. */
const MAX_INSTRUMENTS = 100_000;

/** What a listing as a whole depends on. */
export function listingEpoch(coordinator: Coordinator, admin: string): string {
  return coordinator.epochOf({ partition: admin, scopes: ["all", "list", "pages"] }) ?? "";
}

/**
 * Reads info and every page of a registry through its cache, after everybody else: what is fresh there is taken, and
 * only the rest is asked for. A listing without end is read as far as the share goes; of its pages only what is listed
 * is kept, their bodies are let go.
 *
 * @throws GatewayError what the registry failed with
 */
export async function walkRegistry(registry: RegistryMetadata, options: WalkOptions): Promise<RegistryWalk> {
  const { clock, coordinator, knowledge, signal, share } = options;
  const { upstream } = registry;
  const deadline = () => clock.now() + upstream.config.timeout;
  const admin = upstream.admin ?? (await upstream.learnAdmin(deadline(), signal));
  const epoch = listingEpoch(coordinator, admin);
  const listing = new Listing(registry, admin, knowledge);
  const ask = (): ListingAsk => ({
    requester: "walker",
    headers: FRESH,
    deadline: deadline(),
    signal,
    adapt: renewing,
  });

  const info = await readInfo(registry, admin, ask());
  const pages: ListedPage[] = [];
  const cacheControl = new Set<string>();
  const digest = createHash("sha256");
  const tokens = new Set<string>();
  let instruments = 0;
  let freshUntil = Infinity;
  let asOf = Infinity;
  let found: FoundPage | undefined = await listing.first(ask());
  while (found !== undefined) {
    const { page, answer } = found;
    // What is kept of a page keeps its body.
    pages.push(page.compact());
    digest.update(`${answer.body!.length}:`).update(answer.body!);
    for (const value of fieldValues(answer.fields, "cache-control")) cacheControl.add(value);
    instruments += page.ids.length;
    freshUntil = Math.min(freshUntil, clock.now() + Math.max(0, freshnessLeft(answer) ?? 0) * 1000);
    asOf = Math.min(asOf, clock.now() - answer.age * 1000);
    const token = page.nextPageToken;
    const goesOn = share.take(answer.body!.length) && instruments < MAX_INSTRUMENTS;
    if (!goesOn && token !== undefined) break;
    if (token !== undefined && tokens.has(token)) throw listing.endless();
    if (token !== undefined) tokens.add(token);
    found = (await listing.after(found, ask()))?.found;
  }
  return {
    registry,
    admin,
    info,
    pages,
    cacheControl: [...cacheControl],
    digest: digest.digest("base64url"),
    isWhole: found === undefined,
    epoch,
    asOf,
    freshUntil,
  };
}

/** An age no entry reaches: whoever names one takes what is fresh, but nothing stale (RFC 9111 §5.2.1.1). */
const FRESH = { "cache-control": "max-age=31536000" };

/** Lets {@link FRESH} count, whatever the policy says about clients: a walk that took stale pages would renew nothing. */
export function renewing(resource: Resource): Resource {
  return {
    key: resource.key,
    policy: { ...resource.policy, honorClient: true, clientFloor: 0 },
    timeout: resource.timeout,
    fetch: (request) => resource.fetch(request),
    stored: (entry, fetched) => resource.stored?.(entry, fetched),
  };
}

async function readInfo(registry: RegistryMetadata, admin: string, ask: ListingAsk): Promise<CacheAnswer | undefined> {
  try {
    const resource = renewing(registry.resource(admin, { operation: "info" }, "walker"));
    const { headers, deadline, signal } = ask;
    const request = { method: "GET", headers, deadline, ...(signal === undefined ? {} : { signal }) } as const;
    const answer = await registry.cache.respond(resource, request);
    return answer.status === 200 ? answer : undefined;
  } catch (error) {
    // A listing is worth reading without it.
    if (error instanceof GatewayError) return undefined;
    throw error;
  }
}
