import { LRUCache } from "lru-cache";
import { isSuccess } from "../bodies/answer.ts";
import { cachedRecord, isCached, type Operation } from "../spec/operations.ts";
import { Recurrence } from "../recurrence.ts";
import { neededFor } from "./agreement.ts";
import {
  Ballot,
  type BallotMeans,
  type BallotParts,
  countQuestions,
  differenceOf,
  type Tally,
  withoutConditions,
} from "./ballot.ts";
import type { UpstreamAnswer, UpstreamCall } from "./call.ts";
import { runCall } from "./call/buffered-call.ts";
import type { UpstreamParts } from "./parts.ts";
import type { DifferenceStatus } from "./status.ts";
import { isVote, listingVote, type Vote, voteOf, type VoteParts } from "./votes.ts";

/** Paginations that are remembered. */
const MOST_PAGINATIONS = 4_096;
/** Answers that one more node is asked about at once. */
const MOST_OBSERVED = 4;

/** Calls to one upstream, whose answers as many of its nodes give as `agreement` says. */
export class SeveralNodes {
  /** What nodes said differently the last time. */
  lastDifference: DifferenceStatus | undefined;
  private readonly calls: UpstreamParts;
  private readonly parts: AgreementParts;
  /** Answers that one more node is asked about now. */
  private observed = 0;

  constructor(calls: UpstreamParts) {
    this.calls = calls;
    this.parts = this.open();
  }

  /** @throws GatewayError as {@link runCall} and {@link askSeveral} */
  async call(call: UpstreamCall): Promise<UpstreamAnswer> {
    const needed = neededFor(this.calls.config, call.operation);
    const answer = await (needed > 1 ? askSeveral(this.parts, call, needed) : runCall(this.calls, call));
    this.observe(call, answer);
    return answer;
  }

  /** Asks one more node about a share of answers. */
  private observe(call: UpstreamCall, answer: UpstreamAnswer): void {
    const { calls, parts } = this;
    const { agreement, timeout } = calls.config;
    if (!isSuccess(answer.status) || agreement.observe === 0 || this.observed >= MOST_OBSERVED) return;
    if (parts.openNodes().length < 2 || calls.random() >= agreement.observe) return;
    this.observed += 1;
    const deadline = calls.clock.now() + timeout;
    const { signal: _, trace: __, ...again } = call;
    void compareWithAnother(parts, { ...again, deadline, priority: "background" }, answer).then(() => {
      this.observed -= 1;
    });
  }

  private open(): AgreementParts {
    const { clock, bodies, observer, nodes, retries, config } = this.calls;
    const { name, attemptTimeout } = config;
    const recurrence = new Recurrence(clock);
    return {
      upstream: name,
      attemptTimeout,
      paginations: new Paginations(),
      clock,
      bodies,
      whenOpen: (count, until) => nodes.whenOpen(count, until),
      whyNone: () => nodes.whyNone(),
      openNodes: () => nodes.all.filter(({ isOpen }) => isOpen).map(({ index }) => index),
      ask: (call) => runCall(this.calls, call),
      payForLate: () => retries.spend(),
      onResult: (result) => observer.agreement(name, result),
      onDifference: (difference) => {
        this.lastDifference = { ...difference, at: new Date(clock.wallNow()).toISOString() };
        observer.differed(name, difference, recurrence.isDue());
      },
    };
  }
}

interface AgreementParts extends BallotParts {
  /** Resolves when so many nodes take calls, or all that may yet have been asked. */
  readonly whenOpen: (count: number, until: Pick<UpstreamCall, "deadline" | "signal">) => Promise<void>;
  readonly paginations: Paginations;
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
  if (isOpen && !isSuccess(found?.answer?.status ?? 0) && (await second.hold(needed, signal))) found = second;
  if (found === undefined) {
    const contested = [listings, answers].find(({ votes, agreed }) => agreed === undefined && votes.size >= needed);
    return (contested ?? answers).conclude();
  }
  const answer = found.conclude();
  if (pagination !== "" && isSuccess(answer.status)) {
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

/** Asks one more node when an answer has gone out, and reports whether it means the same. Never rejects. */
async function compareWithAnother(parts: AgreementParts, call: UpstreamCall, answer: UpstreamAnswer): Promise<void> {
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
    // What may be another request's answer says nothing of the node.
    if (!isVote(said) || !isVote(other) || other.answer?.origin?.isOutOfStep === true) return;
    const isSame = said.key === other.key;
    const outcome = isSame ? "same" : "different";
    parts.onResult({ operation, outcome, questions: tally.questions, waited: 0 });
    if (!isSame) parts.onDifference(differenceOf(operation, [[said], [other]]));
  } catch {
    // A node that does not answer says nothing about the one that did.
  }
}
