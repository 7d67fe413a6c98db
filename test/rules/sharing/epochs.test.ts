import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createAlone } from "../../../src/sharing/alone.ts";
import { Epochs, EVERYBODY } from "../../../src/sharing/epochs.ts";
import { TestClock } from "../../support/clock.ts";

type Step = readonly ["learn" | "raise", party: string, number: number];

it.each<{ given: string; steps: Step[]; a: number; b: number }>([
  { given: "nothing is known", steps: [], a: 0, b: 0 },
  { given: "a purge of one party", steps: [["raise", "a", 100]], a: 100, b: 0 },
  { given: "a purge of all", steps: [["raise", EVERYBODY, 100]], a: 100, b: 100 },
  {
    given: "two in one millisecond",
    steps: [
      ["raise", "a", 100],
      ["raise", "a", 100],
    ],
    a: 101,
    b: 0,
  },
  {
    given: "a purge of all after one of a party by a clock that is ahead",
    steps: [
      ["learn", "a", 900],
      ["raise", EVERYBODY, 100],
    ],
    a: 901,
    b: 901,
  },
  {
    given: "a purge of a party after one of all by a clock that is ahead",
    steps: [
      ["learn", EVERYBODY, 900],
      ["raise", "a", 100],
    ],
    a: 901,
    b: 900,
  },
  {
    given: "an epoch of another replica",
    steps: [
      ["raise", "a", 100],
      ["learn", "a", 200],
    ],
    a: 200,
    b: 0,
  },
  {
    given: "one that comes late",
    steps: [
      ["raise", "a", 100],
      ["learn", "a", 50],
    ],
    a: 100,
    b: 0,
  },
  {
    given: "no epochs",
    steps: [
      ["raise", "a", 100],
      ["learn", "a", NaN],
      ["learn", "a", Infinity],
      ["learn", "b", 1e300],
      ["learn", "b", -1],
      ["learn", "b", 0.5],
    ],
    a: 100,
    b: 0,
  },
  {
    given: "an epoch that leaves no room above it",
    steps: [
      ["learn", "a", Number.MAX_SAFE_INTEGER],
      ["raise", "a", 100],
    ],
    a: 100,
    b: 0,
  },
])("the epochs after $given", ({ steps, a, b }) => {
  const epochs = new Epochs();
  for (const [what, party, number] of steps) epochs[what](party, number);
  expect([epochs.of("a"), epochs.of("b")]).toEqual([a, b]);
});

describe("epochs of replicas", () => {
  const purges = fc.array(fc.tuple(fc.constantFrom("a", "b", EVERYBODY), fc.integer({ min: 1, max: 50 })));

  it("agree when all have learnt all, in whatever order", () => {
    fc.assert(
      fc.property(purges, fc.infiniteStream(fc.nat()), (all, random) => {
        const shuffled = all.map((each) => ({ each, at: random.next().value! })).sort((x, y) => x.at - y.at);
        const [first, second] = [new Epochs(), new Epochs()];
        for (const [party, epoch] of all) first.learn(party, epoch);
        for (const { each } of shuffled) second.learn(...each);
        for (const party of ["a", "b", "c"]) expect(first.of(party)).toBe(second.of(party));
      }),
    );
  });

  it("rise with each purge, whatever the clocks say", () => {
    fc.assert(
      fc.property(purges, (all) => {
        const epochs = new Epochs();
        for (const [party, now] of all) {
          const before = ["a", "b"].map((each) => epochs.of(each));
          epochs.raise(party, now);
          const hasRisen = ["a", "b"].map((each, i) => epochs.of(each) > before[i]!);
          expect(hasRisen).toEqual(["a", "b"].map((each) => party === each || party === EVERYBODY));
        }
      }),
    );
  });

  it("are bounded: a purge beyond that is one of all", () => {
    const epochs = new Epochs();
    for (let i = 0; i < 20_000; i += 1) epochs.learn(`p${i}`, 7);
    expect([epochs.of("p0"), epochs.of("p19999"), epochs.of("other")]).toEqual([7, 7, 7]);
  });

  it("say what Redis has lost", () => {
    const epochs = new Epochs();
    for (const [party, epoch] of [
      ["a", 5],
      ["b", 6],
      ["c", 7],
      ["d", 8],
    ] as const)
      epochs.learn(party, epoch);
    expect(epochs.missingIn({ a: "5", b: "5", c: "9", d: "junk" })).toEqual([
      ["b", 6],
      ["d", 8],
    ]);
  });
});

it("a gateway without Redis shares nothing, purges here, and is the only replica that it knows", async () => {
  const clock = TestClock.standing();
  const alone = createAlone(clock);
  const key = { party: "a", name: "info" };
  alone.entries.set(key, { head: "{}", body: Buffer.from("x"), remaining: 1_000 });
  expect(await alone.entries.get(key)).toBeUndefined();
  expect(await alone.leases.acquire(key)).toBe("none");
  expect(await alone.purges.purge("a")).toBe("done");
  expect([alone.purges.epochOf("a") > 0, alone.purges.epochOf("b")]).toEqual([true, 0]);
  expect(await alone.purges.purge()).toBe("done");
  expect(alone.purges.epochOf("b")).toBeGreaterThan(0);
  expect(await alone.limiter.take("a", [{ requests: 1, per: 1_000 }])).toEqual({ granted: true });
  expect(await alone.limiter.take("a", [{ requests: 1, per: 1_000 }])).toMatchObject({ granted: false });
  expect([alone.replicas.count(), alone.status()]).toEqual([1, { redis: "off", replicas: 1 }]);
});
