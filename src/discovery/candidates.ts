import { quote } from "../json.ts";
import type { Config, DiscoveryConfig } from "../config/schema.ts";
import { GatewayError } from "../errors.ts";
import { aliasFrom, normaliseParty } from "../config/upstream-names.ts";
import { type Candidate, isUsed, type Offer, pinOf, problemOf, proposalOf, reportOf } from "./candidate.ts";
import { isSameSet, type Pin, refuse } from "./pin.ts";
import type { Pins } from "./pins.ts";
import { type RegistryReport, type RegistryState, REGISTRY_STATES } from "./report.ts";

export interface CandidatesOptions {
  readonly config: Pick<DiscoveryConfig, "max">;
  readonly pins: Pins;
  /** Upstreams of the configuration in use, which win. */
  readonly written: () => Config["upstreams"];
  /** Each source was read at least once: what none lists is listed nowhere. */
  readonly areSourcesRead: () => boolean;
  /** Now (RFC 3339). */
  readonly time: () => string;
}

/** The registries that are listed or used, with what is known of each. */
export class Candidates {
  private readonly options: CandidatesOptions;
  private readonly listed = new Map<string, Candidate>();
  /** Registries that are listed beyond those that may be used. */
  surplus = 0;

  constructor(options: CandidatesOptions) {
    this.options = options;
  }

  /** Takes down what is listed now. Returns those that are. */
  note(offers: Map<string, Offer>): Candidate[] {
    const { pins, config } = this.options;
    const written = this.writtenAdmins();
    for (const admin of offers.keys()) if (written.has(normaliseParty(admin))) offers.delete(admin);
    let free = config.max - pins.all().filter(isUsed).length;
    this.surplus = 0;
    for (const admin of offers.keys()) {
      if (isUsed(pins.get(admin))) continue;
      free -= 1;
      if (free >= 0) continue;
      offers.delete(admin);
      this.surplus += 1;
    }
    for (const [admin, candidate] of this.listed) {
      candidate.offer = offers.get(admin) && candidate.offer;
      if (candidate.offer === undefined && !isUsed(pins.get(admin))) this.listed.delete(admin);
    }
    const candidates = [...offers].map(([admin, offer]) => this.noteOffer(admin, offer));
    const known = new Set([...pins.all().filter(isUsed), ...candidates].map(({ admin }) => admin));
    const spellings = Map.groupBy(known, normaliseParty);
    for (const candidate of candidates) {
      const { admin } = candidate;
      candidate.twin = spellings.get(normaliseParty(admin))!.find((each) => each !== admin);
    }
    return candidates;
  }

  /** What is used, the oldest first, and then what is only listed. */
  all(): (readonly [Candidate, Pin | undefined])[] {
    const written = this.writtenAdmins();
    const used = this.options.pins.all().filter((pin) => isUsed(pin) && !written.has(normaliseParty(pin.admin)));
    const admins = new Set(used.map(({ admin }) => admin));
    const others = [...this.listed.values()].filter(({ admin, offer }) => !admins.has(admin) && offer !== undefined);
    return [
      ...used.map((pin) => [this.listed.get(pin.admin) ?? unlisted(pin), pin] as const),
      ...others.map((candidate) => [candidate, this.options.pins.get(candidate.admin)] as const),
    ];
  }

  report(): RegistryReport[] {
    return this.all().map(([candidate, pin]) => reportOf(candidate, pin, this.stateOf(candidate, pin)));
  }

  /** How many there are in each state. */
  count(): Record<RegistryState, number> {
    const states = this.all().map(([candidate, pin]) => this.stateOf(candidate, pin));
    const countOf = (state: RegistryState) => states.filter((each) => each === state).length;
    return Object.fromEntries(REGISTRY_STATES.map((state) => [state, countOf(state)])) as Record<RegistryState, number>;
  }

