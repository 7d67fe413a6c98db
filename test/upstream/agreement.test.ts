import { describe, expect, test } from "vitest";
import { type AgreementState, decideAgreement } from "../../src/upstream/agreement.ts";
import { Ballot } from "../../src/upstream/ballot.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { bodyOf, checkLiars, checkLyingListings, contextOf, CONTRACTS } from "../support/lying-nodes.ts";
import type { SampleRegistry } from "../support/sample-registry.ts";
import { acceptCall, listCall, openUpstream, startRegistry } from "../support/upstream-registries.ts";

const votes = (...said: string[]) => new Map(said.map((vote, node) => [node, vote]));
const again = (...nodes: number[]) => new Set(nodes);
const state: AgreementState = { needed: 2, votes: votes(), pending: 0, late: 0, left: 3, askedAgain: again() };

test.each<[string, Partial<AgreementState>, object]>([
  ["as many as are needed at first", {}, { step: "ask", count: 2 }],
  ["no more than there are", { left: 1 }, { step: "ask", count: 1 }],
  ["nobody while enough are asked", { votes: votes("a"), pending: 1 }, { step: "wait" }],
  ["one more for one that failed", { votes: votes("a"), pending: 0 }, { step: "ask", count: 1 }],
  ["one more for one that differs", { votes: votes("a", "b") }, { step: "ask", count: 1 }],
  [
    "one more for one that differs while another is asked",
    { needed: 3, votes: votes("a", "b"), pending: 1 },
    { step: "ask", count: 1 },
  ],
  ["one more for one that is late", { votes: votes("a"), pending: 1, late: 1 }, { step: "ask", count: 1 }],
  ["nobody while one that is late may still answer", { pending: 2, late: 2, left: 0 }, { step: "wait" }],
  ["nobody once two say the same", { votes: votes("a", "b", "a"), pending: 1 }, { step: "answer", vote: "a" }],
  [
    "those again that differ, where all were asked",
    { needed: 3, votes: votes("a", "a", "b"), left: 0 },
    { step: "again", nodes: [2] },
  ],
  ["all again, where none leads", { votes: votes("a", "b"), left: 0 }, { step: "again", nodes: [0, 1] }],
  ["nobody a third time", { votes: votes("a", "b"), left: 0, askedAgain: again(0, 1) }, { step: "give-up" }],
  [
    "the most again, where those that differed stay with it",
    { needed: 3, votes: votes("a", "a", "b"), left: 0, askedAgain: again(2) },
    { step: "again", nodes: [0, 1] },
  ],
  ["nobody again of too few", { needed: 3, votes: votes("a", "b"), left: 0 }, { step: "give-up" }],
  ["nobody where none answered", { left: 0 }, { step: "give-up" }],
])("asks %s", (_what, change, step) => {
  expect(decideAgreement({ ...state, ...change })).toEqual(step);
});

test("13 nodes of which some lie: no answer leaves that fewer said than are needed, and none is refused that enough honest ones gave", async () => {
  await checkLiars(100);
});

test("13 nodes of which some lie, and which cut pages in their own ways: the same of each page", async () => {
  await checkLyingListings(20);
});

async function open(count: number, agreement: object, keys: Record<string, unknown> = {}) {
  const registries = await Promise.all(Array.from({ length: count }, () => startRegistry()));
  const opened = openUpstream(registries, { hedge: { enabled: false }, agreement, ...keys });
  opened.upstreams.start();
  await expect.poll(() => opened.upstream.state).toBe("up");
  for (const { calls } of registries) calls.clear();
  return { registries, ...opened };
}

function asked({ calls }: SampleRegistry): number {
  return calls.total - calls.count("info");
}

const lie = (registry: SampleRegistry, body: object, status = 200) =>
  registry.script(({ operation }) => (operation === "info" ? undefined : { status, body: JSON.stringify(body) }));

const fail = (registry: SampleRegistry) =>
  registry.script(({ operation }) => (operation === "info" ? undefined : { raw: "" }));

const HONEST_CONTEXT = contextOf("new", CONTRACTS);

