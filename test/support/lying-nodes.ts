import { assert, asyncProperty, array, constantFrom, infiniteStream, integer, nat, type Stream } from "fast-check";
import { expect } from "vitest";
import { readAnswerBody } from "../../src/bodies/answer.ts";
import { GatewayError } from "../../src/errors.ts";
import { askSeveral } from "../../src/upstream/agreement.ts";
import type { UpstreamAnswer, UpstreamCall } from "../../src/upstream/call.ts";
import { ManualClock } from "./manual-clock.ts";
import { acceptCall } from "./upstream-registries.ts";

/** What a node does. `late`: it says what is old when it is asked first, then what the honest ones say. */
type Behaviour = "honest" | "late" | "down" | "busy" | "error" | "blob" | "twice" | "factory" | "colluding" | "fickle";

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

/**
 * Asks 13 nodes, some of which lie, that often: no answer leaves that fewer said than are needed, and none is refused that
 * enough honest ones gave.
 */
export async function checkLiars(numRuns: number): Promise<void> {
  await assert(
    asyncProperty(BEHAVIOURS, integer({ min: 2, max: 7 }), infiniteStream(nat(12)), async (nodes, needed, picks) => {
      const { answer, error, saidOf } = await run(nodes, needed, picks);
      if (answer === undefined) {
        expect(error).toBeInstanceOf(GatewayError);
        expect(nodes.filter((each) => HONEST.has(each)).length).toBeLessThan(needed);
      } else {
        const supporters = [...saidOf.values()].filter((all) => all.has(meaningOfText(answer)));
        expect(supporters.length).toBeGreaterThanOrEqual(needed);
      }
    }),
    { numRuns },
  );
}

/** The order of contracts does not count. */
function meaningOfText({ status, body }: UpstreamAnswer): string {
  if (status !== 200) return String(status);
  const { choiceContextData, disclosedContracts } = JSON.parse(body.toString()) as ReturnType<typeof contextOf>;
  return JSON.stringify([choiceContextData, disclosedContracts.map((each) => JSON.stringify(each)).toSorted()]);
}

async function run(nodes: readonly Behaviour[], needed: number, picks: Stream<number>) {
  const clock = new ManualClock();
  const times = new Map<number, number>();
  const saidOf = new Map<number, Set<string>>();
  const ask = async ({ poll }: UpstreamCall): Promise<UpstreamAnswer> => {
    // They answer in any order.
    for (let turns = picks.next().value!; turns > 0; turns -= 1) await Promise.resolve();
    const free = nodes.map((_, node) => node).filter((node) => !poll!.asked.has(node));
    const node = poll!.only ?? free[picks.next().value! % free.length]!;
    poll!.asked.add(node);
    poll!.node = node;
    const time = times.get(node) ?? 0;
    times.set(node, time + 1);
    const behaviour = nodes[node]!;
    if (behaviour === "down") throw new GatewayError("upstream_unreachable", "down");
    const status = behaviour === "busy" ? 503 : behaviour === "error" ? 404 : 200;
    const body = Buffer.from(JSON.stringify(status === 200 ? bodyOf(behaviour, node, time) : { error: "none" }));
    const content = readAnswerBody(body, "transfer_accept");
    const answer = { status, fields: [], body, content, requestedAt: 0, receivedAt: 0, node };
    saidOf.set(node, (saidOf.get(node) ?? new Set()).add(meaningOfText(answer)));
    return answer;
  };
  const parts = {
    upstream: "amulet",
    clock,
    bodies: undefined as never,
    whenOpen: async () => undefined,
    whyNone: () => new GatewayError("upstream_invalid", "none"),
    openNodes: () => nodes.map((_, node) => node),
    ask,
    onResult: () => undefined,
    onDifference: () => undefined,
  };
  const state = { isOver: false };
  const call = askSeveral(parts, acceptCall(), needed).then(
    (answer) => ({ answer, error: undefined }),
    (error: unknown) => ({ answer: undefined, error }),
  );
  void call.then(() => {
    state.isOver = true;
  });
  while (!state.isOver) {
    for (let i = 0; i < 50; i += 1) await Promise.resolve();
    clock.advance(250);
  }
  return { ...(await call), saidOf };
}
