import type { IncomingHttpHeaders } from "node:http";
import { LRUCache } from "lru-cache";
import type { Duration, Instant } from "../clock.ts";
import type { Resource, SkipReason } from "./resource.ts";
import { isAuthorized } from "./rfc/request-fields.ts";

/** How an answer ended. */
interface Ending {
  readonly status: number;
  /** Why it was not stored. */
  readonly skipped: SkipReason | undefined;
  /** Only the client that asked may get it. */
  readonly exclusive: boolean;
  readonly at: Instant;
}

const MAX_REMEMBERED = 2_000;

/** How long requests for a key go their own ways after an answer that was for one client only. */
const EXCLUSIVE_FOR: Duration = 10_000;

/**
 * Remembers, bounded, why answers were not stored, and which keys it is useless to wait together for; of requests with
 * credentials apart from those without, as they get different answers.
 */
export class HitForMiss {
  private readonly endings = new LRUCache<string, Ending>({ max: MAX_REMEMBERED });

  /** An answer that was stored for all makes what came before irrelevant. */
  note(resource: Resource, headers: IncomingHttpHeaders, { status, skipped, exclusive, at }: Ending): void {
    const name = nameOf(resource, isAuthorized(resource.policy, headers));
    if (skipped === undefined && !exclusive) this.endings.delete(name);
    else this.endings.set(name, { status, skipped, exclusive, at });
  }

  /** The last one, of either kind of request. */
  last(resource: Resource): Ending | undefined {
    const endings = [false, true].flatMap((authorized) => this.endings.get(nameOf(resource, authorized)) ?? []);
    return endings.sort((a, b) => b.at - a.at)[0];
  }

  /** Whether the last answer, a moment ago, was for one client only: waiting for the next one would only cost time. */
  isExclusive(resource: Resource, headers: IncomingHttpHeaders, now: Instant): boolean {
    const last = this.endings.get(nameOf(resource, isAuthorized(resource.policy, headers)));
    return last !== undefined && last.exclusive && now < last.at + EXCLUSIVE_FOR;
  }
}

function nameOf({ key }: Resource, authorized: boolean): string {
  return authorized ? `${key.name}\nauthorized` : key.name;
}
