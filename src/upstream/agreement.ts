import { LRUCache } from "lru-cache";
import { differences } from "../bodies/meaning.ts";
import { Abort, type CancelTimer, type Clock, type Duration, type Instant, sleep } from "../clock.ts";
import type { UpstreamConfig } from "../config/schema.ts";
import { clientGone, GatewayError } from "../errors.ts";
import { filterFields } from "../fields.ts";
import { cachedRecord, isCached, type Operation } from "../spec/operations.ts";
import type { Poll, UpstreamAnswer, UpstreamCall } from "./call.ts";
import { isVote, listingVote, type Vote, voteOf, type VoteParts } from "./votes.ts";

/** A node that differs may be late with what is new: it is asked once more, after so long. */
const ASK_AGAIN_AFTER: Duration = 250;
/** A node that has not answered for so long, or for half of what it may take, counts as one that failed. */
const LATE_AFTER: Duration = 1_000;
/** Paginations that are remembered. */
const MOST_PAGINATIONS = 4_096;
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
  /** Those of them beside which others are asked. */
  readonly late: number;
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

/** What is next: as few questions as can still bring an agreement, and one more for each that fails, differs or is late. */
export function decideAgreement({ needed, votes, pending, late, left, askedAgain }: AgreementState): AgreementStep {
  const counts = new Map<string, number>();
  for (const vote of votes.values()) counts.set(vote, (counts.get(vote) ?? 0) + 1);
  const most = Math.max(0, ...counts.values());
  const leaders = [...counts.keys()].filter((vote) => counts.get(vote) === most);
  if (most >= needed) return { step: "answer", vote: leaders[0]! };
  const missing = needed - most - (pending - late);
  if (missing > 0 && left > 0) return { step: "ask", count: Math.min(missing, left) };
  if (pending > 0) return { step: "wait" };
  // All nodes were asked. Those that differ from the most may know less, and after them the most.
  const others = [...votes.keys()].filter((node) => !askedAgain.has(node));
  const differing = others.filter((node) => leaders.length > 1 || votes.get(node) !== leaders[0]);
  const nodes = differing.length > 0 ? differing : others;
  return nodes.length > 0 && votes.size >= needed ? { step: "again", nodes } : { step: "give-up" };
}

