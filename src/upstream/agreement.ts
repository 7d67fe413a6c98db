import { AT_ONCE, type BodyReader } from "../bodies/body-reader.ts";
import { differences, type Meaning, meaningOf } from "../bodies/meaning.ts";
import { Abort, type Clock, type Duration, sleep } from "../clock.ts";
import type { UpstreamConfig } from "../config/schema.ts";
import { clientGone, GatewayError } from "../errors.ts";
import { filterFields } from "../fields.ts";
import { isCached, type Operation } from "../spec/operations.ts";
import type { Poll, UpstreamAnswer, UpstreamCall } from "./call.ts";

/** A node that differs may be late with what is new: it is asked once more, after so long. */
const ASK_AGAIN_AFTER: Duration = 250;
/** Differences that are reported. */
const MOST_DIFFERENCES = 10;

/** How many nodes have to say the same before an answer to this operation leaves. */
export function neededFor({ agreement }: Pick<UpstreamConfig, "agreement">, operation: Operation): number {
  if (operation === "pass_through") return 1;
  return isCached(operation) ? agreement.metadata : agreement.contexts;
}

/** What is known while nodes are asked. */
export interface AgreementState {
  readonly needed: number;
  /** By node: a digest of what it says, the last time it was asked. */
  readonly votes: ReadonlyMap<number, string>;
  /** Asked, and not answered yet. */
  readonly pending: number;
  /** Nodes that may be asked and were not. */
  readonly left: number;
  /** Those that were asked a second time. */
  readonly askedAgain: ReadonlySet<number>;
}

export type AgreementStep =
  /** So many say this that it is the answer. */
  | { readonly step: "answer"; readonly vote: string }
  /** So many more nodes are to be asked. */
  | { readonly step: "ask"; readonly count: number }
  /** These nodes are to be asked once more. */
  | { readonly step: "again"; readonly nodes: readonly number[] }
  | { readonly step: "wait" }
  | { readonly step: "give-up" };

/** What is next: as few questions as can still bring an agreement, and one more for each that fails or differs. */
export function decideAgreement({ needed, votes, pending, left, askedAgain }: AgreementState): AgreementStep {
  const counts = new Map<string, number>();
  for (const vote of votes.values()) counts.set(vote, (counts.get(vote) ?? 0) + 1);
  const most = Math.max(0, ...counts.values());
  const leaders = [...counts.keys()].filter((vote) => counts.get(vote) === most);
  if (most >= needed) return { step: "answer", vote: leaders[0]! };
  const missing = needed - most - pending;
  if (missing > 0 && left > 0) return { step: "ask", count: Math.min(missing, left) };
  if (pending > 0) return { step: "wait" };
  // All nodes were asked. Those that differ from the most may have been late, and after them the most.
  const others = [...votes.keys()].filter((node) => !askedAgain.has(node));
  const late = others.filter((node) => leaders.length > 1 || votes.get(node) !== leaders[0]);
  const nodes = late.length > 0 ? late : others;
  return nodes.length > 0 && votes.size >= needed ? { step: "again", nodes } : { step: "give-up" };
}

/**
 * `agreed`: enough nodes said the same · `disagreed`: too few did · `unanswered`: no node said anything · `same` and
 * `different`: what one more node said when the answer had gone out.
 */
export const AGREEMENT_OUTCOMES = ["agreed", "disagreed", "unanswered", "same", "different"] as const;
type AgreementOutcome = (typeof AGREEMENT_OUTCOMES)[number];

/** What came of asking several nodes. */
export interface AgreementResult {
  readonly operation: Operation;
  readonly outcome: AgreementOutcome;
  readonly questions: number;
  /** From the first answer to the agreement, or to its failure. */
  readonly waited: Duration;
}

/** Nodes that say something else. */
export interface Difference {
  readonly operation: Operation;
  /** Their places in the configured list, grouped by what they say. */
  readonly nodes: readonly (readonly number[])[];
  /** The parts of the answer in which they differ; ids as digests. */
  readonly parts: readonly string[];
}

