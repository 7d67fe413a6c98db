import { isDeepStrictEqual } from "node:util";
import { Abort, type CancelTimer, type Clock, type Duration } from "../clock.ts";
import type { Config, DiscoveryConfig } from "../config/schema.ts";
import type { FileWatcher } from "../config/watched-files.ts";
import type { SharedRows } from "../sharing/ports.ts";
import type { FoundRegistries, FoundRegistry } from "../upstream/found.ts";
import { aliasFrom } from "../config/upstream-names.ts";
import { type Candidate, isUsed, judge, type Offer, pinOf, problemOf } from "./candidate.ts";
import { Candidates } from "./candidates.ts";
import { GatheredPins } from "./gathered-pins.ts";
import type { DiscoveryDecision, DiscoveryObserver, DiscoveryReport } from "./report.ts";
import { isSameSet, type Pin, proposalDigest } from "./pin.ts";
import { type KnownPins, Pins } from "./pins.ts";
import { mendings, type Proof, Prober } from "./prober.ts";
import { SourceReadings } from "./source-readings.ts";
import { createSources } from "./sources.ts";

export interface SearchOptions {
  readonly clock: Clock;
  readonly files: FileWatcher;
  /** From 0 to 1, as Math.random. */
  readonly random: () => number;
  readonly observer: DiscoveryObserver;
  /** What replicas share; undefined: this one is alone. */
  readonly shared: SharedRows | undefined;
  /** Upstreams of the configuration in use, which win. */
  readonly written: () => Config["upstreams"];
  /** What was pinned by the configuration before; undefined: there was none. */
  readonly known: KnownPins | undefined;
  /** Has what was found used from now on, and nothing else that was found. */
  readonly use: (found: FoundRegistries) => Promise<void>;
}

const FIRST_RETRY: Duration = 5_000;
/** Another replica may decide about the same registry at the same time. */
const DECISION_ROUNDS = 3;

/**
 * Finds registries by the sources of one configuration, pins what it finds first, and has it used. What changes later
 * waits, as `approve` says. It never takes anything away by itself.
 */
export class Search {
  private readonly options: SearchOptions;
  private readonly config: DiscoveryConfig;
  private readonly pins: Pins;
  private readonly readings: SourceReadings;
  private readonly candidates: Candidates;
  private readonly prober: Prober;
  private readonly closing = new Abort();
  private readonly taken: GatheredPins;
  private used: FoundRegistries | undefined;
  private cancelTimer: CancelTimer = () => undefined;
  private hasRun = false;

  constructor(config: DiscoveryConfig, limits: Config["limits"], options: SearchOptions) {
    const { clock, files, observer, shared, written, known } = options;
    const { every, allowPrivate, defaults, pinFile } = config;
    this.options = options;
    this.config = config;
    const sources = createSources(config.sources, { clock, allowPrivate });
    observer.sources(
      sources.map(({ name }) => name),
      every,
    );
    this.readings = new SourceReadings(sources, clock, observer);
    this.prober = new Prober({ clock, files, limits, defaults, allowPrivate });
    const changed = () => void this.apply();
    this.pins = new Pins({
      clock,
      files,
      shared,
      file: pinFile,
      known,
      onChange: changed,
      onKept: (fault) => observer.pinFile(fault),
      onBegunAnew: (fromRedis) => observer.pinsBegunAnew(fromRedis),
    });
    this.taken = new GatheredPins(clock, async (batch) => {
      await this.pins.put(batch);
      for (const pin of batch) this.reportPinned(pin);
      await this.apply();
    });
    this.candidates = new Candidates({
      config,
      pins: this.pins,
      written,
      areSourcesRead: () => this.readings.areRead,
      time: () => this.time(),
    });
  }

  /** Reads the pins and has them used: at a start before any request comes. Never rejects. */
  async open(): Promise<void> {
    await this.pins.open();
    await this.apply();
  }

