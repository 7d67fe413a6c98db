import type { Clock } from "../../clock.ts";
import { Recurrence } from "../../limits/recurrence.ts";
import type { CredentialKey, CredentialLook } from "../observer.ts";

/** Different faults of one key that are reported before it is good again. */
const MOST_FAULTS = 8;

/** Decides what of the looks at an upstream's credentials is worth a line: a fault once, and that it is over. */
export class CredentialLooks {
  private readonly clock: Clock;
  private readonly faults = new Map<CredentialKey, Map<string, Recurrence>>();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  note(key: CredentialKey, fault: string | undefined): CredentialLook {
    const known = this.faults.get(key);
    if (fault === undefined) return { fault, isNew: this.faults.delete(key) };
    const recurrence = known?.get(fault) ?? new Recurrence(this.clock);
    if (known === undefined) this.faults.set(key, new Map([[fault, recurrence]]));
    else if (!known.has(fault) && known.size >= MOST_FAULTS) return { fault, isNew: false };
    else known.set(fault, recurrence);
    return { fault, isNew: recurrence.isDue() };
  }
}
