import type { Coordinator } from "../coordination/coordinator.ts";
import type { Duration } from "../clock.ts";
import { createHash } from "node:crypto";
import { LRUCache } from "lru-cache";

const MAX_REGISTRIES = 2_000;
const REMEMBERED: Duration = 24 * 3_600_000;

/** Page sizes to ask for, the first that the registry accepts; undefined leaves the size to it. */
export const PAGE_SIZES: readonly (number | undefined)[] = [100, 50, 25, undefined];

/** What registries refuse a page size or a token with. */
export const REFUSALS = new Set([400, 422]);

/**
 * Which of several ways to ask a registry for pages it accepts, the best first: found out once, remembered by admin and
 * shared with other replicas, so that all of them ask for the very same pages.
 */
export class ListingRungs {
  private readonly coordinator: Coordinator;
  private readonly name: string;
  private readonly known = new LRUCache<string, number>({ max: MAX_REGISTRIES });

  /** @param name tells one ladder from another */
  constructor(coordinator: Coordinator, name: string) {
    this.coordinator = coordinator;
    this.name = name;
  }

  /** The rung to begin with: 0 as long as nothing was refused. */
  async current(admin: string): Promise<number> {
    const known = this.known.get(admin);
    if (known !== undefined) return known;
    const recalled = await this.coordinator.recall(this.factOf(admin));
    const rung = recalled === undefined ? Number.NaN : Number(recalled);
    if (!Number.isSafeInteger(rung) || rung < 0) return 0;
    this.known.set(admin, rung);
    return rung;
  }

  /** Whether the registry has accepted the rung to begin with, as far as this process knows. */
  isKnown(admin: string): boolean {
    return this.known.has(admin);
  }

  learn(admin: string, rung: number): void {
    if (this.known.get(admin) === rung) return;
    this.known.set(admin, rung);
    this.coordinator.remember(this.factOf(admin), String(rung), REMEMBERED);
  }

  private factOf(admin: string): string {
    return `${this.name}:${createHash("sha256").update(admin).digest("base64url").slice(0, 22)}`;
  }
}