  /** Reads the sources, now and again and again; `failures` readings before this one were not whole. */
  start(failures = 0): void {
    let next = failures + 1;
    void this.run()
      .then((isWhole) => {
        if (isWhole) next = 0;
      })
      .finally(() => this.schedule(next));
  }

  async close(): Promise<void> {
    this.closing.abort();
    this.cancelTimer();
    await this.pins.close();
    this.prober.close();
  }

  get pinned(): KnownPins {
    return this.pins.known;
  }

  report(): DiscoveryReport {
    return {
      sources: this.readings.report(),
      registries: this.candidates.report(),
      pinFileError: this.pins.fileFault ?? null,
    };
  }

  isShared(): boolean {
    return this.pins.areShared;
  }

  /** Does what an operator decided. @throws GatewayError as {@link Candidates.decide} */
  async decide(admin: string, approve: boolean, seen?: readonly string[]): Promise<DiscoveryDecision> {
    for (let round = 1; ; round += 1) {
      const pin = this.candidates.decide(admin, approve, seen);
      const reach = await this.pins.put([pin]);
      const isTaken = isDeepStrictEqual(this.pins.get(admin), pin);
      if (!isTaken && round < DECISION_ROUNDS) continue;
      if (isUsed(pin)) this.reportPinned(pin);
      await this.apply();
      return { registry: this.candidates.reportOf(admin) ?? null, reach };
    }
  }

  /** Reads the sources once, and waits for what comes of it: whether all were read and all proved. Never rejects. */
  async run(): Promise<boolean> {
    const signal = this.closing;
    const { observer } = this.options;
    await this.pins.recheck();
    await this.readings.read(signal);
    if (signal.aborted) return false;
    const listed = this.candidates.note(this.readings.offers((admin) => this.pins.get(admin)?.source));
    const { surplus } = this.candidates;
    if (surplus > 0) observer.tooMany(this.config.max, this.config.max + surplus);
    this.prober.begin();
    // What was asked longest ago comes first: what a host got no question about comes before what it was asked already.
    const inTurn = listed.toSorted((a, b) => a.asked - b.asked);
    const left = await Promise.all(inTurn.map((candidate) => this.consider(candidate)));
    const unasked = left.reduce((sum, each) => sum + each, 0);
    if (unasked > 0) observer.unasked(unasked);
    await this.taken.settled();
    if (signal.aborted) return false;
    this.hasRun = true;
    const isPartial =
      this.readings.faults > 0 || unasked > 0 || listed.some(({ proof }) => problemOf(proof) !== undefined);
    await this.apply();
    const isFailure = this.readings.faults === this.readings.size;
    observer.ran(isFailure ? "failure" : isPartial ? "partial" : "success");
    return !isPartial;
  }

  private schedule(failures: number): void {
    if (this.closing.aborted) return;
    const { clock, random } = this.options;
    const retry = failures === 0 ? Infinity : FIRST_RETRY * 2 ** Math.min(failures - 1, 20);
    // Replicas that start together do not ask together for ever.
    const pause = Math.min(this.config.every * (0.95 + random() * 0.1), retry);
    this.cancelTimer = clock.after(pause, () => this.start(failures));
  }

  /** Asks what has to be asked, and takes what may be taken. Returns how many URLs were not asked: their hosts were asked enough. */
  private async consider(candidate: Candidate): Promise<number> {
    const { admin, offer } = candidate;
    if (offer === undefined) return 0;
    let unasked = 0;
    // What said nothing the last time is asked again; until it has answered, that is what is known.
    const isOpen = problemOf(candidate.proof) !== undefined;
    let judgement = this.judge(isOpen ? { ...candidate, proof: undefined } : candidate);
    if (judgement === "prove") {
      const proof = await this.prove(candidate, offer.urls);
      unasked = proof.unasked;
      if (this.closing.aborted || candidate.offer !== offer) return unasked;
      // Of one that was not asked at all this time, it is known what it said before.
      if (proof.unasked < offer.urls.length || candidate.proof === undefined) candidate.proof = proof;
      judgement = this.judge(candidate);
    } else if (judgement === "keep") {
      unasked = await this.mendPinned(candidate);
    }
    if (judgement === "take") {
      this.taken.add(
        pinOf(candidate, offer, { proof: candidate.proof!, before: this.pins.get(admin), since: this.time() }),
      );
    }
    this.reportLooked(candidate, offer, judgement === "wait");
    return unasked;
  }