export interface AgreementParts {
  readonly upstream: string;
  readonly clock: Clock;
  readonly bodies: BodyReader;
  /** Resolves when so many nodes take calls, or all that may yet have been asked. */
  readonly whenOpen: (count: number, until: Pick<UpstreamCall, "deadline" | "signal">) => Promise<void>;
  /** What a call gets when no node may be asked. */
  readonly whyNone: () => GatewayError;
  /** Places of the nodes that take calls. */
  readonly openNodes: () => readonly number[];
  /** Asks the node that `call.poll` lets be asked. */
  readonly ask: (call: UpstreamCall) => Promise<UpstreamAnswer>;
  readonly onResult: (result: AgreementResult) => void;
  readonly onDifference: (difference: Difference) => void;
}

interface Vote {
  readonly key: string;
  readonly meaning: Meaning;
  readonly answer: UpstreamAnswer;
}

/**
 * The answer that `needed` nodes give: so many are asked at once, and one more for each that fails or differs. The bytes are
 * those of the first of them.
 *
 * @throws GatewayError 502 `nodes_disagree`; where no node answered, what the last of them failed with
 */
export async function askSeveral(parts: AgreementParts, call: UpstreamCall, needed: number): Promise<UpstreamAnswer> {
  const { deadline, signal } = call;
  await parts.whenOpen(needed, { deadline, signal });
  const poll = new Ballot(parts, call);
  call.signal?.addEventListener("abort", poll.stop);
  try {
    for (;;) {
      if (call.signal?.aborted === true) throw clientGone();
      const next = decideAgreement({ needed, ...poll.state() });
      if (next.step === "answer") return poll.concluded("agreed", next.vote);
      if (next.step === "give-up") return poll.concluded(poll.votes.size > 0 ? "disagreed" : "unanswered", undefined);
      if (next.step === "ask") for (let i = 0; i < next.count; i += 1) poll.ask();
      if (next.step === "again") for (const node of next.nodes) poll.askAgain(node);
      await poll.whenAnswered();
    }
  } finally {
    call.signal?.removeEventListener("abort", poll.stop);
    poll.stop();
  }
}

/** The questions of one call to several nodes, and their answers. */
class Ballot {
  /** By node, in the order of their first answers. */
  readonly votes = new Map<number, Vote>();
  private readonly parts: AgreementParts;
  private readonly call: UpstreamCall;
  private readonly asked = new Set<number>();
  private readonly askedAgain = new Set<number>();
  private readonly end = new Abort();
  /** Questions that wait for their answers. */
  private readonly pending = new Set<Poll>();
  private questions = 0;
  private firstAt: number | undefined;
  /** Of the last question without a vote. */
  private failure: { readonly error?: unknown; readonly answer?: UpstreamAnswer } = {};
  private isFull = false;
  private wake: () => void = () => undefined;

  constructor(parts: AgreementParts, call: UpstreamCall) {
    this.parts = parts;
    this.call = { ...withoutConditions(call), pagination: undefined, signal: this.end };
  }

  /** What the next step depends on. */
  state(): Omit<AgreementState, "needed"> {
    const { pending, asked } = this;
    const open = this.parts.openNodes().filter((node) => !asked.has(node)).length;
    const unplaced = [...pending].filter(({ node }) => node === undefined).length;
    return {
      votes: new Map([...this.votes].map(([node, { key }]) => [node, key])),
      pending: pending.size,
      left: this.isFull ? 0 : Math.max(0, open - unplaced),
      askedAgain: this.askedAgain,
    };
  }

  readonly stop = (): void => this.end.abort();

  /** Resolves when a question has found its end. */
  whenAnswered(): Promise<void> {
    return new Promise((resolve) => {
      this.wake = resolve;
    });
  }

  /** Asks a node that was not asked. */
  ask(): void {
    void this.put({ asked: this.asked, only: undefined, node: undefined }, 0);
  }

  /** Asks a node once more, a moment later. */
  askAgain(node: number): void {
    this.askedAgain.add(node);
    void this.put({ asked: new Set(), only: node, node }, ASK_AGAIN_AFTER);
  }