describe("with agreement.contexts: 2", () => {
  test("two nodes are asked at once, and the answer has the bytes of one of them", async () => {
    const { registries, upstream, observer } = await open(3, { contexts: 2 });
    for (const [node, registry] of registries.entries()) lie(registry, bodyOf("honest", node, 0));
    const answer = await upstream.call(acceptCall());
    expect(registries.map(asked).reduce((sum, each) => sum + each)).toBe(2);
    expect(JSON.parse(answer.body.toString())).toEqual(bodyOf("honest", answer.node, 0));
    expect(observer.events).toContain("agreement amulet transfer_accept agreed 2");
    expect(upstream.status()).toMatchObject({ running: 0, lastDifference: undefined });
  });

  test("a liar is outvoted, whichever is asked first, and told about once", async () => {
    const { registries, upstream, observer } = await open(3, { contexts: 2 });
    for (const registry of registries) lie(registry, HONEST_CONTEXT);
    lie(registries[1]!, contextOf("stolen", CONTRACTS));
    for (let i = 0; i < 30; i++) {
      const { body, node } = await upstream.call(acceptCall());
      expect([JSON.parse(body.toString()), node === 1]).toEqual([HONEST_CONTEXT, false]);
    }
    expect(observer.count("differed amulet")).toBeGreaterThan(0);
    expect(observer.count("differed-news")).toBe(1);
    expect(upstream.status().lastDifference).toMatchObject({
      operation: "transfer_accept",
      parts: ["choiceContextData"],
      at: expect.stringMatching(/^20/),
    });
  });

  test("answers with 201 are compared as those with 200 are", async () => {
    const { registries, upstream } = await open(3, { contexts: 2 });
    for (const registry of registries) lie(registry, HONEST_CONTEXT, 201);
    lie(registries[1]!, contextOf("stolen", CONTRACTS), 201);
    for (let i = 0; i < 30; i++) {
      const { status, body } = await upstream.call(acceptCall());
      expect([status, JSON.parse(body.toString())]).toEqual([201, HONEST_CONTEXT]);
    }
  });

  test("nodes that all say something else are 502, which does not say what", async () => {
    const { registries, upstream, observer } = await open(2, { contexts: 2 });
    for (const [node, registry] of registries.entries()) lie(registry, bodyOf("factory", node, 0));
    await expect(upstream.call(acceptCall())).rejects.toMatchObject({
      status: 502,
      code: "nodes_disagree",
      message: expect.not.stringMatching(/choiceContextData|of 0|127/),
    });
    expect(registries.map(asked)).toEqual([2, 2]);
    expect(observer.events).toContain("agreement amulet transfer_accept disagreed 4");
  });

  test("a node that is late with what is new is asked once more", async () => {
    const { registries, upstream } = await open(2, { contexts: 2 });
    lie(registries[0]!, HONEST_CONTEXT);
    let times = 0;
    registries[1]!.script(({ operation }) =>
      operation === "info" ? undefined : { status: 200, body: JSON.stringify(bodyOf("late", 1, times++)) },
    );
    expect((await upstream.call(acceptCall())).status).toBe(200);
    expect(times).toBe(2);
  });

  test("two equal errors are an answer, and one is none", async () => {
    const { registries, upstream } = await open(3, { contexts: 2 });
    for (const registry of registries) lie(registry, HONEST_CONTEXT);
    lie(registries[0]!, { error: "none" }, 404);
    for (let i = 0; i < 10; i++) expect((await upstream.call(acceptCall())).status).toBe(200);
    lie(registries[1]!, { error: "not there" }, 404);
    lie(registries[2]!, { error: "gone" }, 404);
    expect((await upstream.call(acceptCall())).status).toBe(404);
  });

  test("nodes that do not answer are made up for, and where too few do it is 502, or their own failure", async () => {
    const { registries, upstream } = await open(4, { contexts: 2 });
    for (const registry of registries.slice(0, 2)) fail(registry);
    for (const registry of registries.slice(2)) lie(registry, HONEST_CONTEXT);
    for (let i = 0; i < 10; i++) expect((await upstream.call(acceptCall())).status).toBe(200);
    fail(registries[2]!);
    await expect(upstream.call(acceptCall())).rejects.toMatchObject({ code: "nodes_disagree" });
    fail(registries[3]!);
    await expect(upstream.call(acceptCall())).rejects.toMatchObject({ code: "upstream_reset" });
  });

  test("a client that goes ends all questions", async () => {
    const { registries, upstream } = await open(2, { contexts: 2 });
    for (const { faults } of registries) await faults.set({ kind: "hang" });
    const client = new AbortController();
    const call = upstream.call(acceptCall({ signal: client.signal }));
    await expect.poll(() => registries.map(({ calls }) => calls.open)).toEqual([1, 1]);
    client.abort();
    await expect(call).rejects.toMatchObject({ status: 499 });
    await expect.poll(() => registries.map(({ calls }) => calls.open)).toEqual([0, 0]);
    expect(upstream.status()).toMatchObject({ running: 0, queued: 0 });
  });

  test("each question takes a call of rateLimit, and where there is none left it is 429", async () => {
    const { registries, upstream } = await open(
      2,
      { contexts: 2 },
      { rateLimit: { requests: 20, per: "1m", maxWait: "0s" } },
    );
    for (const registry of registries) lie(registry, HONEST_CONTEXT);
    const left = upstream.status().budgetLeft!;
    for (let i = 0; i < Math.floor(left / 2); i++) expect((await upstream.call(acceptCall())).status).toBe(200);
    expect(upstream.status().budgetLeft).toBe(left % 2);
    for (let i = 0; i < 2; i++) await upstream.call(acceptCall()).catch(() => undefined);
    await expect(upstream.call(acceptCall())).rejects.toMatchObject({ status: 429 });
  });

  test("a call right at the start waits until two nodes have named their admin", async () => {
    const registries = await Promise.all(Array.from({ length: 3 }, () => startRegistry()));
    for (const registry of registries) lie(registry, HONEST_CONTEXT);
    const { promise: released, resolve: release } = Promise.withResolvers<undefined>();
    registries[2]!.script(() => released);
    const { upstream } = openUpstream(registries, { agreement: { contexts: 2 } });
    expect((await upstream.call(acceptCall())).status).toBe(200);
    release(undefined);
  });

  test("where no node can be asked it is told why", async () => {
    const dead = openUpstream(["http://127.0.0.1:1", "http://127.0.0.1:2"], { agreement: { contexts: 2 } });
    await expect(dead.upstream.call(acceptCall())).rejects.toMatchObject({ code: "upstream_unreachable" });
    const registry = await startRegistry();
    const half = openUpstream([registry, "http://127.0.0.1:1"], { agreement: { contexts: 2 } });
    lie(registry, HONEST_CONTEXT);
    await expect(half.upstream.call(acceptCall())).rejects.toMatchObject({ code: "nodes_disagree" });
  });

  test("metadata is asked of one", async () => {
    const { registries, upstream } = await open(2, { contexts: 2 });
    await upstream.call(listCall());
    expect(registries.map(asked).reduce((sum, each) => sum + each)).toBe(1);
  });
});

