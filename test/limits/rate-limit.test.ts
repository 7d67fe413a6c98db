import { describe, expect, onTestFinished, test } from "vitest";
import { stringify } from "yaml";
import { parseConfig } from "../../src/config/parse.ts";
import { sleep } from "../../src/clock.ts";
import { localCoordinator } from "../../src/sharing/alone.ts";
import { type LimitAnswer, type LimitClaim, LocalLimits } from "../../src/sharing/limits.ts";
import type { UpstreamConfig } from "../../src/config/schema.ts";
import { RateLimit } from "../../src/limits/rate-limit.ts";
import type { Priority } from "../../src/limits/wait-queue.ts";
import { RateLimitGroups } from "../../src/limits/counted-calls.ts";
import type { RateLimitConfig } from "../../src/limits/rate-limit.ts";
import { upstreamsOf } from "../../src/upstream/found.ts";
import { Upstreams } from "../../src/upstream/upstreams.ts";
import { ManualClock } from "../support/manual-clock.ts";
import {
  acceptCall,
  ADMIN,
  inTime,
  listCall,
  openUpstream,
  openUpstreams,
  startRegistry,
  upstreamConfigs,
} from "../support/upstream-registries.ts";

/** Limits behind a process border: every answer is a promise. */
class RemoteLimits extends LocalLimits {
  override take(claim: LimitClaim): LimitAnswer {
    return Promise.resolve(super.take(claim)) as unknown as LimitAnswer;
  }
}

const tick = () => new Promise((resolve) => setImmediate(resolve));

interface Scene {
  readonly clock: ManualClock;
  readonly limits: LocalLimits;
}

function here(isRemote = false): Scene {
  const clock = new ManualClock();
  return { clock, limits: isRemote ? new RemoteLimits(clock) : new LocalLimits(clock) };
}

function open(limit: Partial<RateLimitConfig> = {}, scene: Scene = here()) {
  const { clock, limits } = scene;
  const shares: number[] = [];
  const rateLimit = { requests: 10, per: 60_000, maxWait: 2_000, perEndpoint: false, ...limit };
  const budget = new RateLimit({
    upstream: "amulet",
    rateLimit,
    coordinator: { ...localCoordinator(clock), limits },
    clock,
    groups: new RateLimitGroups(),
    onRation: (share) => shares.push(share),
  });
  const take = (priority: Priority, time = 10_000) =>
    Promise.resolve(budget.take({ operation: "instruments", priority, deadline: clock.now() + time })).then(
      () => "taken",
      (error: { status: number; retryAfter: number }) => `${error.status} ${error.retryAfter}`,
    );
  return { clock, budget, shares, take };
}

/** Limits a round trip away. */
class DistantLimits extends LocalLimits {
  asked = 0;
  private readonly distance: ManualClock;

  constructor(distance: ManualClock) {
    super(distance);
    this.distance = distance;
  }

  override take(claim: LimitClaim): LimitAnswer {
    this.asked += 1;
    const answer = sleep(10, this.distance).then(async () => {
      const there = super.take(claim);
      await sleep(10, this.distance);
      return there;
    });
    return answer as unknown as LimitAnswer;
  }
}

/** A call that was granted a while ago. */
const late = (clock: ManualClock) =>
  ({ operation: "instruments", priority: "post", deadline: clock.now() + 10_000 }) as const;

test("a limit that a reload lowered holds for calls that wait since before it", async () => {
  const clock = new ManualClock();
  const groups = new RateLimitGroups();
  const coordinator = localCoordinator(clock);
  const limitOf = (requests: number) =>
    new RateLimit({
      upstream: "amulet",
      rateLimit: { requests, per: 1_000, maxWait: 60_000, perEndpoint: false },
      coordinator,
      clock,
      groups,
      onRation: () => undefined,
    });
  let granted = 0;
  const take = (limit: RateLimit) =>
    void Promise.resolve(limit.take({ ...late(clock), deadline: clock.now() + 60_000 })).then(() => (granted += 1));
  const before = limitOf(10);
  for (let i = 0; i < 40; i += 1) take(before);
  await tick();
  expect(granted).toBe(10);
  take(limitOf(2));
  for (let i = 0; i < 50; i += 1) {
    clock.advance(100);
    await tick();
  }
  // Five seconds of two each.
  expect(granted).toBeGreaterThan(10);
  expect(granted).toBeLessThanOrEqual(20);
});

