import { describe, expect, test } from "vitest";
import { TestClock } from "../support/clock.ts";
import { partyOf, type Registry, startRegistry } from "../support/registry.ts";
import { until } from "../support/until.ts";
import { type UpstreamHarness, useUpstreams } from "../support/upstream.ts";

interface Scene {
  readonly registry: Registry;
  readonly gateway: UpstreamHarness;
  readonly clock: TestClock;
}

async function useNodes(nodes: number, keys: object = {}): Promise<Scene> {
  const clock = TestClock.running();
  const registry = await startRegistry("amulet", { nodes });
  const gateway = useUpstreams([registry.upstream({ agreement: 2, ...keys })], { clock });
  await until(() => gateway.count("info success") === nodes);
  return { registry, gateway, clock };
}

const factory = (id: string, more: object = {}) => ({
  body: {
    factoryId: id,
    transferKind: "self",
    choiceContext: { choiceContextData: {}, disclosedContracts: [] },
    ...more,
  },
});

describe("agreement of two", () => {
  test.each([
    { name: "all say the same", nodes: 3, scripts: {}, text: "200", asked: 2 },
    {
      name: "one of three differs",
      nodes: 3,
      scripts: { 0: factory("g"), 1: factory("f"), 2: factory("f") },
      text: "200",
      asked: 3,
    },
    {
      name: "one of three is broken",
      nodes: 3,
      scripts: { 0: "reset" as const, 1: factory("f"), 2: factory("f") },
      text: "200",
      asked: 3,
    },
    {
      name: "all differ",
      nodes: 3,
      scripts: { 0: factory("f"), 1: factory("g"), 2: factory("h") },
      text: "502 nodes_disagree",
      asked: 3,
    },
    {
      name: "one of two is broken",
      nodes: 2,
      scripts: { 0: { status: 503, body: "x" }, 1: factory("f") },
      text: "502 nodes_disagree",
      asked: 2,
    },
    {
      name: "one refuses",
      nodes: 2,
      scripts: { 0: { status: 400, body: { error: "no" } }, 1: factory("f") },
      text: "502 nodes_disagree",
      asked: 2,
    },
  ])("$name: $text", async ({ nodes, scripts, text, asked }) => {
    const { registry, gateway } = await useNodes(nodes);
    for (const [node, script] of Object.entries(scripts)) registry.on("transfer_factory", script, Number(node));
    const outcome = await gateway.call("transfer_factory");
    expect(outcome.text).toBe(text);
    // Two agree before the third is asked, where the odd one out is not drawn.
    expect(registry.count()).toBeLessThanOrEqual(asked);
    expect(registry.count()).toBeGreaterThanOrEqual(2);
    const isDisagreement = text.includes("disagree");
    expect([gateway.count("agreed"), gateway.count("disagreed")]).toEqual(isDisagreement ? [0, 1] : [1, 0]);
  });

  test("the bytes are the first one's", async () => {
    const { registry, gateway } = await useNodes(2);
    const other = factory("f", { meta: {} });
    registry.on("transfer_factory", factory("f"), 0);
    registry.on("transfer_factory", () => new Promise((resolve) => setTimeout(() => resolve(other), 50)), 1);
    const { answer } = await gateway.call("transfer_factory");
    expect(answer?.body.toString()).toBe(JSON.stringify(factory("f").body));
  });

  test("nodes that hang are a disagreement when time runs out", async () => {
    const { registry, gateway, clock } = await useNodes(2);
    registry.on("transfer_factory", "hang", 0);
    const called = gateway.call("transfer_factory", { within: 4_000 });
    await registry.reached(2);
    clock.advance("4s");
    expect((await called).text).toBe("502 nodes_disagree");
  });

  test("each call takes one place: many at once wait for none of their own", async () => {
    const { gateway } = await useNodes(2, { concurrency: 2 });
    const outcomes = await Promise.all(Array.from({ length: 4 }, () => gateway.call("transfer_accept")));
    expect(outcomes.map(({ text }) => text)).toEqual(Array(4).fill("200"));
  });
});

test("before anything was asked, nodes that have not told yet are proved and asked", async () => {
  const registry = await startRegistry("amulet", { nodes: 2 });
  const gateway = useUpstreams([registry.upstream({ agreement: 2, admin: partyOf("amulet") })]);
  expect((await gateway.call("transfer_factory")).text).toBe("200");
  expect(registry.count("info")).toBe(2);
});