// It asked on and on, in one turn of the loop: nothing else of the process ran any more.
test("a ballot whose first node is the only one, and cannot be asked, gives up after one question", async () => {
  let questions = 0;
  const failure = new Error("the breaker is open");
  const parts = {
    upstream: "amulet",
    attemptTimeout: 5_000,
    clock: new ManualClock(),
    openNodes: () => [0],
    whyNone: () => failure,
    payForLate: () => true,
    onResult: () => undefined,
  };
  const read = async () => {
    questions += 1;
    // Should it go on, the loop has to end for the test to fail.
    if (questions > 100) await new Promise(() => undefined);
    throw failure;
  };
  const ballot = new Ballot(parts as never, listCall(), {
    tally: { questions: 0, firstAt: undefined },
    read,
    firstNode: 0,
  });
  expect(await ballot.hold(2, undefined)).toBe(false);
  expect(questions).toBe(1);
  expect(() => ballot.conclude()).toThrow("the breaker is open");
});

describe("with agreement.metadata: 2", () => {
  const page = (id: string, totalSupply: string) => ({
    instruments: [{ id, name: id, symbol: id, decimals: 10, supportedApis: {}, totalSupply }],
  });

  test("supply may move, and an instrument that one node alone has reaches nobody", async () => {
    const { registries, upstream } = await open(3, { metadata: 2 });
    for (const [node, registry] of registries.entries()) lie(registry, page("Amulet", `${node}.0`));
    lie(registries[2]!, page("Fake", "1.0"));
    for (let i = 0; i < 10; i++) {
      const { body } = await upstream.call(listCall());
      expect(body.toString()).toContain("Amulet");
    }
  });

  test("nodes are asked without conditions: each has to say all", async () => {
    const { registries, upstream } = await open(2, { metadata: 2 });
    for (const registry of registries) lie(registry, page("Amulet", "1.0"));
    const answer = await upstream.call(listCall({ fields: ["if-none-match", '"a"', "accept", "application/json"] }));
    expect(answer.status).toBe(200);
    for (const { calls } of registries) expect(calls.last!.headers["if-none-match"]).toBeUndefined();
  });
});

