import { Counter, Histogram, Registry } from "@prometheus-io/client";
import { expect, test } from "vitest";
import { BoundCounter, BoundHistogram } from "../../src/observe/metrics/bound.ts";

const BUCKETS = [0.1, 1, 10];
const OBSERVED: readonly (readonly [kind: string, value: number])[] = [
  ["a", 0],
  ["a", 0.1],
  ["a", 0.100001],
  ["b", 1],
  ["b", 10],
  ["b", 10.5],
  ["a", 1e9],
];

function pairOfRegistries(labelNames: string[]) {
  const [own, reference] = [new Registry(), new Registry()];
  const options = { name: "time_seconds", help: "Some time.", labelNames, buckets: BUCKETS };
  return {
    own,
    reference,
    kept: new BoundHistogram({ ...options, registry: own }),
    library: new Histogram({ ...options, registers: [reference] }),
  };
}

test.each([[["kind"]], [[]]])(
  "a kept counter with the labels %j is exposed as the client library exposes its own",
  async (labelNames) => {
    const [own, reference] = [new Registry(), new Registry()];
    const options = { name: "things_total", help: "Some things.", labelNames };
    const kept = new BoundCounter({ ...options, registry: own });
    const library = new Counter({ ...options, registers: [reference] });
    expect(await own.metrics()).toBe(await reference.metrics());
    const labelled = (kind: string) => (labelNames.length === 0 ? {} : { kind });
    const tally = kept.tally(labelled("a"));
    for (const [kind, value] of OBSERVED) {
      if (kind === "a") tally.add(value);
      else kept.inc(labelled(kind), value);
      library.inc(labelled(kind), value);
    }
    kept.inc(labelled("a"));
    library.inc(labelled("a"));
    expect(await own.metrics()).toBe(await reference.metrics());
    expect(await own.getMetricsAsJSON()).toEqual(await reference.getMetricsAsJSON());
  },
);

test("a kept histogram is exposed as the client library exposes its own", async () => {
  const { own, reference, kept, library } = pairOfRegistries(["kind"]);
  const tallies = { a: kept.tally({ kind: "a" }), b: kept.tally({ kind: "b" }) };
  for (const [kind, value] of OBSERVED) {
    tallies[kind as "a" | "b"].observe(value);
    library.observe({ kind }, value);
    kept.observe({ kind }, value / 2);
    library.observe({ kind }, value / 2);
  }
  expect(await own.metrics()).toBe(await reference.metrics());
});

test("a kept histogram without labels is there before its first observation", async () => {
  const { own, reference, kept, library } = pairOfRegistries([]);
  expect(await own.metrics()).toBe(await reference.metrics());
  kept.observe(0.5);
  library.observe(0.5);
  expect(await own.metrics()).toBe(await reference.metrics());
});

test("a removed child is exposed no more", async () => {
  const { own, kept } = pairOfRegistries(["kind"]);
  kept.observe({ kind: "a" }, 1);
  kept.observe({ kind: "b" }, 1);
  kept.forget(({ kind }) => kind === "a");
  expect(await own.metrics()).not.toContain('kind="a"');
  expect(await own.metrics()).toContain('kind="b"');
});