  private reportPinned({ name, admin, source, urls, mended }: Pin): void {
    const { observer } = this.options;
    observer.pinned({ name, admin, source, nodes: urls.length }, proposalDigest(urls));
    for (const url of mended) observer.mended({ name, admin }, url);
  }

  /** What came of looking at a registry. */
  private reportLooked(candidate: Candidate, { source, urls }: Offer, isWaiting: boolean): void {
    const { observer } = this.options;
    const { name, admin, proof } = candidate;
    if (isWaiting) observer.waiting({ name, admin, source, nodes: urls.length });
    const [named] = proof?.strangers.values() ?? [];
    if (named !== undefined) observer.stranger({ name, admin }, named);
    // One that was not asked at all is said with all of them.
    const problem = proof?.unasked === urls.length ? undefined : problemOf(proof);
    if (problem !== undefined) observer.unproved({ name, admin }, problem);
  }

  private judge(candidate: Candidate) {
    return judge(candidate, this.pins.get(candidate.admin), this.config.approve, this.pins.isWhole);
  }

  /**
   * Asks those URLs of a pinned registry that another admin answered at, or that may be published wrongly. Returns how many were
   * not asked.
   */
  private async mendPinned(candidate: Candidate): Promise<number> {
    const { admin, offer, proved } = candidate;
    const pin = this.pins.get(admin);
    if (!isUsed(pin) || offer === undefined || !isSameSet(pin.published, offer.urls)) return 0;
    const open = pin.published.filter((url) => {
      if (proved.has(url) || pin.mended.some(({ from }) => from === url)) return false;
      return !pin.urls.includes(url) || mendings(url).length > 0;
    });
    if (open.length === 0) return 0;
    const proof = await this.prove(candidate, open);
    if (this.closing.aborted || this.pins.get(admin) !== pin) return proof.unasked;
    const wrong = new Set(proof.mended.map(({ from }) => from));
    const urls = [...new Set([...pin.urls.filter((url) => !wrong.has(url)), ...proof.proved])].toSorted();
    if (!isSameSet(urls, pin.urls)) {
      this.taken.add({ ...pin, version: pin.version + 1, urls, mended: [...pin.mended, ...proof.mended] });
    }
    return proof.unasked;
  }

  private async prove(candidate: Candidate, urls: readonly string[]): Promise<Proof> {
    const proof = await this.prober.prove(candidate.admin, urls);
    for (const url of proof.proved) candidate.proved.add(url);
    if (proof.unasked < urls.length) candidate.asked = this.options.clock.now();
    return proof;
  }

  /** Has used what is pinned now. Never rejects. */
  private async apply(): Promise<void> {
    const { observer, use } = this.options;
    if (this.closing.aborted) return;
    observer.registries(this.candidates.count());
    const names = new Set<string>();
    const registries = this.pins.all().flatMap((pin): FoundRegistry[] => {
      if (!isUsed(pin)) return [];
      // Replicas that found two registries apart may have given both the same alias.
      const name = names.has(pin.name) ? aliasFrom(pin.name, (each) => names.has(each)) : pin.name;
      names.add(name);
      return [{ name, admin: pin.admin, urls: pin.urls }];
    });
    const found = { registries, isComplete: this.hasRun && this.readings.areRead };
    if (isDeepStrictEqual(found, this.used)) return;
    this.used = found;
    try {
      await use(found);
    } catch (error) {
      // The next run tries again.
      if (this.used === found) this.used = undefined;
      observer.failed(error instanceof Error ? error.message : String(error));
    }
  }

  private time(): string {
    return new Date(this.options.clock.wallNow()).toISOString();
  }
}