// Calls that waited were asked for one by one: at 20 ms the queue let 50 go a second, and never emptied again.
test("a queue that a burst left is gone soon, however far away the limit is counted", async () => {
  const clock = new ManualClock();
  const limits = new DistantLimits(clock);
  const { take, budget } = open({ requests: 100, per: 1_000, maxWait: 2_000 }, { clock, limits });
  const refused: string[] = [];
  const call = () => void take("post").then((outcome) => outcome === "taken" || refused.push(outcome));
  for (let i = 0; i < 120; i += 1) call();
  for (let i = 0; i < 280; i += 1) {
    call();
    for (let j = 0; j < 7; j += 1) {
      clock.advance(2);
      await tick();
    }
  }
  expect(refused).toEqual([]);
  expect(budget.queued).toBeLessThan(5);
  // Refused questions cost Redis as much as granted ones.
  expect(limits.asked).toBeLessThan(2 * 400);
});

describe.each([
  ["in this process", false],
  ["behind a process border", true],
])("a call budget kept %s", (_where, isRemote) => {
  test("grants so many calls in any window, and refuses at once what would wait too long", async () => {
    const { take, clock } = open({}, here(isRemote));
    for (let i = 0; i < 10; i++) expect(await take("post")).toBe("taken");
    expect(await take("post")).toBe("429 62");
    clock.advance(57_600);
    expect(await take("post")).toMatch(/^429 [45]$/);
    clock.advance(4_300);
    for (let i = 0; i < 10; i++) expect(await take("post")).toBe("taken");
    expect(await take("post")).toBe("429 62");
  });

  // A registry of ten a second was asked an eleventh time 944 ms after the first, whose way had been longer.
  test("makes a short window longer by what the ways of calls differ in", async () => {
    const { take, clock } = open({ per: 1_000, maxWait: 0 }, here(isRemote));
    for (let i = 0; i < 10; i++) expect(await take("post")).toBe("taken");
    clock.advance(1_090);
    expect(await take("post")).toMatch(/^429/);
    clock.advance(40);
    expect(await take("post")).toBe("taken");
  });

  // A registry of ten a second was asked an eleventh time when it was back from an outage: calls had waited for a connection.
  test("counts a call from when it is made, where it was granted earlier", async () => {
    const { budget, take, clock } = open({ requests: 2, per: 1_000, maxWait: 0 }, here(isRemote));
    const grantedAt = clock.now();
    for (let i = 0; i < 2; i++) expect(await take("post")).toBe("taken");
    clock.advance(700);
    await budget.begin(late(clock), grantedAt);
    clock.advance(430);
    expect(await take("post")).toBe("taken");
    expect(await take("post")).toBe("429 1");
    clock.advance(700);
    expect(await take("post")).toBe("taken");
  });

  test("has a call wait for nothing more that is made at once", async () => {
    const { budget, take, clock } = open({ requests: 2, per: 1_000, maxWait: 0 }, here(isRemote));
    const grantedAt = clock.now();
    expect(await take("post")).toBe("taken");
    clock.advance(40);
    expect(budget.begin(late(clock), grantedAt)).toBeUndefined();
    expect(await take("post")).toBe("taken");
  });

  test("wants another call for one that was granted before the window", async () => {
    const { budget, take, clock } = open({ requests: 2, per: 1_000, maxWait: 0 }, here(isRemote));
    const grantedAt = clock.now();
    expect(await take("post")).toBe("taken");
    clock.advance(1_200);
    await budget.begin(late(clock), grantedAt);
    expect(await take("post")).toBe("taken");
    await expect(budget.begin(late(clock), grantedAt)).rejects.toMatchObject({ status: 429, retryAfter: 2 });
  });

  test("has one whose grant is out of the window wait for another as any call does", async () => {
    const { budget, take, clock } = open({ requests: 2, per: 1_000 }, here(isRemote));
    const grantedAt = clock.now();
    expect(await take("post")).toBe("taken");
    clock.advance(1_200);
    for (let i = 0; i < 2; i++) expect(await take("post")).toBe("taken");
    const begun: number[] = [];
    const waiting = budget.begin(late(clock), grantedAt)!.then(() => begun.push(clock.now() - grantedAt));
    for (let i = 0; i < 60; i += 1) {
      clock.advance(20);
      await tick();
    }
    await waiting;
    expect(begun[0]).toBeGreaterThan(2_200);
    expect(begun[0]).toBeLessThan(2_400);
  });

  test("lets wait what comes free within maxWait, the most urgent first", async () => {
    const { take, clock } = open({ requests: 2, per: 3_000 }, here(isRemote));
    await take("post");
    clock.advance(1_200);
    await take("post");
    clock.advance(1_300);
    const order: string[] = [];
    const note = (name: string) => (outcome: string) => order.push(`${name} ${outcome}`);
    const miss = take("miss").then(note("miss"));
    await tick();
    const post = take("post").then(note("post"));
    await tick();
    expect(order).toEqual([]);
    for (let i = 0; i < 40; i += 1) {
      clock.advance(50);
      await tick();
    }
    await Promise.all([miss, post]);
    expect(order).toEqual(["post taken", "miss taken"]);
  });

  // The queue was looked at when the background call had room: the POSTs before it waited for that, or were refused.
  test("lets a call go as soon as there is room for it, though a less urgent one waits for longer", async () => {
    const { budget, clock } = open({ requests: 10, per: 1_000 }, here(isRemote));
    const start = clock.now();
    const goneAt: string[] = [];
    const take = (priority: Priority, maxWait = 2_000) => {
      const call = { operation: "instruments", priority, maxWait, deadline: start + 10_000 } as const;
      const note = (outcome: string) => void goneAt.push(`${priority} ${outcome} ${clock.now() - start}`);
      void Promise.resolve(budget.take(call)).then(
        () => note("taken"),
        () => note("refused"),
      );
    };
    const pass = async (duration: number) => {
      for (let i = 0; i < duration; i += 10) {
        clock.advance(10);
        await tick();
      }
    };
    for (let i = 0; i < 3; i += 1) take("post");
    await pass(400);
    for (let i = 0; i < 7; i += 1) take("post");
    await pass(50);
    goneAt.length = 0;
    take("background");
    await pass(50);
    for (const maxWait of [900, 2_000]) take("post", maxWait);
    await pass(700);
    const inTime: unknown = expect.stringMatching(/^post taken 11[0-4]0$/);
    expect(goneAt).toEqual([inTime, inTime]);
  });

  test("lets nobody wait beyond its deadline", async () => {
    const { take, clock } = open({ requests: 1, per: 2_000 }, here(isRemote));
    await take("post");
    clock.advance(1_200);
    expect(await take("post", 500)).toBe("429 1");
  });

  test("keeps a reserve for what is more urgent", async () => {
    const { take } = open({ requests: 10 }, here(isRemote));
    for (let i = 0; i < 5; i++) expect(await take("background")).toBe("taken");
    expect(await take("background")).toBe("429 62");
    for (let i = 0; i < 2; i++) expect(await take("refresh")).toBe("taken");
    expect(await take("refresh")).toBe("429 62");
    for (let i = 0; i < 1; i++) expect(await take("miss")).toBe("taken");
    expect(await take("miss")).toBe("429 62");
    for (let i = 0; i < 2; i++) expect(await take("post")).toBe("taken");
    expect(await take("post")).toBe("429 62");
  });

  // They were those of the shorter window, which a single call may fill, and stayed as they were seen last.
  test("has left what the whole window leaves, whatever burst does, and all of it after a quiet one", async () => {
    const { take, budget, clock } = open({ burst: { requests: 1, per: 1_000 }, maxWait: 0 }, here(isRemote));
    expect(budget.left).toBe(10);
    expect(await take("post")).toBe("taken");
    expect(await take("post")).toBe("429 2");
    expect(budget.left).toBe(9);
    clock.advance(59_000);
    expect(await take("post")).toBe("taken");
    expect(budget.left).toBe(8);
    clock.advance(61_000);
    expect(budget.left).toBe(10);
  });

  test("shrinks for a while when the upstream says 429, and waits as long as that asks", async () => {
    const { take, budget, clock, shares } = open({ requests: 10 }, here(isRemote));
    budget.shrink("instruments", 5);
    budget.shrink("instruments", 5);
    expect(shares).toEqual([0.5]);
    expect(await take("post")).toBe("429 5");
    clock.advance(5_000);
    for (let i = 0; i < 5; i++) expect(await take("post")).toBe("taken");
    expect(await take("post")).toMatch(/^429/);
    clock.advance(120_000);
    for (let i = 0; i < 10; i++) expect(await take("post")).toBe("taken");
  });
});