/** What is next where enough nodes list the same, and the page that is asked for was cut by another. */
function findPage({ pending, left }: Pick<AgreementState, "pending" | "left">): AgreementStep {
  if (pending > 0) return { step: "wait" };
  return left > 0 ? { step: "ask", count: 1 } : { step: "give-up" };
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

export interface AgreementParts extends VoteParts {
  readonly clock: Clock;
  readonly attemptTimeout: Duration;
  /** Resolves when so many nodes take calls, or all that may yet have been asked. */
  readonly whenOpen: (count: number, until: Pick<UpstreamCall, "deadline" | "signal">) => Promise<void>;
  /** What a call gets when no node may be asked. */
  readonly whyNone: () => GatewayError;
  /** Places of the nodes that take calls. */
  readonly openNodes: () => readonly number[];
  /** Pays for a question beside one that is late, as for a retry; false where nothing is left. */
  readonly payForLate: () => boolean;
  readonly paginations: Paginations;
  readonly onResult: (result: AgreementResult) => void;
  readonly onDifference: (difference: Difference) => void;
}

/** Where the last page of a pagination was cut, and whether other nodes cut pages differently. */
interface Pagination {
  readonly node: number;
  readonly isCut: boolean;
}

/** By name. Of one that was forgotten nodes may refuse a token that others issued. */
export class Paginations extends LRUCache<string, Pagination> {
  constructor() {
    // A size of one each: with `max` each of hundreds of upstreams takes the memory of all at once.
    super({ maxSize: MOST_PAGINATIONS, sizeCalculation: () => 1 });
  }
}

/**
 * The answer that `needed` nodes give: so many are asked at once, and one more for each that fails or differs. The bytes are
 * those of the first of them. Where too few give the same page, it is one of a node whose whole listing they give.
 *
 * @throws GatewayError 502 `nodes_disagree`; where no node answered, what the last of them failed with
 */
export async function askSeveral(parts: AgreementParts, call: UpstreamCall, needed: number): Promise<UpstreamAnswer> {
  const { deadline, signal, operation, pagination = "" } = call;
  await parts.whenOpen(needed, { deadline, signal });
  const tally: Tally = { questions: 0, firstAt: undefined };
  const answers = new Ballot(parts, call, { tally, read: readAnswer });
  if (!isPage(operation)) {
    await answers.hold(needed, signal);
    return answers.conclude();
  }
  const known = parts.paginations.get(pagination);
  const listings = new Ballot(parts, call, { tally, read: listingVote, firstNode: known?.node });
  const [first, second] = known?.isCut === true ? [listings, answers] : [answers, listings];
  let found = (await first.hold(needed, signal)) ? first : undefined;
  // A token means something where it was issued: other nodes may refuse it.
  const isOpen = found === undefined ? first === listings || first.votes.size >= needed : known !== undefined;
  if (isOpen && found?.answer?.status !== 200 && (await second.hold(needed, signal))) found = second;
  if (found === undefined) {
    const contested = [listings, answers].find(({ votes, agreed }) => agreed === undefined && votes.size >= needed);
    return (contested ?? answers).conclude();
  }
  const answer = found.conclude();
  if (pagination !== "" && answer.status === 200) {
    parts.paginations.set(pagination, { node: answer.node, isCut: found === listings });
  }
  return answer;
}

function isPage(operation: Operation): boolean {
  return isCached(operation) && cachedRecord(operation).address === "page";
}

async function readAnswer(parts: VoteParts, call: UpstreamCall): Promise<Vote | UpstreamAnswer> {
  return voteOf(parts, call.operation, await parts.ask(call));
}

/** Of all ballots about one answer. */
interface Tally {
  questions: number;
  firstAt: Instant | undefined;
}

interface BallotMeans {
  readonly tally: Tally;
  /** Asks a node, and reads what it says; an answer without a meaning is given back. */
  readonly read: (parts: VoteParts, call: UpstreamCall) => Promise<Vote | UpstreamAnswer>;
  /** The one that is asked first. */
  readonly firstNode?: number | undefined;
}

/** The questions of one call to several nodes, and their answers. */
class Ballot {
  /** By node, in the order of their first answers. */
  readonly votes = new Map<number, Vote>();
  /** The vote that enough nodes gave. */
  agreed: string | undefined;
  private readonly parts: AgreementParts;
  private readonly call: UpstreamCall;
  private readonly means: BallotMeans;
  private readonly asked = new Set<number>();
  private readonly askedAgain = new Set<number>();
  private readonly end = new Abort();
  /** Questions that wait for their answers. */
  private readonly pending = new Set<Poll>();
  /** Those of them beside which others are asked. */
  private readonly late = new Set<Poll>();
  /** Of the last question without a vote. */
  private failure: { readonly error?: unknown; readonly answer?: UpstreamAnswer } = {};
  private isFull = false;
  private wake: () => void = () => undefined;

  constructor(parts: AgreementParts, call: UpstreamCall, means: BallotMeans) {
    this.parts = parts;
    this.means = means;
    this.call = { ...withoutConditions(call), pagination: undefined, signal: this.end };
  }

  /** Asks until enough nodes say the same, or it is known that they will not. Returns whether there is an answer. */
  async hold(needed: number, signal: UpstreamCall["signal"]): Promise<boolean> {
    const stop = (): void => {
      this.end.abort();
      this.wake();
    };
    signal?.addEventListener("abort", stop);
    try {
      for (;;) {
        if (signal?.aborted === true) throw clientGone();
        const state = this.state();
        const next = this.agreed === undefined ? decideAgreement({ needed, ...state }) : findPage(state);
        if (next.step === "answer") this.agreed = next.vote;
        if (this.answer !== undefined) return true;
        if (next.step === "answer") continue;
        if (next.step === "give-up") return false;
        if (next.step === "ask") for (let i = 0; i < next.count; i += 1) this.ask();
        if (next.step === "again") for (const node of next.nodes) this.askAgain(node);
        await this.whenAnswered();
      }
    } finally {
      signal?.removeEventListener("abort", stop);
      stop();
    }
  }

  /** The answer that is given, or the error; either is reported. */
  conclude(): UpstreamAnswer {
    const { parts, call, votes, answer, failure } = this;
    const { operation } = call;
    const { questions, firstAt } = this.means.tally;
    const outcome = answer !== undefined ? "agreed" : votes.size > 0 ? "disagreed" : "unanswered";
    const waited = firstAt === undefined ? 0 : parts.clock.now() - firstAt;
    parts.onResult({ operation, outcome, questions, waited });
    const groups = Map.groupBy(votes.values(), ({ key }) => key);
    if (groups.size > 1) parts.onDifference(differenceOf(operation, [...groups.values()]));
    if (answer !== undefined) return answer;
    if (votes.size > 0) throw disagreement(parts.upstream);
    if (failure.answer !== undefined) return failure.answer;
    throw failure.error ?? parts.whyNone();
  }

  /** That of the first node that said what is agreed, and has it. */
  get answer(): UpstreamAnswer | undefined {
    const { votes, agreed } = this;
    return [...votes.values()].find(({ key, answer }) => key === agreed && answer !== undefined)?.answer;
  }

  /** What the next step depends on. */
  private state(): Omit<AgreementState, "needed"> {
    const { pending, late, asked } = this;
    const open = this.parts.openNodes().filter((node) => !asked.has(node)).length;
    const unplaced = [...pending].filter(({ node }) => node === undefined).length;
    return {
      votes: new Map([...this.votes].map(([node, { key }]) => [node, key])),
      pending: pending.size,
      late: late.size,
      left: this.isFull ? 0 : Math.max(0, open - unplaced),
      askedAgain: this.askedAgain,
    };
  }

  /** Resolves when a question has found its end, or is late. */
  private whenAnswered(): Promise<void> {
    return new Promise((resolve) => {
      this.wake = resolve;
    });
  }

  /** Asks a node that was not asked. */
  private ask(): void {
    const { firstNode = -1 } = this.means;
    const isFirst = this.parts.openNodes().includes(firstNode) && !this.asked.has(firstNode) && this.pending.size === 0;
    void this.put({ asked: this.asked, only: isFirst ? firstNode : undefined, node: undefined }, 0);
  }

  /** Asks a node once more, a moment later. */
  private askAgain(node: number): void {
    this.askedAgain.add(node);
    void this.put({ asked: new Set(), only: node, node }, ASK_AGAIN_AFTER);
  }

  private async put(poll: Poll, after: Duration): Promise<void> {
    const { parts, pending, late } = this;
    const { tally, read } = this.means;
    pending.add(poll);
    let cancelLate: CancelTimer | undefined;
    try {
      if (after > 0) await sleep(after, parts.clock);
      else cancelLate = parts.clock.after(Math.min(LATE_AFTER, parts.attemptTimeout / 2), () => this.noteLate(poll));
      const said = await read(countQuestions(parts, tally), { ...this.call, poll });
      tally.firstAt ??= parts.clock.now();
      // One node has one vote: what it said last.
      if (isVote(said)) this.votes.set(said.node, said);
      else this.failure = { answer: said };
    } catch (error) {
      this.failure = { error };
      // There is no room, no call left or no node: others would find none either.
      if (poll.node === undefined && poll.only === undefined) this.isFull = true;
    }
    cancelLate?.();
    pending.delete(poll);
    late.delete(poll);
    this.wake();
  }

  private noteLate(poll: Poll): void {
    if (this.end.aborted || this.state().left === 0 || !this.parts.payForLate()) return;
    this.late.add(poll);
    this.wake();
  }
}

function differenceOf(operation: Operation, groups: readonly (readonly Vote[])[]): Difference {
  const [first, ...others] = groups.map((group) => group[0]!.meaning);
  const names = others.flatMap((meaning) => differences(first!, meaning, MOST_DIFFERENCES));
  return {
    operation,
    nodes: groups.map((group) => group.map(({ node }) => node)),
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
  const tally: Tally = { questions: 0, firstAt: undefined };
  const counting = countQuestions(parts, tally);
  const ask = (read: BallotMeans["read"], asked: readonly number[], only?: number) =>
    read(counting, {
      ...withoutConditions(call),
      pagination: undefined,
      poll: { asked: new Set(asked), only, node: undefined },
    });
  try {
    let said = await voteOf(parts, operation, answer);
    let other = await ask(readAnswer, [answer.node]);
    if (isPage(operation) && isVote(said) && isVote(other) && said.key !== other.key) {
      const { node } = other;
      said = await ask(listingVote, [], answer.node);
      other = await ask(listingVote, [], node);
    }
    if (!isVote(said) || !isVote(other)) return;
    const isSame = said.key === other.key;
    const outcome = isSame ? "same" : "different";
    parts.onResult({ operation, outcome, questions: tally.questions, waited: 0 });
    if (!isSame) parts.onDifference(differenceOf(operation, [[said], [other]]));
  } catch {
    // A node that does not answer says nothing about the one that did.
  }
}

/** The same parts, with each question counted. */
function countQuestions(parts: VoteParts, tally: Tally): VoteParts {
  const ask: VoteParts["ask"] = (call) => {
    tally.questions += 1;
    return parts.ask(call);
  };
  return { ...parts, ask };
}

const CONDITIONS: ReadonlySet<string> = new Set(["if-none-match", "if-modified-since"]);

/** A condition is about what one node sent: each of them has to send all it has to say. */
function withoutConditions(call: UpstreamCall): UpstreamCall {
  return { ...call, fields: filterFields(call.fields, (name) => !CONDITIONS.has(name)) };
}

function disagreement(upstream: string): GatewayError {
  const text = `the nodes of upstream "${upstream}" do not say the same, and so many must (agreement); try again later`;
  return new GatewayError("nodes_disagree", text);
}
