import { type Clock, DAY, type Duration, type Instant } from "../clock.ts";
import { digestOf } from "../digest.ts";
import { parseJson } from "../json.ts";
import type { Row } from "../sharing/ports.ts";
import type { Upstreams } from "../upstream/upstreams.ts";

/** What replicas know of a registry whose changes they follow. Times by the clock of what they share (Unix ms). */
export interface FollowedRegistry {
  readonly admin: string;
  readonly name: string;
  /** Of its instruments, `NOT_FOLLOWED` where its listing is too long. */
  readonly digest: string;
  /** Of what its info says it supports; empty: it was not read yet. */
  readonly apis: string;
  /** When the registry answered with the oldest and the newest page of its listing. */
  readonly oldest: number;
  readonly newest: number;
  /** When it answered with the info that {@link apis} is of. */
  readonly apisAt: number;
  /** When it came, or went. */
  readonly since: number;
  /** When a replica last said that it is configured. */
  readonly seen: number;
  readonly isGone: boolean;
}

/** In the place of the digest of instruments. */
export const NOT_FOLLOWED = "-";

/** The name of a registry's row. */
export function rowOf(admin: string): string {
  return `r${digestOf(admin, 22)}`;
}

function formatRegistry(registry: FollowedRegistry, version: number): Row {
  const { admin, name, digest, apis, oldest, newest, apisAt, since, seen, isGone } = registry;
  const times = [oldest, newest, apisAt, since, seen].map(Math.floor);
  return { version, until: undefined, text: JSON.stringify([admin, name, digest, apis, ...times, isGone]) };
}

/** Undefined for what nobody of ours wrote. */
function parseRegistry(text: string): FollowedRegistry | undefined {
  const json = parseJson(text);
  if (!Array.isArray(json)) return undefined;
  const parts: readonly unknown[] = json;
  const texts = parts.slice(0, 4);
  const times = parts.slice(4, 9);
  const areTimes = times.length === 5 && times.every((each) => Number.isFinite(each));
  if (!areTimes || !texts.every((each) => typeof each === "string") || typeof parts[9] !== "boolean") return undefined;
  const [admin, name, digest, apis] = texts as [string, string, string, string];
  const [oldest, newest, apisAt, since, seen] = times as [number, number, number, number, number];
  return { admin, name, digest, apis, oldest, newest, apisAt, since, seen, isGone: parts[9] };
}

/** Replicas say so often that they have a registry, and forget one that none has said so of for so long. */
const SAY_EVERY: Duration = 300_000;
const FORGET_AFTER: Duration = 900_000;

/** For so long a replica that was configured before it went cannot bring a registry back. */
const GONE_FOR: Duration = DAY;

interface RegistriesOptions {
  readonly clock: Clock;
  /** As they are configured now. */
  readonly upstreams: () => Pick<Upstreams, "all">;
}

/** What is to be written about registries, one thing at a time. */
interface Review {
  /** The admin of one that went long ago: its row goes. */
  readonly forgotten?: string;
  /** One that went. */
  readonly gone?: FollowedRegistry;
  /** Those that are configured here, as replicas are to know. */
  readonly seen?: readonly FollowedRegistry[];
}

/** The registries whose changes replicas follow, and which of them are configured here. */
export class FollowedRegistries {
  /** As they were found last, by name. */
  rows: ReadonlyMap<string, Row> = new Map();
  private readonly options: RegistriesOptions;
  private readonly byAdmin = new Map<string, FollowedRegistry>();
  /** Since when each registry is configured here, has no upstream that is known to be it, and is not configured any more. */
  private readonly came = new Map<string, Instant>();
  private readonly missing = new Map<string, Instant>();
  private readonly left = new Map<string, Instant>();

  constructor(options: RegistriesOptions) {
    this.options = options;
  }

  get(admin: string): FollowedRegistry | undefined {
    return this.byAdmin.get(admin);
  }

  get size(): number {
    return this.byAdmin.size;
  }

  /** Since when it is configured here, by the clock of what is shared; -Infinity: it is not. */
  cameAt(admin: string, time: Instant): number {
    return this.shared(this.came.get(admin) ?? -Infinity, time);
  }

  /** An instant of this process by the clock of what is shared. */
  shared(instant: Instant, time: Instant): number {
    return time - (this.options.clock.now() - instant);
  }

  /** Takes over what was found. */
  take(found: ReadonlyMap<string, Row>): void {
    this.byAdmin.clear();
    const rows = new Map<string, Row>();
    for (const [name, row] of found) {
      const registry = name.startsWith("r") ? parseRegistry(row.text) : undefined;
      if (registry === undefined || rowOf(registry.admin) !== name) continue;
      this.byAdmin.set(registry.admin, registry);
      rows.set(name, row);
    }
    this.rows = rows;
  }

  /** The rows that are newer here than those found. */
  newerThan(found: ReadonlyMap<string, Row>): Map<string, Row> {
    return new Map([...this.rows].filter(([name, { version }]) => version > (found.get(name)?.version ?? -1)));
  }

  /** The next row of a registry. */
  row(registry: FollowedRegistry): Row {
    return formatRegistry(registry, (this.rows.get(rowOf(registry.admin))?.version ?? 0) + 1);
  }

  /** Notes which registries came to be configured here, and which are not any more. Returns the admins of those that left. */
  followConfiguration(): readonly string[] {
    const now = this.options.clock.now();
    const { all } = this.options.upstreams();
    const admins = new Set(all.map(({ admin }) => admin));
    for (const admin of admins) {
      if (admin === undefined) continue;
      this.missing.delete(admin);
      if (this.came.has(admin)) continue;
      this.came.set(admin, now);
      this.left.delete(admin);
    }
    for (const admin of this.came.keys()) {
      if (!admins.has(admin) && !this.missing.has(admin)) this.missing.set(admin, now);
    }
    // One that has not named its admin may be any of those that were; one that is silent may be so for ever.
    const isOpen = admins.has(undefined);
    const leaving = [...this.missing].flatMap(([admin, since]) =>
      !isOpen || since + FORGET_AFTER <= now ? admin : [],
    );
    for (const admin of leaving) {
      this.missing.delete(admin);
      this.came.delete(admin);
      // Other replicas may know that it is here.
      if (!isOpen) this.left.set(admin, now);
    }
    for (const admin of this.left.keys()) if (this.get(admin)?.isGone !== false) this.left.delete(admin);
    return leaving;
  }

  /** Registries that went, and whether replicas are to know of those that are here. */
  review(time: Instant): Review {
    const here: FollowedRegistry[] = [];
    for (const registry of this.byAdmin.values()) {
      const { admin, since, seen, isGone } = registry;
      if (isGone) {
        if (since + GONE_FOR < time) return { forgotten: admin };
        continue;
      }
      if (this.came.has(admin)) {
        if (!this.missing.has(admin)) here.push(registry);
        continue;
      }
      const left = this.left.get(admin);
      const hasLeft = left !== undefined && this.shared(left, time) > since;
      if (hasLeft || seen + FORGET_AFTER <= time) return { gone: { ...registry, since: time, isGone: true } };
    }
    if (!here.some(({ seen }) => seen + SAY_EVERY < time)) return {};
    return { seen: here.map((each) => Object.assign({}, each, { seen: time })) };
  }
}
