import { describe, expect, test } from "vitest";
import { GatewayError } from "../../src/errors.ts";
import { RetryBudget } from "../../src/limits/retry-budget.ts";
import { LatencyQuantile } from "../../src/upstream/call/further-attempts.ts";
import { ConcurrencyLimit } from "../../src/limits/concurrency-limit.ts";
import { type Priority, WaitQueue } from "../../src/limits/wait-queue.ts";
import { ManualClock } from "../support/manual-clock.ts";
import {
  acceptCall,
  openUpstream,
  openUpstreams,
  startRegistry,
  upstreamConfigs,
} from "../support/upstream-registries.ts";

const late = () => new GatewayError("queue_timeout", "late");

describe("those who wait for their turn", () => {
  test("go by urgency, and by age among equals", async () => {
    const clock = new ManualClock();
    const queue = new WaitQueue(clock);
    const order: string[] = [];
    const wait = (name: string, priority: Priority) =>
      queue.wait({ priority, until: clock.now() + 1_000, late }).then(() => order.push(name));
    const waits = [
      wait("w", "background"),
      wait("m1", "miss"),
      wait("p1", "post"),
      wait("m2", "miss"),
      wait("p2", "post"),
    ];
    expect(queue.size).toBe(5);
    expect(queue.sizeBefore("miss")).toBe(4);
    while (queue.admitNext());
    await Promise.all(waits);
    expect(order).toEqual(["p1", "p2", "m1", "m2", "w"]);
    expect(queue.size).toBe(0);
  });

  test("leave when their time is up or their client is gone", async () => {
    const clock = new ManualClock();
    const queue = new WaitQueue(clock);
    const controller = new AbortController();
    const slow = queue.wait({ priority: "post", until: clock.now() + 100, late });
    const gone = queue.wait({ priority: "post", until: clock.now() + 500, late, signal: controller.signal });
    controller.abort();
    await expect(gone).rejects.toMatchObject({ code: "client_gone" });
    clock.advance(100);
    await expect(slow).rejects.toMatchObject({ status: 504 });
    expect(queue.admitNext()).toBe(false);
  });

  // Its client left while Redis was asked: a call was used for nobody, in the place of somebody who waited.
  test("do not wait at all when their client is gone already", async () => {
    const clock = new ManualClock();
    const queue = new WaitQueue(clock);
    const gone = queue.wait({ priority: "post", until: clock.now() + 500, late, signal: AbortSignal.abort() });
    expect(queue.size).toBe(0);
    clock.advance(500);
    await expect(gone).rejects.toMatchObject({ code: "client_gone" });
  });
});

describe("a concurrency", () => {
  test("bounds what runs and what waits, and hands places over", async () => {
    const clock = new ManualClock();
    const concurrency = new ConcurrencyLimit("amulet", { max: 2, queue: 1 }, clock);
    const deadline = clock.now() + 1_000;
    expect([concurrency.tryEnter(), concurrency.tryEnter(), concurrency.tryEnter()]).toEqual([true, true, false]);
    const waiting = concurrency.enter({ priority: "miss", deadline });
    await expect(concurrency.enter({ priority: "miss", deadline })).rejects.toMatchObject({
      status: 503,
      retryAfter: 1,
    });
    expect(concurrency).toMatchObject({ running: 2, queued: 1 });
    concurrency.leave();
    await waiting;
    expect(concurrency).toMatchObject({ running: 2, queued: 0 });
    concurrency.leave();
    concurrency.leave();
    expect(concurrency.running).toBe(0);
  });

  test("lets a more urgent call take the place in the queue of a less urgent one", async () => {
    const clock = new ManualClock();
    const concurrency = new ConcurrencyLimit("amulet", { max: 1, queue: 1 }, clock);
    const deadline = clock.now() + 1_000;
    concurrency.tryEnter();
    const background = concurrency.enter({ priority: "background", deadline });
    const post = concurrency.enter({ priority: "post", deadline });
    await expect(background).rejects.toMatchObject({ status: 503 });
    concurrency.leave();
    await expect(post).resolves.toBeUndefined();
  });

  test("turns away with 504 who waited until its deadline", async () => {
    const clock = new ManualClock();
    const concurrency = new ConcurrencyLimit("amulet", { max: 1, queue: 1 }, clock);
    concurrency.tryEnter();
    const waiting = concurrency.enter({ priority: "post", deadline: clock.now() + 50 });
    clock.advance(50);
    await expect(waiting).rejects.toMatchObject({ status: 504 });
  });

  test("makes no attempt for a client that goes in the moment in which its call gets its place", async () => {
    const registry = await startRegistry();
    const { upstream, observer } = openUpstream([registry], { concurrency: { max: 1 } });
    await upstream.call(acceptCall());
    const client = new AbortController();
    const first = upstream.call(acceptCall());
    const left = upstream.call(acceptCall({ signal: client.signal }));
    expect(upstream.status().queued).toBe(1);
    // The first call has left its place to the second one just before.
    observer.called = () => client.abort();
    await expect(left).rejects.toMatchObject({ code: "client_gone" });
    expect((await first).status).toBe(200);
    expect(observer.attempts).toHaveLength(2);
  });

  test("keeps one hanging upstream from taking anything from another", async () => {
    const [hanging, well] = [await startRegistry({ admin: "A::1220aa" }), await startRegistry({ admin: "B::1220bb" })];
    const { upstreams } = openUpstreams(
      upstreamConfigs(
        { name: "hanging", urls: [hanging.url], concurrency: { max: 5, queue: 10 } },
        { name: "well", urls: [well.url] },
      ),
    );
    const [bad, good] = [upstreams.byName("hanging")!, upstreams.byName("well")!];
    await bad.call(acceptCall());
    await hanging.faults.set({ kind: "hang" });
    const controller = new AbortController();
    const stuck = Array.from({ length: 30 }, () =>
      bad.call(acceptCall({ signal: controller.signal })).catch((error: GatewayError) => error.status),
    );
    expect((await good.call(acceptCall())).status).toBe(200);
    expect(bad.status()).toMatchObject({ running: 5, queued: 10 });
    await expect.poll(() => hanging.calls.open).toBe(5);
    controller.abort();
    const outcomes = await Promise.all(stuck);
    expect(outcomes.filter((status) => status === 503)).toHaveLength(15);
    expect(outcomes.filter((status) => status === 499)).toHaveLength(15);
    expect(bad.status()).toMatchObject({ running: 0, queued: 0 });
  });
});

test("extra attempts are earned by calls and time, and saved up to a bound", () => {
  const clock = new ManualClock();
  const bucket = new RetryBudget(clock, { perCall: 0.2, perSecond: 3, most: 5, first: 1 });
  expect([bucket.spend(), bucket.spend()]).toEqual([true, false]);
  for (let i = 0; i < 5; i++) bucket.earn();
  expect([bucket.spend(), bucket.spend()]).toEqual([true, false]);
  clock.advance(1_000);
  expect([bucket.spend(), bucket.spend(), bucket.spend(), bucket.spend()]).toEqual([true, true, true, false]);
  clock.advance(60_000);
  expect(bucket.left).toBe(5);
});

test("a quantile is of the latest 1024 latencies, and unknown before there are 20", () => {
  const latencies = new LatencyQuantile(0.95);
  for (let i = 0; i < 16; i++) latencies.record(1_000);
  expect(latencies.get()).toBeUndefined();
  for (let i = 1; i <= 1_152; i++) latencies.record(i % 256);
  expect(latencies.get()).toBeGreaterThanOrEqual(240);
  expect(latencies.get()).toBeLessThanOrEqual(247);
});
