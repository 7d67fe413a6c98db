import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { WorkersScene, settle } from "../support/workers-scene.ts";
import { describeCoordinator } from "../support/coordinator-suite.ts";

describeCoordinator("worker", async () => {
  const scene = new WorkersScene();
  const { coordinator } = await scene.join();
  await scene.join();
  return {
    coordinator,
    now: () => scene.clock.now(),
    pass: (milliseconds) => scene.pass(milliseconds),
    close: () => scene.close(),
  };
});

const key = { partition: "p::1220", scopes: ["all", "list"] };

describe("workers of one machine", () => {
  let scene: WorkersScene;
  beforeEach(() => {
    scene = new WorkersScene();
  });
  afterEach(() => scene.close());

  test("have the same epochs, before and after purges by anybody, in whatever order they hear of them", async () => {
    const [a, b] = [await scene.join(), await scene.join()];
    const same = (): string => {
      const epoch = a.coordinator.epochOf(key);
      expect(b.coordinator.epochOf(key)).toBe(epoch);
      return epoch!;
    };
    const first = same();
    await Promise.all([
      a.coordinator.purge(key.partition, ["list"]),
      b.coordinator.purge(key.partition, ["list"]),
      scene.state.purge(undefined, ["all"]),
      b.coordinator.purge(key.partition, ["list"]),
    ]);
    await settle();
    const second = same();
    expect(second).not.toBe(first);
    const late = await scene.join();
    expect(late.coordinator.epochOf(key)).toBe(second);
  });

  test("have the same actions in force when one was answered, and those that begin later as well", async () => {
    const [a, b] = [await scene.join(), await scene.join()];
    const action = {
      upstream: "amulet",
      node: "https://a.example",
      state: "cordoned",
      by: "no token",
      from: "loopback",
    } as const;
    const acting = a.coordinator.act({ action, lasts: 60_000 });
    await settle();
    await acting;
    const ends = a.coordinator.actions.find("amulet", action.node)!.until;
    expect(b.coordinator.actions.find("amulet", action.node)).toMatchObject({ action, until: ends });
    await scene.pass(10_000);
    const late = await scene.join();
    expect(late.coordinator.actions.find("amulet", action.node)).toMatchObject({ action, until: ends });
    await scene.pass(50_001);
    for (const { coordinator } of [a, b, late]) expect(coordinator.actions.all()).toEqual([]);
    const { state: _, ...undoing } = action;
    const undone = b.coordinator.act({ action: { ...undoing, weight: 3 }, lasts: undefined });
    await settle();
    await undone;
    expect(late.coordinator.actions.find("amulet", action.node)?.action.weight).toBe(3);
  });

  test("hear what another one announces", async () => {
    const workers = [await scene.join(), await scene.join(), await scene.join()];
    const heard = workers.map(({ coordinator }) => {
      const news: string[] = [];
      coordinator.onAnnounced((each) => news.push(each));
      return news;
    });
    workers[0]!.coordinator.announce("one");
    workers[1]!.coordinator.announce("two");
    await settle();
    expect(heard).toEqual([["two"], ["one"], ["one", "two"]]);
  });

  test("all know of a purge when it was answered", async () => {
    const [a, b] = [await scene.join(), await scene.join()];
    const before = [a, b].map(({ coordinator }) => coordinator.epochOf(key));
    await scene.state.purge(key.partition, ["all"]);
    const after = [a, b].map(({ coordinator }) => coordinator.epochOf(key));
    expect(after[0]).not.toBe(before[0]);
    expect(after[1]).toBe(after[0]);
  });

  test("a purge is one message to each worker, whoever asks for it", async () => {
    const workers = [];
    for (let i = 0; i < 8; i += 1) workers.push(await scene.join());
    for (const { channel } of workers) channel.received = 0;
    await workers[0]!.coordinator.purge(key.partition, ["all"]);
    // The one that asked has the reply to its question besides.
    expect(workers.map(({ channel }) => channel.received)).toEqual([2, 1, 1, 1, 1, 1, 1, 1]);
  });

  test("all have the same epochs after more partitions than are remembered were purged", async () => {
    const [a, b] = [await scene.join(), await scene.join()];
    const first = { partition: "p0::1220", scopes: ["all"] };
    const before = a.coordinator.epochOf(first);
    for (let i = 0; i < 5_000; i += 1) await scene.state.purge(`p${i}::1220`, ["all"]);
    expect(a.coordinator.epochOf(first)).not.toBe(before);
    for (const { partition } of [first, { partition: "p4999::1220" }, { partition: "never::1220" }]) {
      const epoch = a.coordinator.epochOf({ partition, scopes: ["all"] });
      expect(b.coordinator.epochOf({ partition, scopes: ["all"] })).toBe(epoch);
      expect((await scene.join()).coordinator.epochOf({ partition, scopes: ["all"] })).toBe(epoch);
    }
  });

  test("a worker that cannot be told of a purge is ended, and the purge answered", async () => {
    const [, hung] = [await scene.join(), await scene.join()];
    hung.channel.isReading = false;
    let isAnswered = false;
    const purge = scene.state.purge(key.partition, ["all"]).then(() => {
      isAnswered = true;
    });
    await scene.pass(2_900);
    expect(isAnswered).toBe(false);
    await scene.pass(200);
    await purge;
    expect(hung.isEnded).toBe(true);
  });

  test("more purges than are remembered never bring an entry back", async () => {
    const [a, b] = [await scene.join(), await scene.join()];
    const scoped = { partition: "p::1220", scopes: ["instrument:0"] };
    const before = a.coordinator.epochOf(scoped);
    for (let i = 0; i < 5_000; i += 1) await scene.state.purge("p::1220", [`instrument:${i}`]);
    expect(a.coordinator.epochOf(scoped)).not.toBe(before);
    expect(b.coordinator.epochOf(scoped)).toBe(a.coordinator.epochOf(scoped));
  });

  test("a page token that one issued is known to all, and to those who come later", async () => {
    const [a, b] = [await scene.join(), await scene.join()];
    const page = { ...key, chain: "25 token" };
    a.coordinator.issueChain(page.partition, page.chain, "digest");
    await settle();
    expect(b.coordinator.epochOf(page)).toBe(a.coordinator.epochOf(page));
    expect((await scene.join()).coordinator.epochOf(page)).toBe(a.coordinator.epochOf(page));
  });

  test("who issue a token at the same time with different contents end up with the same", async () => {
    const [a, b] = [await scene.join(), await scene.join()];
    const page = { ...key, chain: "25 token" };
    a.coordinator.issueChain(page.partition, page.chain, "one");
    b.coordinator.issueChain(page.partition, page.chain, "other");
    await settle();
    expect(a.coordinator.epochOf(page)).toBe(b.coordinator.epochOf(page));
  });

  test("a key has one holder on the machine, and is free as soon as its holder dies", async () => {
    const [a, b] = [await scene.join(), await scene.join()];
    expect(await a.coordinator.acquire("key")).toBeDefined();
    expect(await b.coordinator.acquire("key")).toBeUndefined();
    const waiting = b.coordinator.whenReleased("key", scene.clock.now() + 5_000);
    await settle();
    a.channel.close();
    expect(await waiting).toBe("failed");
    expect(await b.coordinator.acquire("key")).toBeDefined();
  });

  test("share one budget of calls", async () => {
    const [a, b] = [await scene.join(), await scene.join()];
    const limit = { requests: 3, per: 1_000 };
    const grants = [];
    for (const { coordinator } of [a, b, a, b]) grants.push((await coordinator.takeCall("upstream:x", limit)).granted);
    expect(grants).toEqual([true, true, true, false]);
  });

  test("recall what another one remembered", async () => {
    const [a, b] = [await scene.join(), await scene.join()];
    a.coordinator.remember("contract", "p::1220", 1_000);
    await settle();
    expect(await b.coordinator.recall("contract")).toBe("p::1220");
  });

  test("go on by themselves, without calls beyond the budget, when the primary does not answer", async () => {
    const a = await scene.join();
    a.channel.other!.isReading = false;
    const lease = a.coordinator.acquire("key");
    const grant = a.coordinator.takeCall("upstream:x", { requests: 3, per: 1_000 });
    const fact = a.coordinator.recall("contract");
    const waiting = a.coordinator.whenReleased("key", scene.clock.now() + 500);
    await scene.pass(1_100);
    expect(await lease).toBeDefined();
    expect(await grant).toMatchObject({ granted: false });
    expect(await fact).toBeUndefined();
    expect(await waiting).toBeUndefined();
  });
});
