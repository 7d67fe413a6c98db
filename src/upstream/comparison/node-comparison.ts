import { LRUCache } from "lru-cache";
import type { BodyReader } from "../../bodies/body-reader.ts";
import { type Difference, findDifferences } from "../../bodies/difference.ts";
import { Abort, type Duration, sleep } from "../../clock.ts";
import { News } from "../news.ts";
import type { UpstreamNode } from "../node/node.ts";
import type { ComparisonResult } from "../observer.ts";
import type { CachedOperation } from "../../spec/endpoints.ts";
import type { UpstreamParts } from "../parts.ts";
import type { Divergence } from "../status.ts";
import { askNode, mayBeAsked, type Question, type SeenAnswer, type Unseen } from "./node-question.ts";

/** Comparisons under way, of all upstreams and of one. */
const MOST_OF_ALL = 8;
const MOST_OF_ONE = 2;
/** Bytes of answers that are held for all of them. */
const MOST_BYTES = 64 * 1024 * 1024;
/** Answers that one comparison holds at the same time. */
const ANSWERS_HELD = 4;
/** Another node's answer may be longer than the first by as much as the first, and this. */
const LEEWAY = 64 * 1024;

/** Two answers that are no longer together are compared here: worse ones than any registry sends take two or three milliseconds. */
const AT_ONCE = 16 * 1024;

/** What differs is looked at again so much later: nodes of one registry lag behind each other. */
const SECOND_LOOK: Duration = 1_000;

/** Divergences of one upstream that are shown, and differences of each. */
const MOST_SHOWN = 8;
const MOST_DIFFERENCES = 8;
/** Kinds of divergences of one upstream of which is known when they were told last. */
const MOST_TOLD = 64;

/** What the comparisons of all upstreams share: bounds, and a thread that no client's answer waits for. */
export class ComparisonBudget {
  readonly bodies: BodyReader;
  private running = 0;
  private bytes = 0;

  constructor(bodies: BodyReader) {
    this.bodies = bodies;
  }

  tryEnter(bytes: number): boolean {
    if (this.running >= MOST_OF_ALL || this.bytes + bytes > MOST_BYTES) return false;
    this.running += 1;
    this.bytes += bytes;
    return true;
  }

  leave(bytes: number): void {
    this.running -= 1;
    this.bytes -= bytes;
  }
}

/** The answer that a client got, and the node that gave it. */
interface KnownAnswer extends SeenAnswer {
  readonly node: number;
}

/** One comparison under way. */
interface Course {
  readonly question: Question;
  readonly maxBody: number;
  /** Sent to the registry for it. */
  calls: number;
}

/**
 * Asks, for a share of what clients are answered, another node the same, and tells where the two differ. What differs is
 * asked of both again: only what both repeat counts. Where there are three nodes, a third one tells which is the odd one.
 *
 * Nothing waits for it, and it takes nothing from clients. Calls beyond one for each comparison are saved at those to come.
 */
export class NodeComparison {
  private readonly parts: UpstreamParts;
  private readonly budget: ComparisonBudget;
  private readonly closing = new Abort();
  private readonly told = new LRUCache<string, News>({ max: MOST_TOLD });
  /** The latest first. */
  private divergences: readonly Divergence[];
  private running = 0;
  /** Calls that were made beyond those that `compare` allowed. */
  private owed = 0;

  /** With `old`, what was found under an earlier configuration goes on being shown. */
  constructor(parts: UpstreamParts, budget: ComparisonBudget, old?: NodeComparison) {
    this.parts = parts;
    this.budget = budget;
    this.divergences = old?.divergences ?? [];
  }

  /** A node gave this answer to a client, or confirmed it. Returns at once. */
  offer(question: Question, answer: KnownAnswer): void {
    const { config, nodes, random } = this.parts;
    if (nodes.all.length === 1 || random() >= config.compare) return;
    if (this.owed >= 1) {
      this.owed -= 1;
      return;
    }
    // The answer goes first.
    setImmediate(() => void this.begin(question, answer));
  }

  /** What was found last, the latest first. */
  status(): readonly Divergence[] {
    return this.divergences;
  }

  /** Ends what is under way. */
  close(): void {
    this.closing.abort();
  }

  private async begin(question: Question, answer: KnownAnswer): Promise<void> {
    const { observer, config, limits } = this.parts;
    const maxBody = Math.min(limits.responseBody, 2 * answer.body.length + LEEWAY);
    const bytes = ANSWERS_HELD * maxBody;
    const course: Course = { question, maxBody, calls: 0 };
    let result: ComparisonResult = "skipped";
    if (!this.closing.aborted && this.running < MOST_OF_ONE && this.budget.tryEnter(bytes)) {
      this.running += 1;
      try {
        result = await this.compare(course, answer);
      } catch {
        // Bodies that take too much time or memory to be compared.
        result = "failed";
      }
      this.running -= 1;
      this.budget.leave(bytes);
    }
    this.owed += Math.max(0, course.calls - 1);
    observer.compared(config.name, result, course.calls);
  }

  private async compare(course: Course, answer: KnownAnswer): Promise<ComparisonResult> {
    const one = this.parts.nodes.all[answer.node]!;
    const other = this.choose([one]);
    const seen = other === undefined ? "skipped" : await this.ask(course, other);
    if (other === undefined || typeof seen === "string") return seen as Unseen;
    const found = await this.differences(course, answer, seen);
    if (found === "incomparable") return "failed";
    return found.length === 0 ? "same" : this.lookAgain(course, [one, other], found);
  }

