import type { Clock, Duration, Instant } from "../clock.ts";
import { digestOf } from "../digest.ts";
import { listingEpoch } from "../registry/whole-listing.ts";
import type { EpochsPort, MergedRows, Row, SharedChanges } from "../sharing/ports.ts";
import type { ChangeType } from "../spec/schemas.ts";
import type { Upstreams } from "../upstream/upstreams.ts";
import type { RegistryInstruments } from "./catalogue.ts";
import type { Batch, Change, Position } from "./change.ts";
import { ChangeLog } from "./change-log.ts";
import { FollowedRegistries, type FollowedRegistry, NOT_FOLLOWED, rowOf } from "./followed-registries.ts";
import { changesBetween, InstrumentMemory, type KnownInstruments } from "./known-instruments.ts";

export interface ChangesOptions {
  readonly clock: Clock;
  /** Undefined: this process is alone. */
  readonly shared: SharedChanges | undefined;
  /** As they are configured now. */
  readonly upstreams: () => Pick<Upstreams, "all" | "byAdmin">;
  readonly epochs: EpochsPort;
  readonly observer: ChangesObserver;
}

export interface ChangesObserver {
  /** A change is known here from now on. */
  changed(type: ChangeType): void;
  /** What a reading of the registry of this alias changes cannot be found out, by a fault of the gateway. */
  failed(upstream: string, fault: unknown): void;
}

/** A registry as it was last read here. */
interface Reading {
  readonly admin: string;
  readonly name: string;
  /** Undefined where they are too many to be followed. */
  readonly instruments: KnownInstruments | undefined;
  /** Undefined where its info could not be had. */
  readonly supportedApis: object | undefined;
  readonly oldest: Instant;
  readonly newest: Instant;
  readonly infoAsOf: Instant;
  /** Another one by now: it was purged, and no change is reported by it. */
  readonly epoch: string;
  /** The digest of the instruments before, where nobody has them any more. */
  lost: string | undefined;
}

/** Registries that are followed; their rows share a table with the changes. */
const MOST_REGISTRIES = 1_000;

/** Ages are whole seconds: of two readings within one it is not known which was first. */
const SAME_TIME: Duration = 1_000;

/** With what is shared away for longer, this process goes on by itself. */
const ALONE_AFTER: Duration = 10_000;

/** Another replica may have written other instruments while those before were read. */
const ROUNDS = 4;

/** So often a history that others write is tried to be followed in one go; each round is a row of theirs or one of ours. */
const LOCAL_ROUNDS = 10_000;

/**
 * What changed in the catalogue, found by comparing each reading of a registry with what was known of it. Replicas have one
 * history: each change is written by the replica that writes first, and all read them in the order in which they were
 * written. Alone, and while what is shared is away, the history is this process's own.
 */
export class Changes {
  private readonly options: ChangesOptions;
  private readonly log = new ChangeLog();
  private readonly registries: FollowedRegistries;
  private readonly instruments: InstrumentMemory;
  private readonly pending = new Map<string, Reading>();
  private found: ReadonlyMap<string, Row> | undefined;
  private awaySince: Instant | undefined;
  private listener: () => void = () => undefined;
  /** Changes with each history: a place in one means nothing in another. */
  private histories = 0;
  private isWanted = false;
  /** What others know cannot be asked for just now. */
  private isAlone = false;

  constructor(options: ChangesOptions) {
    this.options = options;
    this.registries = new FollowedRegistries(options);
    this.instruments = new InstrumentMemory(options);
    options.shared?.log.follow((rows, time) => this.merge(rows, time));
  }

  /** Has `listener` called whenever there are further changes, or another history. */
  onChange(listener: () => void): void {
    this.listener = listener;
  }

  /** Reads the history, and begins one where there is none. */
  async begin(): Promise<void> {
    this.isWanted = true;
    if (this.log.last !== undefined) return;
    await this.exchange();
    if (this.log.last === undefined) this.goOnAlone();
  }

  /** Where the history ends; to be asked for after {@link begin}. */
  get end(): { readonly position: Position; readonly history: number } {
    const { n, changes } = this.log.last!;
    return { position: { n, count: changes.length }, history: this.histories };
  }

  get history(): number {
    return this.histories;
  }

  get last(): Batch | undefined {
    return this.log.last;
  }

  /** See {@link ChangeLog.find}. */
  find(id: string): Position | undefined {
    return this.log.find(id);
  }