describe("with agreement.observe: 1", () => {
  test("one more node is asked when the answer has gone, and a difference is told and refuses nothing", async () => {
    const { registries, upstream, observer } = await open(2, { observe: 1 });
    for (const registry of registries) lie(registry, HONEST_CONTEXT);
    expect((await upstream.call(acceptCall())).status).toBe(200);
    await expect.poll(() => observer.events).toContain("agreement amulet transfer_accept same 1");
    lie(registries[0]!, contextOf("stolen", CONTRACTS));
    expect((await upstream.call(acceptCall())).status).toBe(200);
    await expect.poll(() => observer.events).toContain("agreement amulet transfer_accept different 1");
    expect(upstream.status().lastDifference).toMatchObject({ parts: ["choiceContextData"] });
  });

  test("a 404 that may be another request's answer is no difference", async () => {
    const registries = [await startRegistry(), await startRegistry()];
    const ask = (id: string) =>
      listCall({ operation: "instrument", path: `/registry/metadata/v1/instruments/${id}`, instrument: id });
    const say = (registry: SampleRegistry, doubtful: string) =>
      registry.script(({ operation, url }) => {
        const id = url.split("/").at(-1)!;
        const isMissing = id === doubtful;
        const body = isMissing ? { error: "Instrument not found" } : { id, name: id, symbol: "S", decimals: 2 };
        return operation === "info" ? undefined : { status: isMissing ? 404 : 200, body: JSON.stringify(body) };
      });
    say(registries[0]!, "");
    say(registries[1]!, "Gold");
    // The second is asked only where the first was.
    const urls = registries.map(({ url }, node) => ({ url, weight: 1 - node }));
    const { upstream, upstreams, observer } = openUpstream([], { urls, agreement: { observe: 1 } });
    upstreams.start();
    await expect.poll(() => upstream.status().nodes.map(({ state }) => state)).toEqual(["up", "up"]);
    // Over each of the two connections that there are.
    for (const [same, id] of ["Instrument", "Instrument", "Gold", "Silver"].entries()) {
      expect((await upstream.call(ask(id))).status).toBe(200);
      if (id === "Gold") await expect.poll(() => asked(registries[1]!)).toBe(3);
      else await expect.poll(() => observer.count("agreement amulet instrument")).toBe(Math.min(same + 1, 3));
    }
    expect(observer.count("agreement amulet instrument same")).toBe(3);
  });

  test("a node that hangs holds up no answer, and few questions wait for it", async () => {
    const registries = [await startRegistry(), await startRegistry()];
    // The second is asked only where the first may not be.
    const urls = registries.map(({ url }, node) => ({ url, weight: 1 - node }));
    const { upstream, upstreams } = openUpstream([], { urls, agreement: { observe: 1 } });
    upstreams.start();
    await expect.poll(() => upstream.state).toBe("up");
    for (const registry of registries) lie(registry, HONEST_CONTEXT);
    await registries[1]!.faults.set({ kind: "hang", operations: ["transfer_accept"] });
    registries[1]!.script(() => undefined);
    for (let i = 0; i < 8; i++) expect((await upstream.call(acceptCall())).status).toBe(200);
    await expect.poll(() => registries[1]!.calls.open).toBe(4);
  });
});