  private async lookAgain(
    course: Course,
    nodes: readonly [UpstreamNode, UpstreamNode],
    found: readonly Difference[],
  ): Promise<ComparisonResult> {
    await sleep(SECOND_LOOK, this.parts.clock);
    const [one, other] = await Promise.all([this.ask(course, nodes[0]), this.ask(course, nodes[1])]);
    if (typeof one === "string") return one;
    if (typeof other === "string") return other;
    const again = await this.differences(course, one, other);
    if (again === "incomparable") return "failed";
    const lasting = again.filter((difference) => found.some((before) => isRepeated(before, difference)));
    if (lasting.length === 0) return "vanished";
    const odd = await this.findOdd(course, nodes, { one, other, lasting });
    this.note({
      operation: course.question.operation,
      at: new Date(this.parts.clock.wallNow()).toISOString(),
      times: 1,
      nodes: [nodes[0].index, nodes[1].index],
      odd: odd?.index,
      differences: lasting.slice(0, MOST_DIFFERENCES),
    });
    return "different";
  }

  /** The one of two nodes that a third one contradicts, where it contradicts one alone. */
  private async findOdd(
    course: Course,
    nodes: readonly [UpstreamNode, UpstreamNode],
    seen: { readonly one: SeenAnswer; readonly other: SeenAnswer; readonly lasting: readonly Difference[] },
  ): Promise<UpstreamNode | undefined> {
    const third = this.choose(nodes);
    const answer = third === undefined ? "skipped" : await this.ask(course, third);
    if (typeof answer === "string") return undefined;
    const contradicts = async (of: SeenAnswer): Promise<boolean | undefined> => {
      const found = await this.differences(course, of, answer);
      if (found === "incomparable") return undefined;
      return found.some((difference) => seen.lasting.some((each) => isSamePlace(each, difference)));
    };
    const [isOneOdd, isOtherOdd] = [await contradicts(seen.one), await contradicts(seen.other)];
    if (isOneOdd === undefined || isOtherOdd === undefined || isOneOdd === isOtherOdd) return undefined;
    return isOneOdd ? nodes[0] : nodes[1];
  }

  private ask(course: Course, node: UpstreamNode): Promise<SeenAnswer | Unseen> {
    const onCall = (): void => {
      course.calls += 1;
    };
    const { maxBody, question } = course;
    return askNode(this.parts, node, question, { maxBody, signal: this.closing, onCall });
  }

  private async differences(
    { question: { operation, instrument } }: Course,
    one: SeenAnswer,
    other: SeenAnswer,
  ): Promise<readonly Difference[] | "incomparable"> {
    if (one.status !== other.status) {
      const values = [`status ${one.status}`, `status ${other.status}`] as const;
      return [{ instrument, path: "$", kind: "data", values }];
    }
    if (one.status !== 200 || one.body.equals(other.body)) return [];
    const found =
      one.body.length + other.body.length > AT_ONCE
        ? await this.differencesOfLarge(operation, one, other)
        : findDifferences(operation, one.body, other.body);
    if (found === "incomparable" || instrument === undefined) return found;
    return found.map(({ path, kind, values }) => ({ instrument, path, kind, values }));
  }

  private differencesOfLarge(
    operation: CachedOperation,
    one: SeenAnswer,
    other: SeenAnswer,
  ): Promise<readonly Difference[] | "incomparable"> {
    const task = { kind: "difference", operation, split: one.body.length } as const;
    return this.budget.bodies.read(task, Buffer.concat([one.body, other.body]), {
      source: this.parts.config.name,
      isWanted: () => !this.closing.aborted,
    });
  }

  /** Any node that may be asked, but for those that were; one of weight 0 is for when no other can be. */
  private choose(asked: readonly UpstreamNode[]): UpstreamNode | undefined {
    const { nodes, random } = this.parts;
    const others = nodes.all.filter((node) => !asked.includes(node) && node.weight > 0 && mayBeAsked(this.parts, node));
    return others[Math.floor(random() * others.length)];
  }

  private note(divergence: Divergence): void {
    const { observer, config, clock } = this.parts;
    const known = this.divergences.find((each) => isSameDivergence(each, divergence));
    const latest = { ...divergence, times: (known?.times ?? 0) + 1 };
    this.divergences = [latest, ...this.divergences.filter((each) => each !== known)].slice(0, MOST_SHOWN);
    // By what differs, not by the instruments: one that is on all of them is one line.
    const what = JSON.stringify([divergence.operation, divergence.differences.map(({ path }) => path).toSorted()]);
    const news = this.told.get(what) ?? new News(clock);
    this.told.set(what, news);
    observer.diverged(config.name, latest, news.isDue());
  }
}

function isSamePlace(one: Difference, other: Difference): boolean {
  return one.instrument === other.instrument && one.path === other.path && one.kind === other.kind;
}

/** Both nodes say what they said before. A supply moves: of it is asked that it differs as of one moment again. */
function isRepeated(before: Difference, now: Difference): boolean {
  if (!isSamePlace(before, now)) return false;
  return now.kind === "supply" || (before.values[0] === now.values[0] && before.values[1] === now.values[1]);
}

function isSameDivergence(one: Divergence, other: Divergence): boolean {
  if (one.operation !== other.operation || one.differences.length !== other.differences.length) return false;
  if (one.nodes.some((node) => !other.nodes.includes(node))) return false;
  return one.differences.every((difference, at) => isSamePlace(difference, other.differences[at]!));
}