  /** See {@link ChangeLog.from}. */
  from(position: Position): readonly Batch[] | undefined {
    return this.log.from(position);
  }

  /** Finds out what a reading changes. Never rejects. */
  async take(instruments: RegistryInstruments): Promise<void> {
    const { admin, asOf, newestAsOf, infoAsOf, epoch, cutShortBy } = instruments.listing;
    const name = this.options.upstreams().byAdmin(admin)?.name;
    if (name === undefined) return;
    const known = cutShortBy === undefined ? await this.instruments.read(admin, instruments) : undefined;
    const reading: Reading = {
      admin,
      name,
      instruments: known,
      supportedApis: instruments.supportedApis,
      oldest: asOf,
      newest: newestAsOf,
      infoAsOf,
      epoch,
      lost: undefined,
    };
    this.pending.set(admin, reading);
    if (known !== undefined) await this.instruments.keep(admin, known);
    for (let round = 0; round < ROUNDS && this.pending.get(admin) === reading; round += 1) {
      await this.exchange();
      if (this.pending.get(admin) !== reading || !(await this.fetchKnown(reading))) return;
    }
  }

  /** The registries that are configured may be others. */
  look(): void {
    if (this.options.shared === undefined && this.log.last !== undefined) this.goOnAlone();
  }

  /** Has the instruments known that a reading is compared with. False: they cannot be had now. */
  private async fetchKnown(reading: Reading): Promise<boolean> {
    const digest = this.registries.get(reading.admin)?.digest;
    const found = digest === undefined ? "away" : await this.instruments.fetch(reading.admin, digest);
    if (found === "lost") reading.lost = digest;
    return found !== "away";
  }

  /** Reads what others wrote, and writes what is pending; where that cannot be, for long enough, without the others. */
  private async exchange(): Promise<void> {
    const { shared, clock } = this.options;
    if (shared === undefined) return this.goOnAlone();
    try {
      await shared.log.synchronise();
      this.awaySince = undefined;
    } catch {
      this.instruments.forgetKept();
      this.awaySince ??= clock.now();
      if (clock.now() - this.awaySince >= ALONE_AFTER) this.goOnAlone();
    }
  }

  /** Does with the rows that are known here what is done with those that are shared. */
  private goOnAlone(): void {
    let rows = new Map(this.rows());
    for (let round = 0; round < LOCAL_ROUNDS; round += 1) {
      this.isAlone = true;
      const { rows: changed } = this.merge(rows, this.options.clock.wallNow());
      this.isAlone = false;
      if (changed.size === 0) return;
      rows = new Map(rows);
      for (const [name, row] of changed) {
        if (row === undefined) rows.delete(name);
        else rows.set(name, row);
      }
    }
  }

  private rows(): ReadonlyMap<string, Row> {
    return new Map([...this.log.known(), ...this.registries.rows]);
  }

  /** Takes over what was found, and says what is missing there. */
  private merge(found: ReadonlyMap<string, Row>, time: Instant): MergedRows {
    if (found !== this.found) {
      const before = this.log.last;
      const finding = this.log.take(found);
      if (finding.kind === "less") {
        // What was lost there may be more than that.
        this.instruments.forgetKept();
        return { rows: new Map([...finding.missing, ...this.registries.newerThan(found)]) };
      }
      this.found = found;
      if (finding.kind === "more" && before !== undefined) this.report(before);
      this.registries.take(found);
      this.instruments.retain((admin) => this.registries.get(admin)?.isGone === false);
      if (finding.kind === "other") this.histories += 1;
      if (this.log.last !== before) this.listener();
    }
    return this.write(time);
  }

  private report(before: Batch): void {
    for (const { n, changes } of this.log.from({ n: before.n, count: 0 }) ?? []) {
      if (n > before.n) for (const { type } of changes) this.options.observer.changed(type);
    }
  }

  /** What is to be written next: one thing at a time, so that each is decided by what is there by then. */
  private write(time: Instant): MergedRows {
    if (this.log.last === undefined) {
      if (!this.isWanted && this.pending.size === 0) return NOTHING;
      return { rows: this.log.rowsOf({ admin: "", registry: "", at: time }, [])! };
    }
    for (const admin of this.registries.followConfiguration()) this.pending.delete(admin);
    for (const [admin, reading] of this.pending) {
      if (reading.epoch !== listingEpoch(this.options.epochs, admin)) {
        this.pending.delete(admin);
        continue;
      }
      try {
        const rows = this.rowsOfReading(reading, time);
        if (rows !== undefined) return { rows };
      } catch (fault) {
        // It would stand in the way of all other registries for ever.
        this.pending.delete(admin);
        this.options.observer.failed(reading.name, fault);
      }
    }
    return this.writeConfigured(time);
  }

