import { describe, expect, test } from "vitest";
import { TestClock } from "../../support/clock.ts";
import { CANCEL, choice, FACTORY, INFO, LIST } from "../../support/endpoints.ts";
import { load, NOTHING_KEPT, useGateway } from "../../support/gateway.ts";
import { expectOwnError } from "../../support/http.ts";
import { atFirst, type Canned, startRegistry } from "../../support/registry.ts";
import { until } from "../../support/until.ts";

const clock = TestClock.running();
const serve = useGateway(clock);

async function start(nodes: number, upstream: object = {}) {
  const amulet = await startRegistry("amulet", { nodes });
  const gateway = await serve({ ...NOTHING_KEPT, upstreams: [amulet.upstream(upstream)] });
  const states = async () =>
    ((await gateway.operations.upstream("amulet")).nodes as { state: string }[]).map(({ state }) => state);
  const isUp = async () => (await states()).every((state) => state === "up");
  await until(isUp);
  amulet.calls.length = 0;
  return { amulet, gateway, states, isUp };
}

const CONTEXT = { choiceContextData: {}, disclosedContracts: [] };

describe("a node", () => {
  test("whose info fails is out, and is asked again until it says who it is", async () => {
    const { amulet, gateway, states, isUp } = await start(2);
    amulet.on("info", { status: 500, body: {} }, 1).on("*", "reset", 1);
    // Its info may be asked again, when the first call meets it.
    clock.advance("5s");
    await until(async () => {
      expect((await gateway.post(CANCEL)).status).toBe(200);
      return (await states())[1] === "out";
    });
    amulet.calls.length = 0;
    for (let round = 0; round < 10; round += 1) expect((await gateway.post(CANCEL)).status).toBe(200);
    expect(new Set(amulet.of().map(({ node }) => node))).toEqual(new Set([0]));
    amulet.on("info", undefined, 1).on("*", undefined, 1);
    await until(async () => {
      clock.advance("10s");
      return isUp();
    });
  });

  test("is not taken out by what clients ask for: failing calls have its info asked, at most once in 5 s", async () => {
    const { amulet, gateway, isUp } = await start(2);
    amulet.on("allocation_cancel", "reset");
    for (let round = 0; round < 30; round += 1) await gateway.post(CANCEL);
    expect(await isUp()).toBe(true);
    // One for each node, and what each new connection needs at most.
    const infos = amulet.count("info");
    expect(infos).toBeLessThanOrEqual(10);
    expect((await gateway.post(FACTORY, choice())).status).toBe(200);
  });

  test("that answers errors at once gets no more than its share", async () => {
    const { amulet, gateway } = await start(5);
    const slow = async (): Promise<Canned> => {
      await new Promise((resolve) => setTimeout(resolve, 30));
      return { body: CONTEXT };
    };
    for (const status of [404, 409, 500]) {
      amulet.calls.length = 0;
      amulet.on("allocation_cancel", slow).on("allocation_cancel", { status, body: { error: "no" } }, 0);
      const answers = Array.from({ length: 20 }, async () => {
        for (let round = 0; round < 5; round += 1) await gateway.post(CANCEL);
      });
      await Promise.all(answers);
      const quick = amulet.of().filter(({ node }) => node === 0).length;
      expect(quick / amulet.count()).toBeLessThan(0.45);
    }
  });

  test("with fewer calls in flight is asked", async () => {
    const { amulet, gateway } = await start(2, { hedgeAfter: "0s" });
    const release = amulet.hold("transfer_factory");
    const held = [1, 2, 3].map(() => gateway.post(FACTORY, choice()));
    await amulet.reached(3);
    const busy = amulet.of().filter(({ node }) => node === 0).length;
    expect([1, 2]).toContain(busy);
    release();
    await Promise.all(held);
  });
});

test("with no node up, calls are 503 at once until an info succeeds, while stored metadata is served", async () => {
  const amulet = await startRegistry("amulet");
  const gateway = await serve({ upstreams: [amulet.upstream({ retries: 0 })] });
  expect((await gateway.get(INFO)).status).toBe(200);
  await amulet.close();
  await until(async () => {
    clock.advance("5s");
    return (await gateway.post(CANCEL)).code === "upstream_down";
  });
  const answer = await gateway.post(CANCEL);
  expectOwnError(answer, 503, "upstream_down");
  expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
  expect((await gateway.get(INFO)).status).toBe(200);
  expect((await gateway.operations.get("/readyz")).status).toBe(200);
  expect((await gateway.operations.upstream("amulet")).state).toBe("down");
  await amulet.restart();
  await until(async () => {
    clock.advance("10s");
    return (await gateway.post(CANCEL)).status === 200;
  });
});