describe("upstreams of one group", () => {
  function openGroup(names: readonly string[], limit: Partial<RateLimitConfig> = {}) {
    const clock = new ManualClock();
    const told: string[] = [];
    const announce = (news: string) => void told.push(news);
    const coordinator = { ...localCoordinator(clock), announcements: { announce, onAnnounced: () => undefined } };
    const groups = new RateLimitGroups();
    const rateLimit = { requests: 20, per: 60_000, maxWait: 2_000, perEndpoint: false, group: "host", ...limit };
    const configs = names.map((name) => ({ name, rateLimit }) as unknown as UpstreamConfig);
    groups.reset(configs);
    const onRation = (_share: number, isNew: boolean) => void (isNew && told.push("a line of the log"));
    const open = (name: string) => new RateLimit({ upstream: name, rateLimit, coordinator, clock, groups, onRation });
    const members = Object.fromEntries(names.map((name) => [name, open(name)]));
    const take = (name: string, priority: Priority = "post") =>
      Promise.resolve(members[name]!.take({ operation: "info", priority, deadline: clock.now() + 10_000 })).then(
        () => "taken",
        (error: Error & { status: number }) => `${error.status} ${error.message}`,
      );
    const takeAll = async (name: string, priority: Priority = "post") => {
      let taken = 0;
      while ((await take(name, priority)) === "taken") taken += 1;
      return taken;
    };
    return { clock, groups, configs, open, members, take, takeAll, told };
  }

  test("have one limit, in the order in which they ask", async () => {
    const { takeAll, take, members, clock } = openGroup(["a", "b"]);
    expect(await takeAll("b")).toBe(20);
    expect(members["a"]!.left).toBe(0);
    expect(await take("a")).toMatch(/^429 .*the upstreams of the group "host" together 20 times in 60 s/);
    clock.advance(62_000);
    expect(await take("a")).toBe("taken");
    expect(await takeAll("b")).toBe(19);
  });

  test("keep to the second, shorter window together as well", async () => {
    const { takeAll, take, clock } = openGroup(["a", "b"], { burst: { requests: 5, per: 1_000 }, maxWait: 0 });
    expect(await takeAll("a")).toBe(5);
    expect(await take("b")).toMatch(/^429 .*20 times in 60 s and 5 times in 1 s/);
    let taken = 5;
    for (let i = 0; i < 10; i += 1) {
      clock.advance(1_050);
      taken += await takeAll(i % 2 === 0 ? "b" : "a");
    }
    expect(taken).toBe(20);
  });

  test("that is the only one has it all", async () => {
    const { takeAll } = openGroup(["a"]);
    expect(await takeAll("a")).toBe(20);
  });

  test("keep their priorities: background work of one leaves room for clients of another", async () => {
    const { takeAll } = openGroup(["a", "b"]);
    expect(await takeAll("a", "background")).toBe(10);
    expect(await takeAll("b", "background")).toBe(0);
    expect(await takeAll("b")).toBe(10);
  });

  test("are all asked less when one of them is answered 429", async () => {
    const { members, take, takeAll, clock } = openGroup(["a", "b"]);
    members["a"]!.shrink("info", 5);
    expect(await take("b")).toMatch(/^429 .*; try again in 5 s$/);
    clock.advance(5_000);
    expect((await takeAll("b")) + (await takeAll("a"))).toBe(10);
  });

  test("hear of a 429 that another process was answered, once, and tell it to none", async () => {
    const [here, there, apart] = [openGroup(["a", "b"]), openGroup(["b", "c"]), openGroup(["a"], { group: "other" })];
    const tell = () => {
      for (const news of here.told)
        for (const { members } of [there, apart]) members[Object.keys(members)[0]!]!.receive(news);
    };
    for (let i = 0; i < 20; i += 1) here.members["a"]!.shrink("info", 5);
    expect(here.told).toEqual(["a line of the log", "refused info 5000 group:host"]);
    tell();
    expect(await there.take("c")).toMatch(/^429 .*; try again in 5 s$/);
    expect(await apart.take("a")).toBe("taken");
    expect(there.told).toEqual([]);
    there.clock.advance(5_000);
    expect((await there.takeAll("b")) + (await there.takeAll("c"))).toBe(10);
    // It wants to be left alone for longer than was told.
    here.members["b"]!.shrink("info", 30);
    expect(here.told.slice(2)).toEqual(["refused info 30000 group:host"]);
  });

  test.each([
    "refused info 60001 group:host",
    "refused info -1 group:host",
    "refused info 5000",
    "refused nothing 5000 group:host",
    "refused info 5000 group:host2",
    "refused info 5000 upstream:a",
    "refused",
    "",
  ])("do not heed %j", async (news) => {
    const { members, takeAll } = openGroup(["a", "b"]);
    members["a"]!.receive(news);
    expect((await takeAll("a")) + (await takeAll("b"))).toBe(20);
  });

  test("hear of it by endpoint where each endpoint has a limit of its own", async () => {
    const { members, take, clock } = openGroup(["a", "b"], { perEndpoint: true });
    members["a"]!.receive("refused instruments 5000 group:host");
    expect(await take("b")).toBe("taken");
    const take2 = members["b"]!.take({ operation: "instruments", priority: "post", deadline: clock.now() + 1_000 });
    await expect(take2).rejects.toMatchObject({ status: 429, retryAfter: 5 });
  });

  test("wait in one queue: who asked first is served first", async () => {
    const { take, clock } = openGroup(["a", "b"], { requests: 1, per: 1_000, maxWait: 60_000 });
    expect(await take("a")).toBe("taken");
    const order: string[] = [];
    for (const name of ["a", "b", "b", "a", "b", "a"]) void take(name).then(() => order.push(name));
    for (let i = 0; i < 10; i += 1) {
      await tick();
      clock.advance(1_050);
    }
    await tick();
    expect(order).toEqual(["a", "b", "b", "a", "b", "a"]);
  });

  test("keep the count and what was learned when members come and go", async () => {
    const { groups, configs, open, take, takeAll, members, clock } = openGroup(["a", "b"]);
    members["a"]!.shrink("info", undefined);
    expect(await takeAll("b")).toBe(10);
    groups.reset([configs[0]!]);
    // Made anew by a reload, as its configuration changed.
    members["a"] = open("a");
    expect(await takeAll("a")).toBe(0);
    groups.reset(configs);
    members["b"] = open("b");
    expect(await take("b")).toMatch(/^429/);
    clock.advance(125_000);
    expect((await takeAll("a")) + (await takeAll("b"))).toBe(20);
  });
});

