import { BASE, type Epoch, epochAfter, epochCount, type Epochs, type EpochSet } from "../epochs.ts";
import type { PartitionView } from "./partitions.ts";
import type { FoundTable } from "./tables.ts";

/** How an epoch from elsewhere compares with the one known here. */
export type Comparison =
  /** It was newer, and counts from now on. */
  | "newer"
  | "known"
  /** It is older, or of the same age: Redis has to say what holds. */
  | "doubtful";

/** Epochs that Redis lacks. */
export interface EpochRepairs {
  /** All others go. */
  readonly isAnew: boolean;
  /** There are others than those of the purges. */
  readonly isMended: boolean;
  readonly epochs: ReadonlyMap<string, Epoch>;
}

/** Takes over one epoch of a scope, or of the base, if it is newer. */
export function takeEpoch(epochs: Epochs, partition: string | undefined, scope: string, epoch: Epoch): Comparison {
  const local = epochs.read(partition);
  const ours = scope === BASE ? local.base : local.scopes.get(scope);
  if (ours === epoch) return "known";
  if (!isNewer(epoch, ours)) return "doubtful";
  if (scope === BASE) epochs.replace(partition, { base: epoch, scopes: new Map() });
  else epochs.put(partition, scope, epoch);
  return "newer";
}

/** Takes over what is newer in Redis. Nothing known here ever gives way to something older. */
export function takeEpochs(epochs: Epochs, view: PartitionView, { rows }: FoundTable): void {
  const base = rows.get(BASE);
  if (base === undefined) return;
  const ours = epochs.read(view.partition);
  if (base !== ours.base) {
    if (view.isKnown && !isNewer(base, ours.base)) return;
    const scopes = new Map([...rows].filter(([scope]) => scope !== BASE));
    epochs.replace(view.partition, { base, scopes });
    return;
  }
  for (const [scope, epoch] of rows) takeEpoch(epochs, view.partition, scope, epoch);
}

/**
 * What Redis lacks, after all that is newer there was taken over: purges of this process that are not there yet, by scope,
 * and what else differs. Nothing in Redis: this process's epochs are written back, all in one go: a base without its scopes
 * would let entries through that a scope's purge had ended. An older or foreign epoch: neither is right for certain (a
 * failover lost a purge, two groups of replicas went on alone, or gateways without this one's seal key purged), so the scope
 * gets one that is newer than both.
 */
export function repairsOf(ours: EpochSet, found: FoundTable, purges: ReadonlyMap<string, Epoch>): EpochRepairs {
  const raised = [...purges].map(([scope, noted]): [string, Epoch] => [scope, raisedAbove(noted, found, scope)]);
  if (purges.has(BASE)) return { isAnew: true, isMended: false, epochs: new Map(raised) };
  const { texts, rows } = found;
  const base = rows.get(BASE);
  if (base !== ours.base) {
    const text = texts.get(BASE);
    const lost: [string, Epoch][] = [[BASE, ours.base], ...ours.scopes];
    const anew: [string, Epoch][] = text === undefined ? lost : [[BASE, epochAfter(ours.base, base ?? text)]];
    return { isAnew: true, isMended: true, epochs: new Map([...anew, ...raised]) };
  }
  const mended = new Map<string, Epoch>();
  for (const scope of new Set([...ours.scopes.keys(), ...texts.keys()])) {
    if (scope === BASE || purges.has(scope)) continue;
    const [own, text] = [ours.scopes.get(scope), texts.get(scope)];
    if (rows.has(scope) && rows.get(scope) === own) continue;
    mended.set(scope, text === undefined ? own! : epochAfter(own, rows.get(scope) ?? text));
  }
  // Purges hold within the base that was found: written where it is still there.
  const within: [string, Epoch][] = raised.length > 0 ? [[BASE, base]] : [];
  return { isAnew: false, isMended: mended.size > 0, epochs: new Map([...within, ...mended, ...raised]) };
}

/** The epoch of a purge: the one that was noted for it, unless Redis has one that is as new. */
function raisedAbove(noted: Epoch, { texts, rows }: FoundTable, scope: string): Epoch {
  const last = rows.get(scope) ?? texts.get(scope);
  return last === undefined || last === noted || epochCount(last) < epochCount(noted) ? noted : epochAfter(noted, last);
}

function isNewer(epoch: Epoch, than: Epoch | undefined): boolean {
  return than === undefined || epochCount(epoch) > epochCount(than);
}