  /** The answer that is given, or the error; either is reported. */
  concluded(outcome: AgreementResult["outcome"], key: string | undefined): UpstreamAnswer {
    const { parts, call, votes, questions } = this;
    const { operation } = call;
    const waited = this.firstAt === undefined ? 0 : parts.clock.now() - this.firstAt;
    parts.onResult({ operation, outcome, questions, waited });
    const groups = Map.groupBy(votes.values(), (vote) => vote.key);
    if (groups.size > 1) parts.onDifference(differenceOf(operation, [...groups.values()]));
    if (key !== undefined) return groups.get(key)![0]!.answer;
    if (outcome === "disagreed") throw disagreement(parts.upstream);
    if (this.failure.answer !== undefined) return this.failure.answer;
    throw this.failure.error ?? parts.whyNone();
  }

  private async put(poll: Poll, after: Duration): Promise<void> {
    const { parts, pending } = this;
    pending.add(poll);
    try {
      if (after > 0) await sleep(after, parts.clock);
      this.questions += 1;
      const answer = await parts.ask({ ...this.call, poll });
      this.firstAt ??= parts.clock.now();
      if (isBusy(answer)) this.failure = { answer };
      // One node has one vote: what it said last.
      else this.votes.set(answer.node, await voteOf(parts, this.call.operation, answer));
    } catch (error) {
      this.failure = { error };
      // There is no room, no call left or no node: others would find none either.
      if (poll.node === undefined) this.isFull = true;
    }
    pending.delete(poll);
    this.wake();
  }
}

async function voteOf(parts: AgreementParts, operation: Operation, answer: UpstreamAnswer): Promise<Vote> {
  const { status, body } = answer;
  const said = status === 200 ? await readMeaning(parts, operation, body) : {};
  const meaning = { ...said, status: String(status) };
  return { key: JSON.stringify(meaning), meaning, answer };
}

function differenceOf(operation: Operation, groups: readonly (readonly Vote[])[]): Difference {
  const [first, ...others] = groups.map((group) => group[0]!.meaning);
  const names = others.flatMap((meaning) => differences(first!, meaning, MOST_DIFFERENCES));
  return {
    operation,
    nodes: groups.map((group) => group.map(({ answer }) => answer.node)),
    parts: [...new Set(names)].slice(0, MOST_DIFFERENCES),
  };
}

/** Asks one more node when an answer has gone out, and reports whether it means the same. Never rejects. */
export async function compareWithAnother(
  parts: AgreementParts,
  call: UpstreamCall,
  answer: UpstreamAnswer,
): Promise<void> {
  const { operation } = call;
  const poll: Poll = { asked: new Set([answer.node]), only: undefined, node: undefined };
  try {
    const other = await parts.ask({ ...withoutConditions(call), poll });
    if (isBusy(other)) return;
    const [said, otherSaid] = [await voteOf(parts, operation, answer), await voteOf(parts, operation, other)];
    const isSame = said.key === otherSaid.key;
    parts.onResult({ operation, outcome: isSame ? "same" : "different", questions: 1, waited: 0 });
    if (!isSame) parts.onDifference(differenceOf(operation, [[said], [otherSaid]]));
  } catch {
    // A node that does not answer says nothing about the one that did.
  }
}

const CONDITIONS: ReadonlySet<string> = new Set(["if-none-match", "if-modified-since"]);

/** A condition is about what one node sent: each of them has to send all it has to say. */
function withoutConditions(call: UpstreamCall): UpstreamCall {
  return { ...call, fields: filterFields(call.fields, (name) => !CONDITIONS.has(name)) };
}

/** What an answer means; a large one is read in another thread. */
function readMeaning({ bodies, upstream }: AgreementParts, operation: Operation, body: Buffer) {
  if (body.length <= AT_ONCE) return meaningOf(operation, body);
  return bodies.read({ kind: "meaning", operation }, body, { source: upstream });
}

/** It says nothing of what was asked, and another node may. */
function isBusy({ status }: UpstreamAnswer): boolean {
  return status === 429 || (status > 500 && status < 505);
}

function disagreement(upstream: string): GatewayError {
  const text = `the nodes of upstream "${upstream}" do not say the same, and so many must (agreement); try again later`;
  return new GatewayError("nodes_disagree", text);
}