test("what is found behind one host shares the limit of discovery by itself", () => {
  const text = stringify({
    discovery: { sources: [{ url: "https://lists.example/assets.json" }], defaults: { rateLimit: { requests: 7 } } },
  });
  const { config, problems } = parseConfig({ text, file: "test.yaml", env: {} });
  expect(problems).toEqual([]);
  const registries = [
    { name: "a", admin: "a::1220aa", urls: ["https://h.example/a"] },
    { name: "b", admin: "b::1220bb", urls: ["https://h.example/b", "https://h.example/b2"] },
    { name: "c", admin: "c::1220cc", urls: ["https://h.example/c", "https://other.example/c"] },
  ];
  const found = upstreamsOf(config!, { registries, isComplete: true });
  expect(found.map(({ rateLimit }) => [rateLimit?.requests, rateLimit?.group])).toEqual([
    [7, "host:h.example"],
    [7, "host:h.example"],
    [7, undefined],
  ]);
});

test("with perEndpoint, an endpoint that used up its window has it back when nobody calls it any more", async () => {
  const { take, budget, clock } = open({ requests: 1, perEndpoint: true, maxWait: 0 });
  expect(await take("post")).toBe("taken");
  expect(budget.left).toBe(0);
  clock.advance(61_000);
  expect(budget.left).toBe(1);
});

