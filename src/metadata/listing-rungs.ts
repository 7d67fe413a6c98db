import type { Coordinator } from "../coordinator/coordinator.ts";
import type { Duration } from "../clock.ts";
import { createHash } from "node:crypto";
import { LRUCache } from "lru-cache";

const MAX_REGISTRIES = 2_000;
const REMEMBERED: Duration = 24 * 3_600_000;

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
    const recalled = Number((await this.coordinator.recall(this.factOf(admin))) ?? 0);
    const rung = Number.isSafeInteger(recalled) && recalled > 0 ? recalled : 0;
    this.known.set(admin, rung);
    return rung;
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
