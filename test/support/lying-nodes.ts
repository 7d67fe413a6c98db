import { array, assert, asyncProperty, constantFrom, infiniteStream, integer, nat, type Stream } from "fast-check";
import { expect } from "vitest";
import { readAnswerBody } from "../../src/bodies/answer.ts";
import { GatewayError } from "../../src/errors.ts";
import { askSeveral, Paginations } from "../../src/upstream/several-nodes.ts";
import type { UpstreamAnswer, UpstreamCall } from "../../src/upstream/call.ts";
import { ManualClock } from "./manual-clock.ts";
import { acceptCall, listCall } from "./upstream-registries.ts";

/** What a node does. `late`: it says what is old when it is asked first, then what the honest ones say. */
type Behaviour =
  | "honest"
  | "late"
  | "down"
  | "hanging"
  | "busy"
  | "error"
  | "blob"
  | "twice"
  | "factory"
  | "colluding"
  | "fickle";

export const CONTRACTS = ["00aa", "00bb", "00cc"].map((contractId) => ({
  templateId: "p:M:T",
  contractId,
  createdEventBlob: "Cg==",
  synchronizerId: "s::1220",
}));

/** A choice context of this round. */
export const contextOf = (round: string, contracts: readonly object[]) => ({
  choiceContextData: { values: { round: { tag: "AV_ContractId", value: round } } },
  disclosedContracts: contracts,
});

/** What a node of this behaviour says, the nth time it is asked. */
export function bodyOf(behaviour: Behaviour, node: number, time: number): object {
  const turned = [...CONTRACTS.slice(node % 3), ...CONTRACTS.slice(0, node % 3)];
  switch (behaviour) {
    case "late":
      return contextOf(time === 0 ? "old" : "new", turned);
    case "blob":
      return contextOf("new", [{ ...CONTRACTS[0], createdEventBlob: `Cw${node}` }, ...CONTRACTS.slice(1)]);
    case "twice":
      return contextOf("new", [...CONTRACTS, CONTRACTS[node % 3]!]);
    case "factory":
      return contextOf(`of ${node}`, turned);
    case "colluding":
      return contextOf("stolen", turned);
    case "fickle":
      return contextOf(`fickle ${node} ${time}`, turned);
    default:
      return contextOf("new", turned);
  }
}

const HONEST: ReadonlySet<Behaviour> = new Set(["honest", "late"]);

const BEHAVIOURS = array(
  constantFrom<Behaviour>(
    "honest",
    "honest",
    "honest",
    "late",
    "down",
    "hanging",
    "busy",
    "error",
    "blob",
    "twice",
    "factory",
    "colluding",
    "fickle",
  ),
  { minLength: 13, maxLength: 13 },
);

const NEEDED = integer({ min: 2, max: 7 });

/** What may go by until an answer leaves, however many nodes hang: each wave of them a second. */
const LONGEST = 13_000;

/**
 * Asks 13 nodes for a context, some of which lie, that often: no answer leaves that fewer said than are needed, and none is
 * refused that enough honest ones gave.
 */
export async function checkLiars(numRuns: number): Promise<void> {
  await assert(
    asyncProperty(BEHAVIOURS, NEEDED, infiniteStream(nat(12)), async (nodes, needed, picks) => {
      const registry = new LyingRegistry(nodes, needed, picks);
      const { answer, error } = await registry.ask(acceptCall());
      expect(registry.elapsed).toBeLessThanOrEqual(LONGEST);
      if (answer === undefined) {
        expect(error).toBeInstanceOf(GatewayError);
        expect(registry.count((each) => HONEST.has(each))).toBeLessThan(needed);
      } else {
        expect(registry.supporters(...saidBy(answer))).toBeGreaterThanOrEqual(needed);
      }
    }),
    { numRuns },
  );
}

/** The same for a listing, from its first page to its last, which each node cuts in its own way. */
export async function checkLyingListings(numRuns: number): Promise<void> {
  await assert(
    asyncProperty(BEHAVIOURS, NEEDED, infiniteStream(nat(12)), async (nodes, needed, picks) => {
      const registry = new LyingRegistry(nodes, needed, picks);
      // Where liars are enough to be believed, the listing may go on as theirs, or as honest nodes have it.
      const isClear =
        registry.count((each) => each === "honest") >= needed &&
        ["error", "colluding", "twice", "late"].every((liar) => registry.count((each) => each === liar) < needed);
      const ids: string[] = [];
      for (let token: string | undefined = ""; token !== undefined;) {
        const path = `${listCall().path}${token === "" ? "" : `?pageToken=${token}`}`;
        const { answer, error } = await registry.ask(listCall({ path, pagination: "1" }));
        if (answer === undefined) {
          expect(error).toBeInstanceOf(GatewayError);
          expect(isClear).toBe(false);
          return;
        }
        expect(registry.supporters(...saidBy(answer))).toBeGreaterThanOrEqual(needed);
        if (answer.status !== 200) {
          expect(isClear).toBe(false);
          return;
        }
        const page = JSON.parse(answer.body.toString()) as { instruments: { id: string }[]; nextPageToken?: string };
        ids.push(...page.instruments.map(({ id }) => id));
        token = page.nextPageToken;
      }
      if (isClear) expect(ids).toEqual(IDS);
    }),
    { numRuns },
  );
}

const IDS = ["a", "b", "c", "d", "e", "f", "g"];