describe("hedging", () => {
  test("a second node is asked beside one that is late, and the first good answer goes", async () => {
    const { amulet, gateway } = await start(2);
    amulet.on("allocation_cancel", atFirst("hang"));
    const answer = gateway.post(CANCEL);
    await amulet.reached(1);
    clock.advance("1s");
    expect((await answer).status).toBe(200);
    expect(new Set(amulet.of().map(({ node }) => node)).size).toBe(2);
    await until(() => amulet.of().every(({ isOpen }) => !isOpen));
  });

  test("0s is never", async () => {
    const { amulet, gateway } = await start(2, { hedgeAfter: "0s", timeout: "4s", attemptTimeout: "4s" });
    const release = amulet.hold("allocation_cancel");
    const answer = gateway.post(CANCEL);
    await amulet.reached(1);
    clock.advance("3s");
    release();
    expect((await answer).status).toBe(200);
    expect(amulet.count()).toBe(1);
  });

  test("takes no place from the calls: 16 POSTs at two slow nodes run at once", async () => {
    const { amulet, gateway } = await start(2, { concurrency: 16 });
    const release = amulet.hold("allocation_cancel");
    const all = Array.from({ length: 16 }, () => gateway.post(CANCEL));
    await amulet.reached(16);
    clock.advance("1s");
    release();
    for (const answer of all) expect((await answer).status).toBe(200);
  });
});

describe("an attempt", () => {
  test("that is late gives way to another node, within the whole deadline", async () => {
    const { amulet, gateway } = await start(2, { hedgeAfter: "0s", attemptTimeout: "2s" });
    amulet.on("allocation_cancel", atFirst("hang"));
    const answer = gateway.post(CANCEL);
    await amulet.reached(1);
    clock.advance("2s");
    expect((await answer).status).toBe(200);
  });

  test("of a sole node may use all of the timeout", async () => {
    const { amulet, gateway } = await start(1, { timeout: "10s", attemptTimeout: "2s" });
    const release = amulet.hold("allocation_cancel");
    const answer = gateway.post(CANCEL);
    await amulet.reached(1);
    clock.advance("9s");
    release();
    expect((await answer).status).toBe(200);
    expect(amulet.count()).toBe(1);
  });
});

