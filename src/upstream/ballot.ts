import { differences } from "../bodies/meaning.ts";
import { Abort, type CancelTimer, type Clock, type Duration, type Instant, sleep } from "../clock.ts";
import { clientGone, GatewayError } from "../errors.ts";
import { filterFields } from "../fields.ts";
import type { Operation } from "../spec/operations.ts";
import { type AgreementResult, type AgreementState, decideAgreement, type Difference, findPage } from "./agreement.ts";
import type { Poll, UpstreamAnswer, UpstreamCall } from "./call.ts";
import { isVote, type Vote, type VoteParts } from "./votes.ts";

/** A node that differs may be late with what is new: it is asked once more, after so long. */
const ASK_AGAIN_AFTER: Duration = 250;
/** A node that has not answered for so long, or for half of what it may take, counts as one that failed. */
const LATE_AFTER: Duration = 1_000;
/** Differences that are reported. */
const MOST_DIFFERENCES = 10;

export interface BallotParts extends VoteParts {
  readonly clock: Clock;
  readonly attemptTimeout: Duration;
  /** What a call gets when no node may be asked. */
  readonly whyNone: () => GatewayError;
  /** Places of the nodes that take calls. */
  readonly openNodes: () => readonly number[];
  /** Pays for a question beside one that is late, as for a retry; false where nothing is left. */
  readonly payForLate: () => boolean;
  readonly onResult: (result: AgreementResult) => void;
  readonly onDifference: (difference: Difference) => void;
}

/** Of all ballots about one answer. */
export interface Tally {
  questions: number;
  firstAt: Instant | undefined;
}

export interface BallotMeans {
  readonly tally: Tally;
  /** Asks a node, and reads what it says; an answer without a meaning is given back. */
  readonly read: (parts: VoteParts, call: UpstreamCall) => Promise<Vote | UpstreamAnswer>;
  /** The one that is asked first. */
  readonly firstNode?: number | undefined;
}

/** The questions of one call to several nodes, and their answers. */
export class Ballot {
  /** By node, in the order of their first answers. */
  readonly votes = new Map<number, Vote>();
  /** The vote that enough nodes gave. */
  agreed: string | undefined;
  private readonly parts: BallotParts;
  private readonly call: UpstreamCall;
  private readonly means: BallotMeans;
  private readonly asked = new Set<number>();
  private readonly askedAgain = new Set<number>();
  private readonly end = new Abort();
  /** Questions that wait for their answers, and whether others are asked beside them. */
  private readonly pending = new Map<Poll, "in-time" | "late">();
  /** Of the last question without a vote. */
  private failure: { readonly error?: unknown; readonly answer?: UpstreamAnswer } = {};
  private isFull = false;
  private wake: () => void = () => undefined;

  constructor(parts: BallotParts, call: UpstreamCall, means: BallotMeans) {
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
    const { pending, asked } = this;
    const open = this.parts.openNodes().filter((node) => !asked.has(node)).length;
    const unplaced = [...pending.keys()].filter(({ node }) => node === undefined).length;
    return {
      votes: new Map([...this.votes].map(([node, { key }]) => [node, key])),
      pending: pending.size,
      late: [...pending.values()].filter((each) => each === "late").length,
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
    const { parts, pending } = this;
    const { tally, read } = this.means;
    pending.set(poll, "in-time");
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
      // There is no room, no call left or no node: others would find none either. One that was to be asked first is not again.
      if (poll.node === undefined) {
        if (poll.only === undefined) this.isFull = true;
        else this.asked.add(poll.only);
      }
    }
    cancelLate?.();
    pending.delete(poll);
    this.wake();
  }

  private noteLate(poll: Poll): void {
    if (this.end.aborted || this.state().left === 0 || !this.parts.payForLate()) return;
    this.pending.set(poll, "late");
    this.wake();
  }
}

export function differenceOf(operation: Operation, groups: readonly (readonly Vote[])[]): Difference {
  const [first, ...others] = groups.map((group) => group[0]!.meaning);
  const names = others.flatMap((meaning) => differences(first!, meaning, MOST_DIFFERENCES));
  return {
    operation,
    nodes: groups.map((group) => group.map(({ node }) => node)),
    parts: [...new Set(names)].slice(0, MOST_DIFFERENCES),
  };
}

/** The same parts, with each question counted. */
export function countQuestions(parts: VoteParts, tally: Tally): VoteParts {
  const ask: VoteParts["ask"] = (call) => {
    tally.questions += 1;
    return parts.ask(call);
  };
  return { ...parts, ask };
}

const CONDITIONS: ReadonlySet<string> = new Set(["if-none-match", "if-modified-since"]);

/** A condition is about what one node sent: each of them has to send all it has to say. */
export function withoutConditions(call: UpstreamCall): UpstreamCall {
  return { ...call, fields: filterFields(call.fields, (name) => !CONDITIONS.has(name)) };
}

function disagreement(upstream: string): GatewayError {
  const text = `the nodes of upstream "${upstream}" do not say the same, and so many must (agreement); try again later`;
  return new GatewayError("nodes_disagree", text);
}