test("with perEndpoint each endpoint has a window of its own", async () => {
  const { budget, clock } = open({ requests: 1, perEndpoint: true });
  const deadline = clock.now() + 1_000;
  expect(budget.take({ operation: "info", priority: "post", deadline })).toBeUndefined();
  expect(budget.take({ operation: "instruments", priority: "post", deadline })).toBeUndefined();
  await expect(budget.take({ operation: "info", priority: "post", deadline })).rejects.toMatchObject({ status: 429 });
});

describe("an upstream with rateLimit", () => {
  const rateLimit = { requests: 5, per: "1m", maxWait: "0s" };

  test("gets no more calls than that, checks and retries included, and clients get 429 that says when", async () => {
    const registry = await startRegistry();
    const { upstream, observer } = openUpstream([registry], { rateLimit });
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, () =>
        upstream.call(acceptCall()).then(
          ({ status }) => status,
          (error: { status: number }) => error.status,
        ),
      ),
    );
    expect(outcomes.filter((status) => status === 200)).toHaveLength(4);
    expect(outcomes.filter((status) => status === 429)).toHaveLength(16);
    expect(registry.calls.total).toBe(5);
    await expect(upstream.call(acceptCall())).rejects.toMatchObject({
      status: 429,
      retryAfter: expect.toSatisfy((seconds: number) => seconds === 61 || seconds === 62),
      message: expect.stringMatching(/may ask upstream "amulet" 5 times in 60 s/),
    });
    expect(observer.count("refused amulet rate-limit")).toBe(17);
    expect(upstream.status().budgetLeft).toBe(0);
  });

  test("gets no more in any window when it fails and all its nodes are asked for their info", async () => {
    const clock = new ManualClock();
    const registries = await Promise.all([0, 1, 2].map(() => startRegistry({ clock })));
    const limit = { requests: 2, per: "1s", maxWait: "1m" };
    const keys = { rateLimit: limit, retry: { attempts: 1 }, hedge: { enabled: false } };
    const { upstream } = openUpstream(registries, keys, { clock });
    const at: number[] = [];
    for (const each of registries) {
      each.script(({ operation }) => {
        at.push(clock.now());
        return operation === "info" ? undefined : { status: 503, body: '{"error":"not now"}' };
      });
    }
    const deadline = clock.now() + 3_600_000;
    const infos = () => registries.reduce((sum, { calls }) => sum + calls.count("info"), 0);
    const calls = (async () => {
      for (let i = 0; i < 12; i += 1) await upstream.call(acceptCall({ path: `${acceptCall().path}?${i}`, deadline }));
    })();
    const end = new AbortController();
    void calls.finally(() => end.abort());
    while (!end.signal.aborted || infos() < 6) {
      clock.advance(20);
      await tick();
    }
    await calls;
    for (let i = 2; i < at.length; i += 1) expect(at[i]! - at[i - 2]!).toBeGreaterThanOrEqual(1_000);
  });

  test("gets no more in any window when calls had to wait for a connection", async () => {
    const registry = await startRegistry();
    const clock = new ManualClock();
    const limit = { requests: 4, per: "1s", maxWait: "0s" };
    const { upstream } = openUpstream([registry], { rateLimit: limit, proof: { every: "1h" } }, { clock });
    const deadline = clock.now() + 60_000;
    await upstream.learnAdmin(deadline);
    clock.advance(2_000);
    await registry.kill();
    await registry.revive();
    const proof = Promise.withResolvers<void>();
    registry.script(async ({ operation }) => {
      if (operation === "info") await proof.promise;
      return undefined;
    });
    const call = () =>
      upstream.call(acceptCall({ deadline })).then(
        ({ status }) => status,
        (error: { status: number }) => error.status,
      );
    const waiting = [call(), call()];
    await registry.calls.reached(2);
    clock.advance(800);
    proof.resolve();
    expect(await Promise.all(waiting)).toEqual([200, 200]);
    clock.advance(350);
    expect((await Promise.all([call(), call(), call(), call()])).toSorted()).toEqual([200, 200, 429, 429]);
  });

  test("shares it with its group, also through a reload that adds and removes members", async () => {
    const registries = { a: await startRegistry(), b: await startRegistry(), c: await startRegistry() };
    const config = (name: keyof typeof registries) => ({
      name,
      urls: [registries[name].url],
      rateLimit: { ...rateLimit, requests: 20, group: "host" },
    });
    const total = () => Object.values(registries).reduce((sum, { calls }) => sum + calls.total, 0);
    const takeAll = async (upstreams: Upstreams, name: string) => {
      const calls = Array.from({ length: 25 }, () =>
        upstreams
          .byName(name)!
          .call(acceptCall())
          .catch(() => undefined),
      );
      return (await Promise.all(calls)).filter((answer) => answer?.status === 200).length;
    };
    const { upstreams, environment } = openUpstreams(upstreamConfigs(config("a"), config("b")));
    // One call is the proof of its admin.
    expect(await takeAll(upstreams, "a")).toBe(19);
    expect(upstreams.status().map((each) => [each.rateLimitGroup, each.budgetLeft])).toEqual([
      ["host", 0],
      ["host", 0],
    ]);
    const next = new Upstreams(upstreamConfigs(config("b"), config("c")), environment, upstreams);
    await upstreams.closeExcept(next);
    onTestFinished(() => next.close());
    expect((await takeAll(next, "b")) + (await takeAll(next, "c"))).toBe(0);
    expect(total()).toBeLessThanOrEqual(20);
    expect(next.status()[0]!.budgetLeft).toBe(0);
  });

  test("leaves its whole group alone when a check is answered 429", async () => {
    const registries = { a: await startRegistry(), b: await startRegistry() };
    const config = (name: keyof typeof registries) => ({
      name,
      urls: [registries[name].url],
      rateLimit: { ...rateLimit, requests: 20, group: "host" },
    });
    const { upstreams } = openUpstreams(upstreamConfigs(config("a"), config("b")));
    await registries.a.faults.set({ kind: "429", retryAfter: "20", operations: ["info"] });
    await expect(upstreams.byName("a")!.call(acceptCall())).rejects.toMatchObject({ retryAfter: 20 });
    await expect(upstreams.byName("b")!.call(acceptCall())).rejects.toMatchObject({ status: 429, retryAfter: 20 });
    expect([registries.a.calls.total, registries.b.calls.total]).toEqual([1, 0]);
  });

  test("is asked less after it answered 429", async () => {
    const registry = await startRegistry();
    const { upstream, observer } = openUpstream([registry], { rateLimit: { requests: 100, per: "1m" } });
    await upstream.call(listCall());
    await registry.faults.set({ kind: "429", retryAfter: "20", times: 1 });
    expect((await upstream.call(acceptCall())).status).toBe(429);
    expect(observer.events).toContain("rationed amulet 0.5");
    await expect(upstream.call(acceptCall())).rejects.toMatchObject({ status: 429, retryAfter: 20 });
    expect(registry.calls.count("transfer_accept")).toBe(1);
  });
});