describe("agreement", () => {
  const FACTORY_BODY = {
    factoryId: "f",
    transferKind: "self",
    choiceContext: { choiceContextData: { a: 1, b: [1, 2] }, disclosedContracts: [contract("1"), contract("2")] },
  };
  function contract(id: string) {
    return { templateId: "t", contractId: id, createdEventBlob: "b", synchronizerId: "s" };
  }
  const ask = (gateway: Awaited<ReturnType<typeof start>>["gateway"]) => gateway.post(FACTORY, choice());

  test("so many nodes are asked at once, and the bytes are the first one's", async () => {
    const { amulet, gateway } = await start(3, { agreement: 2 });
    const answer = await ask(gateway);
    expect(answer.status).toBe(200);
    expect(new Set(amulet.of().map(({ node }) => node)).size).toBe(2);
    expect(amulet.count()).toBe(2);
    // Metadata is one node's word.
    amulet.calls.length = 0;
    expect((await gateway.get(LIST)).status).toBe(200);
    expect(amulet.count()).toBe(1);
  });

  test.each<[string, object]>([
    [
      "members in another order",
      {
        transferKind: "self",
        choiceContext: {
          disclosedContracts: FACTORY_BODY.choiceContext.disclosedContracts,
          choiceContextData: { b: [1, 2], a: 1 },
        },
        factoryId: "f",
      },
    ],
    [
      "contracts in another order",
      {
        ...FACTORY_BODY,
        choiceContext: { ...FACTORY_BODY.choiceContext, disclosedContracts: [contract("2"), contract("1")] },
      },
    ],
    [
      "debug fields",
      {
        ...FACTORY_BODY,
        choiceContext: {
          ...FACTORY_BODY.choiceContext,
          disclosedContracts: [{ ...contract("1"), debugCreatedAt: "x" }, contract("2")],
        },
      },
    ],
    ["meta", { ...FACTORY_BODY, meta: { node: "2" } }],
    ["unknown members", { ...FACTORY_BODY, served: "by node 2" }],
  ])("answers that differ in %s are the same", async (_what, other) => {
    const { amulet, gateway } = await start(2, { agreement: 2 });
    amulet.on("transfer_factory", { body: FACTORY_BODY }, 0).on("transfer_factory", { body: other }, 1);
    const answer = await ask(gateway);
    expect(answer.status).toBe(200);
    expect([JSON.stringify(FACTORY_BODY), JSON.stringify(other)]).toContain(answer.text);
  });

  test.each<[string, object]>([
    ["the factory", { ...FACTORY_BODY, factoryId: "evil" }],
    [
      "the context's data",
      { ...FACTORY_BODY, choiceContext: { ...FACTORY_BODY.choiceContext, choiceContextData: { a: 2 } } },
    ],
    [
      "a contract",
      { ...FACTORY_BODY, choiceContext: { ...FACTORY_BODY.choiceContext, disclosedContracts: [contract("1")] } },
    ],
  ])("answers that differ in %s do not agree: 502", async (_what, other) => {
    const { amulet, gateway } = await start(2, { agreement: 2 });
    amulet.on("transfer_factory", { body: FACTORY_BODY }, 0).on("transfer_factory", { body: other }, 1);
    expectOwnError(await ask(gateway), 502, "nodes_disagree");
  });

  test("one more is asked for each that differs or fails", async () => {
    const { amulet, gateway } = await start(4, { agreement: 2, retries: 0 });
    const good = JSON.stringify(FACTORY_BODY);
    amulet.on("transfer_factory", { body: good });
    amulet
      .on("transfer_factory", { body: { ...FACTORY_BODY, factoryId: "evil" } }, 0)
      .on("transfer_factory", "reset", 1);
    for (let round = 0; round < 8; round += 1) {
      const answer = await ask(gateway);
      expect([answer.status, answer.text]).toEqual([200, good]);
    }
  });

  test("equal 4xx are equal", async () => {
    const { amulet, gateway } = await start(2, { agreement: 2 });
    amulet.on("*", { status: 404, body: { error: "no such contract" } });
    const answer = await gateway.post(CANCEL);
    expect([answer.status, answer.text]).toEqual([404, '{"error":"no such contract"}']);
  });

  test("fewer nodes up than it asks for is 503", async () => {
    const { amulet, gateway, states } = await start(2, { agreement: 2 });
    amulet.on("info", { status: 500, body: {} }, 1).on("*", "reset", 1);
    clock.advance("5s");
    await until(async () => {
      await ask(gateway);
      return (await states())[1] === "out";
    });
    amulet.calls.length = 0;
    const answer = await ask(gateway);
    expectOwnError(answer, 503, "upstream_down");
    expect(answer.error).toContain('fewer nodes of the registry "amulet" are up than the 2 that have to agree');
    expect(amulet.count()).toBe(0);
  });

  test("a limit of our own stays 429, and is no disagreement", async () => {
    const amulet = await startRegistry("amulet", { nodes: 2 });
    const upstream = amulet.upstream({ agreement: 2, rateLimit: { requests: "5/1h" } });
    const gateway = await serve({ ...NOTHING_KEPT, upstreams: [upstream] });
    const seen = new Set<string>();
    for (let round = 0; round < 4; round += 1)
      seen.add((await gateway.post(FACTORY, choice(), { "request-timeout": "0.3" })).outcome);
    expect(seen).not.toContain("502 nodes_disagree");
    expect(seen).toContain("429 rate_limited");
    expect(amulet.calls.length).toBeLessThanOrEqual(5);
  });

  test.each([
    ["more than there are nodes", { agreement: 3 }, /agreement/],
    ["without an admin", { agreement: 2, admin: undefined }, /admin/],
  ])("of %s is bad configuration", (_what, keys, text) => {
    const upstream = { name: "a", admin: "a::1220", urls: ["http://127.0.0.1:1", "http://127.0.0.1:2"], ...keys };
    expect(() => load({ upstreams: [upstream] })).toThrow(text);
  });
});
