import { describe, expect, test } from "vitest";
import { TestClock } from "../support/clock.ts";
import { type Registry, startRegistry } from "../support/registry.ts";
import { until } from "../support/until.ts";
import { type UpstreamHarness, useUpstreams } from "../support/upstream.ts";

async function useNodes(
  nodes: number,
  keys: object = {},
): Promise<{ clock: TestClock; registry: Registry; gateway: UpstreamHarness }> {
  const clock = TestClock.running();
  const registry = await startRegistry("amulet", { nodes });
  const gateway = useUpstreams([registry.upstream(keys)], { clock });
  await until(() => gateway.count("info success") === nodes);
  return { clock, registry, gateway };
}

const states = (gateway: UpstreamHarness) =>
  gateway
    .upstream()
    .status()
    .nodes.map(({ state }) => state);

describe("which node is asked", () => {
  test("a condition goes to the node that gave its ETag, and nowhere else", async () => {
    const { registry, gateway } = await useNodes(3);
    const condition = { node: registry.urls[1]!, fields: ["if-none-match", '"a"'] };
    registry.on("*", (call) => (call.headers["if-none-match"] === '"a"' ? { status: 304 } : undefined));
    for (let i = 0; i < 10; i += 1) expect((await gateway.call("instruments", { condition })).text).toBe("304");
    expect(registry.of().every(({ node }) => node === 1)).toBe(true);
    await registry.nodes[1]!.close();
    expect((await gateway.call("instruments", { condition })).text).toBe("200");
    expect(registry.last.headers["if-none-match"]).toBeUndefined();
  });
});

describe("only a failed info takes a node out", () => {
  test("calls that break or are late have the info asked, at most once in 5 s", async () => {
    const { clock, registry, gateway } = await useNodes(1);
    clock.advance("5s");
    registry.on("*", "reset");
    for (let i = 0; i < 10; i += 1) await gateway.call("transfer_factory");
    await until(() => gateway.count("info success") === 2);
    expect(registry.count("info")).toBe(2);
    expect(states(gateway)).toEqual(["up"]);
  });

  test("a node that is gone is out as soon as its info fails, calls are 503 at once with the cause, and it is asked after 1, 2, 4 … 10 s", async () => {
    const { clock, registry, gateway } = await useNodes(1);
    clock.advance("5s");
    await registry.close();
    expect((await gateway.call("transfer_factory")).text).toBe("502 upstream_unreachable");
    await until(() => states(gateway)[0] === "out");
    const { text, error } = await gateway.call("transfer_factory");
    expect(text).toBe("503 upstream_down");
    expect(error?.message).toMatch(
      /no node of the registry "amulet" is up: it refused the connection; try again in 1 s/,
    );
    expect(error?.retryAfter).toBe(1);
    expect(gateway.upstream().status()).toMatchObject({ state: "down", cause: "refused the connection" });
    for (const seconds of [1, 2, 4, 8, 10]) {
      clock.advance(seconds * 1_000 - 100);
      const asked = registry.nodes[0]!.accepted;
      await new Promise((resolve) => setTimeout(resolve, 20));
      expect(registry.nodes[0]!.accepted).toBe(asked);
      clock.advance(100);
      await new Promise((resolve) => setTimeout(resolve, 30));
    }
    await registry.restart();
    clock.advance("10s");
    await until(() => states(gateway)[0] === "up");
    expect((await gateway.call("transfer_factory")).text).toBe("200");
  });

  test("a node that dies while calls go to another one is found out by its info, asked every 20 s", async () => {
    const { clock, registry, gateway } = await useNodes(2);
    await registry.nodes[1]!.close();
    await gateway.call("transfer_factory");
    expect(states(gateway)).toEqual(["up", "up"]);
    clock.advance("20s");
    await until(async () => {
      await gateway.call("transfer_factory");
      return states(gateway)[1] === "out";
    });
    expect(registry.count("info")).toBe(2);
  });

  test("whatever status and id a client provokes, no node goes out by it", async () => {
    const { registry, gateway } = await useNodes(2);
    registry.on("*", (call) => ({
      status: [400, 404, 409, 422, 500, 503][call.body.length % 6]!,
      body: { error: "no" },
    }));
    for (let i = 0; i < 30; i += 1) await gateway.call("transfer_accept", { body: Buffer.alloc(i, " ") });
    expect(states(gateway)).toEqual(["up", "up"]);
  });

  test("of two nodes the one that is gone is left, and the registry stays up", async () => {
    const { clock, registry, gateway } = await useNodes(2);
    clock.advance("5s");
    await registry.nodes[0]!.close();
    const outcomes = await Promise.all(Array.from({ length: 8 }, () => gateway.call("transfer_factory")));
    expect(outcomes.map(({ text }) => text)).toEqual(Array(8).fill("200"));
    // Chance may have left it out.
    await until(async () => {
      await gateway.call("transfer_factory");
      return states(gateway)[0] === "out";
    });
    expect(gateway.upstream().status()).toMatchObject({ state: "up", cause: "refused the connection (1 of 2 nodes)" });
  });
});