describe("a 429 where no rateLimit is configured", () => {
  const answering = async (headers: readonly string[], body: string) => {
    const registry = await startRegistry();
    const { upstream } = openUpstream([registry], {});
    await upstream.call(listCall());
    registry.script(({ url }) => (url.includes("accept") ? { status: 429, headers: [...headers], body } : undefined));
    expect((await upstream.call(acceptCall())).status).toBe(429);
    return { registry, upstream };
  };

  test("with Retry-After has its node left alone for that long, though it is the only one", async () => {
    const { registry, upstream } = await answering(["retry-after", "20", "content-type", "text/plain"], "slow down");
    await expect(upstream.call(acceptCall())).rejects.toMatchObject({ status: 429, retryAfter: 20 });
    expect(registry.calls.count("transfer_accept")).toBe(1);
  });

  test("with Retry-After is not forgotten with a reload", async () => {
    const registry = await startRegistry();
    const { upstreams, environment } = openUpstream([registry], { admin: ADMIN });
    await upstreams.byName("amulet")!.call(listCall());
    registry.script(() => ({ status: 429, headers: ["retry-after", "20", "content-type", "text/plain"], body: "" }));
    expect((await upstreams.byName("amulet")!.call(acceptCall())).status).toBe(429);
    const [config] = upstreamConfigs({ name: "amulet", admin: ADMIN, urls: [registry.url], timeout: "9s" });
    const next = new Upstreams([config!], environment, upstreams);
    onTestFinished(() => next.close());
    await expect(next.byName("amulet")!.call(acceptCall())).rejects.toMatchObject({ status: 429 });
    expect(registry.calls.count("transfer_accept")).toBe(1);
  });

  test("with Retry-After to a check is obeyed by checks, and no fault of the node", async () => {
    const clock = new ManualClock();
    const registry = await startRegistry();
    const { upstream, upstreams } = openUpstream([registry], {}, { clock });
    await upstream.learnAdmin(clock.now() + 60_000);
    upstreams.start();
    await registry.calls.reached(2);
    await expect.poll(() => registry.calls.open).toBe(0);
    registry.calls.clear();
    registry.script(() => ({ status: 429, headers: ["retry-after", "20"], body: "" }));
    upstreams.receive(undefined);
    await registry.calls.reached(1);
    const pass = async (seconds: number) => {
      for (let i = 0; i < seconds * 4; i += 1) {
        clock.advance(250);
        await tick();
      }
    };
    await pass(18);
    upstreams.receive(undefined);
    await pass(1);
    expect(registry.calls.count("info")).toBe(1);
    expect(upstream.status().nodes[0]!.state).toBe("up");
    registry.script(undefined);
    await pass(10);
    upstreams.receive(undefined);
    await registry.calls.reached(2);
  });

  test("with Retry-After to the info that a breaker asks for opens none, and has nothing asked until then", async () => {
    const clock = new ManualClock();
    const registry = await startRegistry();
    const { upstream } = openUpstream([registry], { retry: { attempts: 1 } }, { clock });
    const deadline = clock.now() + 3_600_000;
    await upstream.learnAdmin(deadline);
    const refusal = { status: 429, headers: ["retry-after", "30"], body: "" };
    const failure = { status: 503, body: '{"error":"not now"}' };
    registry.script(({ operation }) => (operation === "info" ? refusal : failure));
    registry.calls.clear();
    for (let i = 0; i < 10; i += 1) await upstream.call(acceptCall({ path: `${acceptCall().path}?${i}`, deadline }));
    await expect.poll(() => registry.calls.count("info")).toBe(1);
    await expect.poll(() => registry.calls.open).toBe(0);
    for (let i = 0; i < 25; i += 1) {
      clock.advance(1_000);
      await tick();
    }
    expect(registry.calls.count("info")).toBe(1);
    await expect(upstream.call(acceptCall({ deadline }))).rejects.toMatchObject({ status: 429 });
  });

  test("of a conflict of the ledger, as JSON without Retry-After, pauses nothing", async () => {
    const body = '{"error":"ABORTED: the contract is being reassigned"}';
    const { registry, upstream } = await answering(["content-type", "application/json"], body);
    expect((await upstream.call(acceptCall())).status).toBe(429);
    expect(registry.calls.count("transfer_accept")).toBe(2);
  });
});

