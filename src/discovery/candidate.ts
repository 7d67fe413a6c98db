import type { Instant } from "../clock.ts";
import type { DiscoveryConfig } from "../config/schema.ts";
import { isRefused, isSameSet, type Pin } from "./pin.ts";
import type { Proof } from "./prober.ts";
import type { RegistryReport, RegistryState } from "./report.ts";

/** What a source says of one admin. */
export interface Offer {
  /** As published, in normal form, sorted. */
  readonly urls: readonly string[];
  readonly source: string;
  /** It was read this time; else it is what the source said before. */
  readonly isRead: boolean;
}

/** An admin as this process knows it besides its pin. */
export interface Candidate {
  readonly admin: string;
  /** The alias it has, or would get. */
  readonly name: string;
  /** When it was seen first, or when its offer changed last (RFC 3339). */
  since: string;
  /** Undefined: no source lists it now. */
  offer: Offer | undefined;
  /** What came of asking the URLs of the offer. */
  proof: Proof | undefined;
  /** URLs at which the admin was proved, as long as this process knows it. */
  readonly proved: Set<string>;
  /** When a URL of it was asked last; `-Infinity`: never. */
  asked: Instant;
  /** Readings in a row in which the offer was the same. */
  steady: number;
  /** Another spelling of the same admin that is used, or listed, too: either may be a stranger's with the other's name. */
  twin: string | undefined;
}

type Approve = DiscoveryConfig["approve"];

/**
 * What is to be done about a candidate. `keep`: nothing. `take`: its offer is used from now on. `wait`: for an operator.
 * `prove`: its URLs have to be asked first.
 */
export type Judgement = "keep" | "take" | "wait" | "prove";

/** Runs in which a changed URL has to be the same before it is followed by itself: a list that goes back and forth changes nothing. */
const STEADY = 2;

/**
 * Decides by the pin and the offer alone; what was never proved is never taken.
 *
 * @param isWhole false: the pins of before cannot be read, so that nothing is known to be new
 */
export function judge(candidate: Candidate, pin: Pin | undefined, approve: Approve, isWhole: boolean): Judgement {
  const { offer, proof, steady } = candidate;
  if (offer === undefined || offer.urls.length === 0 || isSettled(pin, offer)) return "keep";
  if (proof === undefined) return "prove";
  if (proof.proved.length === 0 || isRefused(pin, offer.urls)) return "keep";
  if (!isUsed(pin)) {
    // One that an operator refused or took away is nothing new.
    const isNew = pin === undefined && isWhole;
    if (candidate.twin !== undefined) return "wait";
    return approve === "all" ? "take" : approve === "new" && isNew ? "take" : "wait";
  }
  return approve === "all" && steady >= STEADY ? "take" : "wait";
}

/** The registry is used. */
export function isUsed(pin: Pin | undefined): pin is Pin {
  return pin !== undefined && pin.urls.length > 0;
}

/** What is listed is what was pinned. */
function isSettled(pin: Pin | undefined, offer: Offer): boolean {
  return isUsed(pin) && isSameSet(pin.published, offer.urls);
}

/** What is listed differs from what is used, and was not refused: what an operator may approve. */
export function proposalOf({ offer, since }: Candidate, pin: Pin | undefined): RegistryReport["proposed"] {
  if (offer === undefined || offer.urls.length === 0 || isSettled(pin, offer) || isRefused(pin, offer.urls))
    return undefined;
  return { urls: offer.urls, since, source: offer.source };
}

interface Decision {
  readonly proof: Proof;
  /** What was decided before. */
  readonly before: Pin | undefined;
  readonly since: string;
}

/** The pin that an offer becomes. */
export function pinOf(candidate: Candidate, offer: Offer, { proof, before, since }: Decision): Pin {
  const { admin, name } = candidate;
  // What said nothing may be a node that is down. It is asked again before it gets a request, as every node is.
  const urls = [...new Set([...proof.proved, ...proof.silent.keys()])].toSorted();
  return {
    admin,
    name: before?.name ?? name,
    version: (before?.version ?? 0) + 1,
    published: [...offer.urls],
    urls,
    mended: [...proof.mended],
    refused: before?.refused ?? [],
    source: offer.source,
    since,
  };
}

/** A candidate as people see it. */
export function reportOf(candidate: Candidate, pin: Pin | undefined, state: RegistryState): RegistryReport {
  const proposed = proposalOf(candidate, pin);
  const { offer, proof } = candidate;
  const mended = isUsed(pin) ? pin.mended : (proof?.mended ?? []);
  const isOpen = state === "found" || proposed !== undefined;
  const problem = faultOf(offer) ?? (isOpen ? (problemOf(proof) ?? twinOf(candidate)) : undefined);
  return {
    admin: candidate.admin,
    name: pin?.name ?? candidate.name,
    urls: isUsed(pin) ? pin.urls : [],
    state,
    ...(proposed !== undefined && { proposed }),
    ...(mended.length > 0 && { mended }),
    source: isUsed(pin) ? pin.source : (offer?.source ?? ""),
    since: isUsed(pin) ? pin.since : candidate.since,
    ...(problem !== undefined && { problem }),
  };
}

function twinOf({ twin }: Candidate): string | undefined {
  return twin && `the same admin is known as ${twin} too: an operator has to say which of them is the registry's`;
}

function faultOf(offer: Offer | undefined): string | undefined {
  if (offer?.urls.length !== 0) return undefined;
  return "none of its URLs begins with https://, and discovery.allowPrivate is not set";
}

/** Why nothing has proved the admin. */
export function problemOf(proof: Proof | undefined): string | undefined {
  if (proof === undefined || proof.proved.length > 0) return undefined;
  if (proof.strangers.size > 0) return "the registry of another admin answers at its URLs";
  const [why] = proof.silent.values();
  return why;
}
