import type { CachedEntry } from "../cache/cached-entry.ts";
import type { MemoryStore } from "../cache/stores/memory-store.ts";
import type { Clock, Instant } from "../clock.ts";
import type { CacheKey } from "../sharing/entries.ts";
import type { EpochsPort } from "../sharing/ports.ts";
import { GatewayError } from "../errors.ts";
import { readKeyName } from "../registry/metadata-key.ts";
import type { Upstreams } from "../upstream/upstreams.ts";
import type { CacheContents, CachedKind, CacheGroup } from "./answers.ts";
import { takenBy } from "./purge.ts";
import { readQuery } from "./request.ts";

/** Keys that are looked at before anything else may run: a millisecond's worth. */
const AT_ONCE = 128;

export interface CacheReportParts {
  readonly memory: Pick<MemoryStore, "names" | "peek">;
  readonly epochs: Pick<EpochsPort, "epochOf" | "softPurgedAt">;
  readonly upstreams: Upstreams;
  readonly clock: Clock;
  readonly behind: CacheContents["behind"];
}

/** What a purge would take, as its body says; undefined: nothing is asked of a purge. */
export type PurgePreview = Readonly<Record<string, string>> | undefined;

/**
 * The query of `GET /cache`: the keys of a purge, or `all=true`.
 *
 * @throws GatewayError 400 for another parameter, or one that is given twice; `takenBy` sees to the rest
 */
export function parsePreview(query: unknown): PurgePreview {
  const { all, ...named } = readQuery(query, ["all", "upstream", "endpoint", "instrument", "contract"]);
  if (all === undefined) return Object.keys(named).length === 0 ? undefined : named;
  if (all === "true" && Object.keys(named).length === 0) return {};
  throw new GatewayError("invalid_query", "all must be true, and stands alone");
}

interface Group extends Omit<CacheGroup, "oldest"> {
  entries: number;
  bytes: number;
  stale: number;
  oldest: CachedEntry["entry"] | null;
}

/**
 * Counts what is in memory, by registry and kind, in slices that let requests go on.
 *
 * @throws GatewayError 400 and 404 for what no purge could name
 */
export async function reportCache(parts: CacheReportParts, preview: PurgePreview): Promise<CacheContents> {
  const { memory, epochs, upstreams, clock, behind } = parts;
  const isTaken = preview === undefined ? undefined : takenBy(upstreams, preview);
  const groups = new Map<string, Group>();
  const purged = { entries: 0, bytes: 0 };
  const selected = { entries: 0, bytes: 0 };
  const now = clock.now();
  for (const [i, name] of memory.names().entries()) {
    if (i % AT_ONCE === AT_ONCE - 1) await nextTurn();
    const { operation, key } = readKeyName(name);
    const epoch = epochs.epochOf(key);
    for (const { cached, bytes } of memory.peek(name)) {
      if (cached.entry.epoch !== epoch) {
        count(purged, bytes);
        continue;
      }
      const kind: CachedKind = cached.entry.status === 200 ? operation : "notFound";
      const group = groupOf(groups, upstreams.byAdmin(key.partition)?.name ?? null, kind);
      count(group, bytes);
      if (isStale(cached, key, parts)) group.stale += 1;
      if (group.oldest === null || cached.entry.bornAt < group.oldest.bornAt) group.oldest = cached.entry;
      if (isTaken?.(key) === true) count(selected, bytes);
    }
  }
  return {
    groups: [...groups.values()].map((group) => present(group, now)),
    purged,
    selected: isTaken === undefined ? null : selected,
    behind,
  };
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function groupOf(groups: Map<string, Group>, upstream: string | null, kind: CachedKind): Group {
  const id = `${kind} ${upstream ?? ""}`;
  const known = groups.get(id);
  if (known !== undefined) return known;
  const group = { upstream, kind, entries: 0, bytes: 0, stale: 0, oldest: null };
  groups.set(id, group);
  return group;
}

function count(total: { entries: number; bytes: number }, bytes: number): void {
  total.entries += 1;
  total.bytes += bytes;
}

/** A soft purge is seen to in an entry when that is next used. */
function isStale({ entry }: CachedEntry, key: CacheKey, { epochs, clock }: CacheReportParts): boolean {
  return clock.now() >= entry.freshUntil || epochs.softPurgedAt(key, entry.softEpoch) !== undefined;
}

function present({ oldest, ...group }: Group, now: Instant): CacheGroup {
  if (oldest === null) return { ...group, oldest };
  const { bornAt, freshUntil, usableUntil, revalidateUntil } = oldest;
  return {
    ...group,
    oldest: {
      ageMs: Math.round(now - bornAt),
      lifetimeMs: Math.round(freshUntil - bornAt),
      usableForMs: Math.round(Math.max(usableUntil, revalidateUntil) - now),
    },
  };
}