test("a conflict of the ledger sent as 429 does not have an upstream with rateLimit asked less", async () => {
  const registry = await startRegistry();
  const { upstream, observer } = openUpstream([registry], { rateLimit: { requests: 100, per: "1m" } });
  await upstream.call(listCall());
  const conflict = { status: 429, headers: ["content-type", "application/json"], body: '{"error":"ABORTED"}' };
  registry.script(({ url }) => (url.includes("accept") ? conflict : undefined));
  expect((await upstream.call(acceptCall())).status).toBe(429);
  expect((await upstream.call(acceptCall())).status).toBe(429);
  expect(observer.events.filter((event) => event.startsWith("rationed"))).toEqual([]);
});

test.each([
  ['{"error":"ABORTED: the contract is being reassigned"}', 0],
  ['{"error":"too many requests"}', 1],
])("a check that is answered 429 with %s has the upstream asked less %d times", async (body, times) => {
  const registry = await startRegistry();
  const { upstream, observer } = openUpstream([registry], { rateLimit: { requests: 100, per: "1m" } });
  registry.script(() => ({ status: 429, headers: ["content-type", "application/json"], body }));
  await expect(upstream.learnAdmin(inTime(5_000))).rejects.toMatchObject({ code: "upstream_busy" });
  expect(observer.events.filter((event) => event.startsWith("rationed"))).toHaveLength(times);
});