  /**
   * The pin that an operator's decision makes.
   *
   * @param seen what was listed when the operator looked; none where the registry was gone. Undefined: not said
   * @throws GatewayError 404 for an admin that is not known, 409 where nothing waits, something else does than was seen,
   * or nothing at the URLs has proved the admin
   */
  decide(admin: string, approve: boolean, seen?: readonly string[]): Pin {
    const [candidate, pin] = this.all().find(([each]) => each.admin === admin) ?? [];
    if (candidate === undefined) {
      throw new GatewayError("unknown_registry", `discovery has found no registry of the admin ${quote(admin)}`);
    }
    const state = this.stateOf(candidate, pin);
    const since = this.options.time();
    if (seen !== undefined && !isSameSet(candidate.offer?.urls ?? [], [...new Set(seen)].toSorted())) {
      const text = `the entry for ${quote(admin)} has changed since you looked, and nothing is decided; look at it again`;
      throw new GatewayError("nothing_waits", text);
    }
    if (state === "gone" && approve) {
      return { ...pin!, version: pin!.version + 1, published: [], urls: [], mended: [], since };
    }
    const { offer, proof } = candidate;
    if (offer === undefined || !isOpen(offer, pin) || (!approve && proposalOf(candidate, pin) === undefined)) {
      const text = `nothing about the registry of ${quote(admin)} waits for a decision: its state is ${state}`;
      throw new GatewayError("nothing_waits", text);
    }
    if (!approve) return refuse(pin ?? noPin(candidate, offer.source, since), offer.urls);
    if (proof === undefined || proof.proved.length === 0) {
      const why = problemOf(proof) ?? "they were not asked yet";
      const text = `none of the URLs that are listed for ${quote(admin)} has proved this admin, and nothing is changed: ${why}`;
      throw new GatewayError("registry_unproved", text);
    }
    return pinOf(candidate, offer, { proof, before: pin, since });
  }

  /** A registry as people see it. */
  reportOf(admin: string): RegistryReport | undefined {
    return this.report().find((each) => each.admin === admin);
  }

  private noteOffer(admin: string, offer: Offer): Candidate {
    const candidate = this.listed.get(admin) ?? this.begin(admin);
    const isSame = candidate.offer !== undefined && isSameSet(candidate.offer.urls, offer.urls);
    if (!isSame)
      Object.assign(candidate, { since: this.options.time(), proof: undefined, asked: -Infinity, steady: 0 });
    candidate.offer = offer;
    if (offer.isRead) candidate.steady += 1;
    return candidate;
  }

  private begin(admin: string): Candidate {
    const { pins, written, time } = this.options;
    const names = new Set([
      ...written().flatMap((upstream) => [upstream.name, upstream.admin]),
      ...pins.all().map(({ name }) => name),
      ...[...this.listed.values()].map(({ name }) => name),
    ]);
    const name = pins.get(admin)?.name ?? aliasFrom(admin, (each) => names.has(each));
    const candidate = { ...unlisted({ admin, name, since: time() }) };
    this.listed.set(admin, candidate);
    return candidate;
  }

  private writtenAdmins(): ReadonlySet<string | undefined> {
    return new Set(this.options.written().map(({ admin }) => admin && normaliseParty(admin)));
  }

  private stateOf(candidate: Candidate, pin: Pin | undefined): RegistryState {
    const hasProposal = proposalOf(candidate, pin) !== undefined;
    if (isUsed(pin)) {
      // Before each source was read, it is not known that none lists it.
      if (candidate.offer === undefined) return this.options.areSourcesRead() ? "gone" : "pinned";
      // Until its URLs were asked there is nothing to decide.
      return hasProposal && candidate.proof !== undefined ? "waiting" : "pinned";
    }
    const isProved = candidate.proof !== undefined && candidate.proof.proved.length > 0;
    return isProved && hasProposal ? "waiting" : "found";
  }
}

/** Something else is listed than is used. */
function isOpen(offer: Offer, pin: Pin | undefined): boolean {
  return offer.urls.length > 0 && !(isUsed(pin) && isSameSet(pin.published, offer.urls));
}

/** A registry that no source lists. */
function unlisted({ admin, name, since }: Pick<Pin, "admin" | "name" | "since">): Candidate {
  const unasked = { offer: undefined, proof: undefined, proved: new Set<string>(), asked: -Infinity, steady: 0 };
  return { admin, name, since, ...unasked, twin: undefined };
}

/** What is refused before it was ever used. */
function noPin({ admin, name }: Candidate, source: string, since: string): Pin {
  return { admin, name, version: 0, published: [], urls: [], mended: [], refused: [], source, since };
}
