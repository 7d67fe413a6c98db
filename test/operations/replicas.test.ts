import { describe, expect, test } from "vitest";
import { ReplicaWatch } from "../../src/operations/replicas.ts";
import type { Replica, ReplicaState } from "../../src/sharing/replicas.ts";
import { ManualClock } from "../support/manual-clock.ts";

const STATE: ReplicaState = {
  uptimeSeconds: 60,
  load: { requestsPerSecond: 10, busy: 0.1, residentBytes: 1e8 },
  follows: { configuration: "one", clientKeys: null, actions: "none" },
  nodesDown: [],
};

function replica(name: string, state: Partial<ReplicaState> = {}, build = "abc"): Replica {
  const since = "2026-11-24T00:00:00.000Z";
  return { name, version: "0.2.0", revision: build, since, state: { ...STATE, ...state } };
}

/** As the first of them sees them. */
function watchOf(...replicas: Replica[]) {
  const clock = new ManualClock();
  const scene = { replicas, unknown: 0 };
  const watch = new ReplicaWatch(
    { alive: () => scene.replicas, lost: () => [], countUnknown: async () => scene.unknown },
    clock,
  );
  return { clock, scene, watch };
}

const behind = { follows: { ...STATE.follows, configuration: "other" } };

describe("the replicas that an operator is shown", () => {
  test("say how each does, and nothing where all are alike", async () => {
    const { watch } = watchOf(replica("a"), replica("b"));
    const { replicas, unknown, differences } = await watch.report();
    expect(differences).toEqual([]);
    expect(unknown).toBe(0);
    expect(replicas.map(({ name, isSelf, differs }) => [name, isSelf, differs])).toEqual([
      ["a", true, []],
      ["b", false, []],
    ]);
    expect(replicas[1]).toEqual({
      name: "b",
      version: "0.2.0",
      revision: "abc",
      since: "2026-11-24T00:00:00.000Z",
      isSelf: false,
      uptimeSeconds: 60,
      load: STATE.load,
      differs: [],
    });
  });

  test.for<[string, Replica[], string[]]>([
    [
      "the one of three that is behind",
      [replica("a"), replica("b", behind), replica("c")],
      ["b follows another configuration than 2 others"],
    ],
    [
      "the one that answers, too",
      [replica("a", behind), replica("b"), replica("c")],
      ["a follows another configuration than 2 others"],
    ],
    ["the other one of two", [replica("a"), replica("b", behind)], ["b follows another configuration than a"]],
    [
      "of another build",
      [replica("a"), replica("b", {}, "def"), replica("c", {}, "def")],
      ["a is another build than 2 others"],
    ],
    [
      "with other keys, and what operators did there",
      [replica("a"), replica("b"), replica("c", { follows: { configuration: "one", clientKeys: "k", actions: "x" } })],
      ["c follows other keys of clients than 2 others", "c follows other operator actions than 2 others"],
    ],
    [
      "for whom a node fails alone",
      [replica("a"), replica("b", { nodesDown: ["amulet 1", "amulet 0"] }), replica("c", { nodesDown: ["amulet 0"] })],
      ["node 1 of amulet fails for b alone", "node 0 of amulet fails for b and c alone"],
    ],
    [
      "not by nodes where all find them failing, or where their configurations name others",
      [replica("a", { nodesDown: ["x 0"] }), replica("b", { nodesDown: ["x 0"] }), replica("c", behind)],
      ["c follows another configuration than 2 others"],
    ],
  ])("name %s", async ([, replicas, differences]) => {
    expect((await watchOf(...replicas).watch.report()).differences).toEqual(differences);
  });

  test("are shown by what they say of their build alone, where they have not said more", async () => {
    const { state: _, ...silent } = replica("b");
    const { replicas, differences } = await watchOf(replica("a"), silent).watch.report();
    expect(differences).toEqual([]);
    expect(replicas[1]).toMatchObject({ name: "b", uptimeSeconds: null, load: null });
  });
});

test("a difference is one of the conditions only once it lasts longer than sharing takes", () => {
  const { clock, scene, watch } = watchOf(replica("a"), replica("b", behind));
  expect(watch.settled()).toEqual([]);
  clock.advance(29_000);
  expect(watch.settled()).toEqual([]);
  clock.advance(1_000);
  expect(watch.settled()).toEqual(["b follows another configuration than a"]);
  scene.replicas = [replica("a"), replica("b")];
  expect(watch.settled()).toEqual([]);
  scene.replicas = [replica("a"), replica("b", behind)];
  expect(watch.settled()).toEqual([]);
});