  /** Undefined: it changes nothing, or what to compare it with has to be had first. */
  private rowsOfReading(reading: Reading, time: Instant): Map<string, Row | undefined> | undefined {
    const { admin, name, instruments, supportedApis } = reading;
    const before = this.registries.get(admin);
    const digest = instruments?.digest ?? NOT_FOLLOWED;
    const [oldest, newest] = [
      this.registries.shared(reading.oldest, time),
      this.registries.shared(reading.newest, time),
    ];
    const readAt = this.registries.shared(reading.infoAsOf, time);
    const isInfoNew = supportedApis !== undefined && readAt > (before?.apisAt ?? -Infinity) + SAME_TIME;
    const apis = isInfoNew ? digestOf(JSON.stringify(supportedApis)) : (before?.apis ?? "");
    const apisAt = isInfoNew ? readAt : (before?.apisAt ?? 0);
    const read = { admin, name, digest, apis, oldest, newest, apisAt, seen: time, isGone: false };
    if (before === undefined || before.isGone) {
      // A registry that went: for those that were configured before, it stays away.
      const isLate = before !== undefined && this.registries.cameAt(admin, time) <= before.since;
      if (isLate || this.registries.size >= MOST_REGISTRIES) return this.settle(reading);
      const changes: Change[] = [{ type: "registry_added", supportedApis: supportedApis ?? null }];
      return this.rowsFor({ ...read, since: time }, changes, newest);
    }
    // One that was read by another replica since is the later one.
    const isNewer = newest > before.newest + SAME_TIME && oldest >= before.oldest - SAME_TIME;
    const isListed = before.digest !== digest && isNewer;
    if (!isListed && before.apis === apis) return this.settle(reading, before.digest === digest);
    const changes: Change[] = [];
    if (before.apis !== apis && before.apis !== "")
      changes.push({ type: "registry_changed", supportedApis: supportedApis! });
    if (isListed) {
      const base = this.instruments.get(admin);
      const isBase = base?.digest === before.digest;
      const isComparable = instruments !== undefined && before.digest !== NOT_FOLLOWED;
      const isSought = this.options.shared !== undefined && !this.isAlone && reading.lost !== before.digest;
      if (isComparable && !isBase && isSought) return undefined;
      if (isComparable && isBase) for (const change of changesBetween(base, instruments)) changes.push(change);
      else changes.push({ type: "registry_relisted" });
    }
    const known = isListed ? read : { ...before, name, apis, apisAt, seen: time };
    return this.rowsFor({ ...known, since: before.since }, changes, isListed ? newest : apisAt);
  }

  /** There is nothing more to be done with a reading. */
  private settle({ admin, instruments }: Reading, isKnown = true): undefined {
    this.pending.delete(admin);
    if (isKnown && instruments !== undefined) this.instruments.set(admin, instruments);
    return undefined;
  }

  /** The rows of a registry's changes, and of the registry as it is known then. */
  private rowsFor(registry: FollowedRegistry, changes: readonly Change[], at: number): Map<string, Row | undefined> {
    const rows = new Map<string, Row | undefined>();
    if (changes.length > 0) {
      const relisted: Change[] = [
        ...changes.filter(({ type }) => type === "registry_changed"),
        { type: "registry_relisted" },
      ];
      const told = this.log.rowsOf({ ...registry, registry: registry.name, at }, changes);
      const written = told ?? this.log.rowsOf({ ...registry, registry: registry.name, at }, relisted)!;
      for (const [name, row] of written) rows.set(name, row);
    }
    return rows.set(rowOf(registry.admin), this.registries.row(registry));
  }

  /** Registries that went, and that replicas still have those that are here. */
  private writeConfigured(time: Instant): MergedRows {
    const { forgotten, gone, seen } = this.registries.review(time);
    if (forgotten !== undefined) return { rows: new Map([[rowOf(forgotten), undefined]]), isQuiet: true };
    if (gone !== undefined) return { rows: this.rowsFor(gone, [{ type: "registry_removed" }], time) };
    if (seen === undefined) return NOTHING;
    return { rows: new Map(seen.map((each) => [rowOf(each.admin), this.registries.row(each)])), isQuiet: true };
  }
}

const NOTHING: MergedRows = { rows: new Map() };