test("a node that is well again comes back while others use the limit up", async () => {
  const clock = TestClock.standing();
  const [amulet, bonds] = [await startRegistry(), await startRegistry("bonds")];
  const rateLimit = { requests: "5/1s", group: "host" };
  const gateway = useUpstreams(
    [amulet, bonds].map((each) => each.upstream({ rateLimit })),
    { clock },
  );
  await until(() => gateway.count("info success") === 2);
  await bonds.close();
  clock.advance("21s");
  await gateway.call("transfer_factory", { name: "bonds" });
  await until(() => gateway.upstream("bonds").status().state === "down");
  await bonds.restart();
  for (let asked = 0; asked < 300 && gateway.upstream("bonds").status().state === "down"; asked += 1) {
    void gateway.call("transfer_factory");
    clock.advance(100);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  expect(gateway.upstream("bonds").status().state).toBe("up");
});

describe("a call that comes first waits for the info, and its failure is the answer", () => {
  test.each([
    { name: "refuses connections", script: undefined, text: "502 upstream_unreachable" },
    { name: "hangs", script: "hang" as const, text: "504 upstream_timeout" },
    { name: "names another admin", script: { body: { adminId: "other::1220" } }, text: "502 wrong_admin" },
    { name: "names no admin", script: { body: {} }, text: "502 upstream_invalid" },
    { name: "answers 503", script: { status: 503, body: { error: "busy" } }, text: "502 upstream_invalid" },
    { name: "answers 404 with a page", script: { status: 404, body: "<html>" }, text: "502 upstream_wrong_url" },
    {
      name: "answers 429",
      script: { status: 429, fields: ["retry-after", "9"], body: "busy" },
      text: "429 upstream_paused",
    },
  ])("a registry that $name: $text", async ({ script, text }) => {
    const clock = TestClock.running();
    const registry = await startRegistry();
    if (script === undefined) await registry.close();
    else registry.on("info", script);
    const gateway = useUpstreams([registry], { clock });
    const called = gateway.call("transfer_factory", { within: 5_000 });
    if (script === "hang") {
      await registry.reached(1, "info");
      clock.advance("5s");
    }
    const { text: came, error } = await called;
    expect(came).toBe(text);
    expect(error?.message).toMatch(/^the registry "amulet" .+; .+/);
    expect(registry.count()).toBe(0);
  });
});

describe("a 429 of the registry is obeyed", () => {
  test("its node is left alone for its Retry-After and says so, another one is asked", async () => {
    const { clock, registry, gateway } = await useNodes(2);
    registry.on("*", { status: 429, fields: ["retry-after", "30"], body: "busy" }, 0);
    for (let i = 0; i < 10; i += 1) expect((await gateway.call("transfer_factory")).text).toBe("200");
    expect(registry.of().filter(({ node }) => node === 0)).toHaveLength(1);
    const [paused] = gateway.upstream().status().nodes;
    expect(paused).toMatchObject({
      state: "up",
      cause: expect.stringMatching(/^answered 429, paused until \d\d:\d\d:\d\d UTC$/) as string,
    });
    expect(paused!.pausedUntil! - clock.wallNow()).toBeGreaterThan(25_000);
    registry.on("*", undefined, 0);
    clock.advance("30s");
    const cause = () => gateway.upstream().status().nodes[0]!.cause;
    expect(cause()).toMatch(/^answered 429, was paused until \d\d:\d\d:\d\d UTC$/);
    clock.advance("20s");
    expect(cause()).toBeUndefined();
    for (let i = 0; i < 20; i += 1) await gateway.call("transfer_factory");
    expect(registry.of().filter(({ node }) => node === 0).length).toBeGreaterThan(1);
  });

  test("its own answer goes to the client, then calls are 429 with Retry-After while every node is paused for long", async () => {
    const { clock, registry, gateway } = await useNodes(1);
    registry.on("*", { status: 429, fields: ["retry-after", "600"], body: "busy" });
    const first = await gateway.call("transfer_factory");
    expect([first.text, first.error?.retryAfter]).toEqual(["429 upstream_error", 600]);
    const second = await gateway.call("transfer_factory");
    expect([second.text, second.error?.retryAfter]).toEqual(["429 upstream_paused", 60]);
    expect(second.error?.message).toMatch(/answered 429 and is left alone for as long as it asked; try again in 60 s/);
    expect(registry.count()).toBe(1);
    registry.on("*", undefined);
    clock.advance("1m");
    expect((await gateway.call("transfer_factory")).text).toBe("200");
  });
});

test("a node that was not asked lately says so in place of a bare up", async () => {
  const { clock, gateway } = await useNodes(1);
  expect(gateway.upstream().status().cause).toBeUndefined();
  clock.advance("4m");
  expect(gateway.upstream().status()).toMatchObject({ state: "up", cause: "last answer 4 min ago" });
  await gateway.call("transfer_factory");
  expect(gateway.upstream().status().cause).toBeUndefined();
});