/** A page of what a node of this behaviour lists: each node cuts pages of its own size, and half of them count in tokens. */
function pageOf(behaviour: Behaviour, { node, time, token }: { node: number; time: number; token: string | null }) {
  const names: Partial<Record<Behaviour, string>> = {
    late: time === 0 ? "old" : "new",
    blob: `blob ${node}`,
    factory: `of ${node}`,
    colluding: "stolen",
    fickle: `fickle ${node} ${time}`,
  };
  const name = names[behaviour] ?? "new";
  const [size, counts] = [1 + (node % 5), node % 2 === 0];
  const list = behaviour === "twice" ? ["a", ...IDS] : IDS;
  const start = token === null ? 0 : counts ? Number(token) : list.lastIndexOf(token) + 1;
  if (!(start > 0) && token !== null) return undefined;
  const end = start + size;
  const instruments = list.slice(start, end).map((id) => ({ id, name, symbol: id, decimals: 2, supportedApis: {} }));
  return end >= list.length ? { instruments } : { instruments, nextPageToken: counts ? String(end) : list[end - 1] };
}

/** What counts of an answer, part by part. */
function saidBy({ status, body }: UpstreamAnswer): readonly string[] {
  if (status !== 200) return [String(status)];
  const json = JSON.parse(body.toString()) as ReturnType<typeof contextOf> | { instruments: object[] };
  if ("instruments" in json) return json.instruments.map((each) => JSON.stringify(each));
  // The order of contracts does not count.
  const { choiceContextData, disclosedContracts } = json;
  return [JSON.stringify([choiceContextData, disclosedContracts.map((each) => JSON.stringify(each)).toSorted()])];
}

/** A registry of such nodes, and what each of them ever said. */
class LyingRegistry {
  private readonly nodes: readonly Behaviour[];
  private readonly needed: number;
  private readonly picks: Stream<number>;
  private readonly clock = new ManualClock();
  private readonly begin = this.clock.now();
  private readonly times = new Map<number, number>();
  private readonly said = new Map<number, Set<string>>();
  private readonly paginations = new Paginations();

  constructor(nodes: readonly Behaviour[], needed: number, picks: Stream<number>) {
    this.nodes = nodes;
    this.needed = needed;
    this.picks = picks;
  }

  get elapsed(): number {
    return this.clock.now() - this.begin;
  }

  count(isSuch: (behaviour: Behaviour) => boolean): number {
    return this.nodes.filter(isSuch).length;
  }

  /** How many nodes ever said each of this. */
  supporters(...parts: readonly string[]): number {
    return [...this.said.values()].filter((all) => parts.every((each) => all.has(each))).length;
  }

  async ask(call: UpstreamCall) {
    const parts = {
      upstream: "amulet",
      clock: this.clock,
      attemptTimeout: 5_000,
      bodies: undefined as never,
      paginations: this.paginations,
      whenOpen: async () => undefined,
      whyNone: () => new GatewayError("upstream_invalid", "none"),
      openNodes: () => [...this.nodes.keys()],
      ask: (each: UpstreamCall) => this.answer(each),
      payForLate: () => true,
      onResult: () => undefined,
      onDifference: () => undefined,
    };
    const state = { isOver: false };
    const asked = askSeveral(parts, call, this.needed)
      .then(
        (answer) => ({ answer, error: undefined }),
        (error: unknown) => ({ answer: undefined, error }),
      )
      .finally(() => {
        state.isOver = true;
      });
    while (!state.isOver) {
      for (let i = 0; i < 50; i += 1) await Promise.resolve();
      if (!state.isOver) this.clock.advance(250);
    }
    return asked;
  }

  private async answer({ poll, path, operation, signal }: UpstreamCall): Promise<UpstreamAnswer> {
    // They answer in any order.
    for (let turns = this.draw(); turns > 0; turns -= 1) await Promise.resolve();
    const free = [...this.nodes.keys()].filter((each) => !poll!.asked.has(each));
    const node = poll!.only ?? free[this.draw() % free.length]!;
    poll!.asked.add(node);
    poll!.node = node;
    const time = this.times.get(node) ?? 0;
    this.times.set(node, time + 1);
    const behaviour = this.nodes[node]!;
    if (behaviour === "hanging") await this.hang(signal);
    if (behaviour === "down") throw new GatewayError("upstream_unreachable", "down");
    const token = new URL(path, "http://node").searchParams.get("pageToken");
    const said = operation === "instruments" ? pageOf(behaviour, { node, time, token }) : bodyOf(behaviour, node, time);
    const status = behaviour === "busy" ? 503 : behaviour === "error" ? 404 : said === undefined ? 400 : 200;
    const body = Buffer.from(JSON.stringify(status === 200 ? said : { error: "none" }));
    const content = readAnswerBody(body, operation);
    const answer = { status, fields: [], body, content, requestedAt: 0, receivedAt: 0, node };
    const all = this.said.get(node) ?? new Set();
    this.said.set(node, all);
    for (const part of saidBy(answer)) all.add(part);
    return answer;
  }

  private async hang(signal: UpstreamCall["signal"]): Promise<void> {
    await new Promise<void>((resolve) => {
      this.clock.after(5_000, resolve);
      signal?.addEventListener("abort", resolve);
    });
    throw new GatewayError("upstream_timeout", "hangs");
  }

  private draw(): number {
    return this.picks.next().value!;
  }
}
