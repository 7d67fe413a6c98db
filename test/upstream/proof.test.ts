import { describe, expect, onTestFinished, test } from "vitest";
import { Upstreams } from "../../src/upstream/upstreams.ts";
import { measureLoopTime } from "../support/loop-time.ts";
import {
  ADMIN,
  acceptCall,
  inTime,
  listCall,
  openUpstream,
  openUpstreams,
  OTHER_ADMIN,
  startRegistry,
  streamedCall,
  upstreamConfigs,
} from "../support/upstream-registries.ts";
import { findFreePort } from "../support/ports.ts";
import { ManualClock } from "../support/manual-clock.ts";

describe("no request reaches a node that has not proved its admin:", () => {
  test("the first request awaits one info for all", async () => {
    const registry = await startRegistry();
    const { upstream, observer } = openUpstream([registry], { admin: ADMIN });
    const answers = await Promise.all(Array.from({ length: 5 }, () => upstream.call(acceptCall())));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    expect(registry.calls.count("info")).toBe(1);
    expect(registry.calls.recent[0]?.operation).toBe("info");
    expect(observer.events).toContain(`proved amulet ${ADMIN}`);
  });

  test("a node of another registry gets nothing, and the answer is 502 that names both admins", async () => {
    const registry = await startRegistry({ admin: OTHER_ADMIN });
    const { upstream, observer } = openUpstream([registry], { admin: ADMIN });
    await expect(upstream.call(acceptCall())).rejects.toMatchObject({
      status: 502,
      proxyError: "proxy_configuration_error",
      message: expect.stringMatching(/"Other::1220bb" and not "DSO::1220aa"/),
    });
    expect(registry.calls.count("transfer_accept")).toBe(0);
    expect(upstream.status()).toMatchObject({ state: "wrong-admin", nodes: [{ state: "wrong-admin" }] });
    expect(observer.events).toContain(`mismatch amulet ${OTHER_ADMIN}`);
  });

  test.each<[string, number, RegExp]>([
    ["status", 502, /answered 500 when asked which registry it is/],
    ["429", 503, /answered 429 when asked/],
    ["html-404", 502, /registry URL is probably wrong/],
    ["not-json", 502, /not JSON/],
    ["redirect", 502, /redirect/],
    ["reset", 502, /closed the connection/],
  ])("an info with the fault %s is the answer of the request: %i", async (kind, status, text) => {
    const registry = await startRegistry();
    await registry.faults.set(kind === "status" ? { kind, status: 500 } : ({ kind } as { kind: "429" }));
    const { upstream } = openUpstream([registry]);
    await expect(upstream.call(acceptCall())).rejects.toMatchObject({ status, message: expect.stringMatching(text) });
    expect(registry.calls.count("transfer_accept")).toBe(0);
  });

  test("an info without adminId proves nothing", async () => {
    const registry = await startRegistry();
    registry.script(() => ({ status: 200, body: '{"adminId":7}' }));
    const { upstream } = openUpstream([registry]);
    await expect(upstream.call(acceptCall())).rejects.toMatchObject({
      status: 502,
      message: expect.stringMatching(/adminId/),
    });
  });

  test("a hanging info is 504 at the request's own deadline", async () => {
    const registry = await startRegistry();
    await registry.faults.set({ kind: "hang" });
    const { upstream } = openUpstream([registry]);
    const took = measureLoopTime();
    await expect(upstream.call(acceptCall({ deadline: inTime(100) }))).rejects.toMatchObject({ status: 504 });
    expect(took()).toBeLessThan(5_000);
  });

  test("a compressed info is read", async () => {
    const registry = await startRegistry();
    await registry.faults.set({ kind: "gzip" });
    const { upstream } = openUpstream([registry]);
    expect(await upstream.learnAdmin(inTime(5_000))).toBe(ADMIN);
  });

  test("of two nodes one proved is enough, and only that one is asked", async () => {
    const [good, wrong] = [await startRegistry(), await startRegistry({ admin: OTHER_ADMIN })];
    const { upstream } = openUpstream([wrong, good], { admin: ADMIN });
    for (let i = 0; i < 5; i++) expect((await upstream.call(acceptCall())).node).toBe(1);
    expect(wrong.calls.count("transfer_accept")).toBe(0);
  });
});

describe("an admin is learned", () => {
  test("from the first node that tells it", async () => {
    const registry = await startRegistry();
    const { upstream, upstreams } = openUpstream([`http://127.0.0.1:${await findFreePort()}`, registry]);
    expect(upstream.admin).toBeUndefined();
    expect(upstreams.unlearned).toBe(true);
    expect(upstreams.byAdmin(ADMIN)).toBeUndefined();
    expect(await upstream.learnAdmin(inTime(5_000))).toBe(ADMIN);
    expect(upstreams.byAdmin(ADMIN)).toBe(upstream);
    expect(upstreams.unlearned).toBe(false);
  });

  test("and nodes that teach different ones disable the upstream", async () => {
    const registries = [await startRegistry(), await startRegistry({ admin: OTHER_ADMIN })];
    const { upstream, upstreams } = openUpstream(registries);
    upstreams.start();
    await expect.poll(() => upstream.state).toBe("disabled");
    await expect(upstream.call(listCall())).rejects.toMatchObject({
      status: 503,
      message: expect.stringMatching(
        /disabled: its nodes name different admins, "DSO::1220aa" and "Other::1220bb"|disabled: its nodes name different admins, "Other::1220bb" and "DSO::1220aa"/,
      ),
    });
    expect(registries.map(({ calls }) => calls.count("instruments"))).toEqual([0, 0]);
  });

  test("and two upstreams that learn the same one are both disabled, whoever told it first, until one is pinned", async () => {
    const [right, newcomer] = [await startRegistry(), await startRegistry()];
    const { port } = new URL(right.url);
    await right.kill();
    const keys = [
      { name: "right", urls: [`http://127.0.0.1:${port}`] },
      { name: "newcomer", urls: [newcomer.url] },
    ] as const;
    const { upstreams, environment, forgotten, observer } = openUpstreams(upstreamConfigs(...keys));
    // The right one is down at the start, and the newcomer takes its calls.
    expect((await upstreams.byName("newcomer")!.call(acceptCall())).status).toBe(200);
    await right.revive();
    const disabled = { status: 503, message: expect.stringMatching(/is disabled: another upstream has its admin$/) };
    const lastError = expect.stringMatching(/"newcomer" and "right" both name the admin "DSO::1220aa"; set admin/);
    await expect(upstreams.byName("right")!.learnAdmin(inTime(5_000))).rejects.toMatchObject(disabled);
    for (const upstream of upstreams.all) {
      await expect(upstream.call(acceptCall())).rejects.toMatchObject(disabled);
      await expect(upstream.stream(streamedCall())).rejects.toMatchObject(disabled);
      expect(upstream.status()).toMatchObject({ state: "disabled", isContested: true, lastError });
    }
    expect([right, newcomer].map(({ calls }) => calls.count("transfer_accept"))).toEqual([0, 1]);
    expect(forgotten).toEqual([ADMIN]);
    expect(observer.events).toContain("upstream up → disabled newcomer");

    const pinned = upstreamConfigs({ ...keys[0], admin: ADMIN }, keys[1]);
    const next = new Upstreams(pinned, environment, upstreams);
    onTestFinished(() => next.close());
    expect((await next.byAdmin(ADMIN)!.call(acceptCall())).status).toBe(200);
    expect(next.byAdmin(ADMIN)!.name).toBe("right");
    expect(next.byName("newcomer")!.status()).toMatchObject({ state: "disabled", isContested: false });
    expect([right, newcomer].map(({ calls }) => calls.count("transfer_accept"))).toEqual([1, 1]);
  });

  test.each(["good", "x::y", "::1220aa", "DSO::1220xyz", "DSO::1220aa\n", `${"a".repeat(300)}::1220aa`])(
    "only in the form of a party id: %j is none",
    async (admin) => {
      const registry = await startRegistry({ admin });
      const { upstream, upstreams } = openUpstream([registry]);
      await expect(upstream.call(acceptCall())).rejects.toMatchObject({
        status: 502,
        message: expect.stringMatching(/which is no party id/),
      });
      expect(upstreams.byAdmin(admin)).toBeUndefined();
      expect(registry.calls.count("transfer_accept")).toBe(0);
    },
  );

  test("but a configured one belongs to whom the configuration says", async () => {
    const [first, second] = [await startRegistry(), await startRegistry()];
    const { upstreams } = openUpstreams(
      upstreamConfigs({ name: "learner", urls: [first.url] }, { name: "owner", urls: [second.url], admin: ADMIN }),
    );
    await expect(upstreams.byName("learner")!.learnAdmin(inTime(5_000))).rejects.toMatchObject({ status: 503 });
    expect(upstreams.byAdmin(ADMIN)?.name).toBe("owner");
    expect((await upstreams.byName("owner")!.call(listCall())).status).toBe(200);
  });
});

test("a start at which one node is proved before the others were asked is no trouble", async () => {
  const registries = [
    await startRegistry(),
    await startRegistry({ latency: 50 }),
    await startRegistry({ latency: 100 }),
  ];
  const { upstream, upstreams, observer } = openUpstream(registries);
  upstreams.start();
  await expect.poll(() => upstream.state).toBe("up");
  expect(observer.events.filter((event) => event.startsWith("upstream"))).toEqual(["upstream unproved → up amulet"]);
});

test("a node that fails at the start is trouble, and is told", async () => {
  const registries = [await startRegistry(), `http://127.0.0.1:${await findFreePort()}`];
  const { upstreams, observer } = openUpstream(registries);
  upstreams.start();
  await expect.poll(() => observer.count("upstream unproved → degraded")).toBe(1);
});

test("calls that wait for a proof when a reload changes their upstream get their answer", async () => {
  const registry = await startRegistry({ latency: 100 });
  const { upstream, upstreams, environment } = openUpstream([registry]);
  const calls = Array.from({ length: 5 }, () => upstream.call(acceptCall()));
  await registry.calls.reached(1);
  const changed = upstreamConfigs({ name: "amulet", urls: [registry.url], timeout: "9s" });
  const next = new Upstreams(changed, environment, upstreams);
  onTestFinished(() => next.close());
  await upstreams.closeExcept(next, Promise.allSettled(calls));
  expect((await Promise.all(calls)).map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
});

describe("in the background", () => {
  // Without jitter, so that moving the clock ends exactly when a check begins.
  const random = () => 0.5;

  test("an unproved node is asked again after 0.25 s, growing to 5 s, and heals by itself", async () => {
    const clock = new ManualClock();
    const registry = await startRegistry();
    await registry.faults.set({ kind: "status", status: 500 });
    const { upstreams, upstream, observer } = openUpstream([registry], {}, { clock, random });
    const failed = (count: number) => expect.poll(() => observer.count("check-failure")).toBe(count);
    upstreams.start();
    await failed(1);
    for (const [i, pause] of [250, 500, 1_000, 2_000, 4_000, 5_000].entries()) {
      // The pause begins when the last check has ended.
      await new Promise((resolve) => setImmediate(resolve));
      clock.advance(pause - 1);
      expect(registry.calls.total).toBe(i + 1);
      clock.advance(1);
      await failed(i + 2);
    }
    await new Promise((resolve) => setImmediate(resolve));
    await registry.faults.clear();
    clock.advance(5_000);
    await expect.poll(() => upstream.state).toBe("up");
    expect(observer.events).toContain("upstream unproved → up amulet");
  });

  test("a proved node is asked before five minutes are over; one that is another registry by then is out at once", async () => {
    const clock = new ManualClock();
    const registry = await startRegistry();
    const { upstreams, upstream } = openUpstream([registry], { admin: ADMIN }, { clock, random });
    upstreams.start();
    await expect.poll(() => upstream.state).toBe("up");
    clock.advance(240_000);
    expect(registry.calls.count("info")).toBe(1);
    await registry.faults.set({ kind: "wrong-admin", admin: OTHER_ADMIN });
    clock.advance(59_000);
    await expect.poll(() => upstream.state).toBe("wrong-admin");
    await expect(upstream.call(acceptCall({ deadline: clock.now() + 5_000 }))).rejects.toMatchObject({ status: 502 });
    expect(registry.calls.count("transfer_accept")).toBe(0);
    await registry.faults.clear();
    clock.advance(61_000);
    expect((await upstream.call(acceptCall({ deadline: clock.now() + 5_000 }))).status).toBe(200);
  });

  test("a failed check does not take the proof away", async () => {
    const clock = new ManualClock();
    const registry = await startRegistry();
    const { upstreams, upstream, observer } = openUpstream([registry], {}, { clock, random });
    upstreams.start();
    await expect.poll(() => upstream.state).toBe("up");
    await registry.faults.set({ kind: "status", status: 500, operations: ["info"] });
    clock.advance(300_000);
    await expect.poll(() => observer.count("check-failure")).toBe(1);
    expect(upstream.state).toBe("up");
    expect((await upstream.call(acceptCall({ deadline: clock.now() + 5_000 }))).status).toBe(200);
  });

  test("a call for an info that names another admin is 502, and the node gets nothing more", async () => {
    const clock = new ManualClock();
    const registry = await startRegistry();
    const { upstreams, upstream, observer } = openUpstream([registry], { admin: ADMIN }, { clock, random });
    upstreams.start();
    await expect.poll(() => upstream.state).toBe("up");
    await registry.faults.set({ kind: "wrong-admin", admin: OTHER_ADMIN });
    const deadline = clock.now() + 5_000;
    const asked = upstream.call({ ...listCall({ deadline }), operation: "info", path: "/registry/metadata/v1/info" });
    await expect(asked).rejects.toMatchObject({ status: 502, message: expect.stringMatching(/another registry/) });
    expect(upstream.state).toBe("wrong-admin");
    expect(observer.events).toContain(`mismatch amulet ${OTHER_ADMIN}`);
    await expect(upstream.call(acceptCall({ deadline }))).rejects.toMatchObject({ status: 502 });
    expect(registry.calls.count("transfer_accept")).toBe(0);
    await registry.faults.clear();
    clock.advance(61_000);
    expect((await upstream.call(acceptCall({ deadline: clock.now() + 5_000 }))).status).toBe(200);
  });

  test("of several nodes another one is asked when the info of the first names another admin", async () => {
    const odd = await startRegistry();
    const even = await startRegistry();
    const { upstream } = openUpstream([odd, even], { admin: ADMIN });
    await upstream.learnAdmin(inTime(5_000));
    await expect.poll(() => upstream.status().nodes.map(({ state }) => state)).toEqual(["up", "up"]);
    await odd.faults.set({ kind: "wrong-admin", admin: OTHER_ADMIN });
    const info = () => upstream.call({ ...listCall(), operation: "info", path: "/registry/metadata/v1/info" });
    // As many as the retries that a new upstream has pay for, should all of them be late as well.
    const answers = await Promise.all(Array.from({ length: 4 }, info));
    expect(answers.map(({ content }) => content?.adminId)).toEqual(answers.map(() => ADMIN));
    await expect.poll(() => upstream.status().nodes.map(({ state }) => state)).toEqual(["wrong-admin", "up"]);
  });

  test("the last node is asked again soon once it refused a connection, until it tells its admin", async () => {
    const clock = new ManualClock();
    const registry = await startRegistry();
    const { upstreams, upstream, observer } = openUpstream([registry], { retry: { attempts: 1 } }, { clock, random });
    upstreams.start();
    await expect.poll(() => upstream.state).toBe("up");
    const { port } = new URL(upstream.status().nodes[0]!.url);
    await registry.stop();
    const deadline = clock.now() + 5_000;
    await expect(upstream.call(acceptCall({ deadline }))).rejects.toMatchObject({ proxyError: "connection_refused" });
    await expect.poll(() => observer.count("check-failure")).toBe(1);
    expect(upstream.state).toBe("up");
    const other = await startRegistry({ admin: OTHER_ADMIN, port: Number(port) });
    await new Promise((resolve) => setImmediate(resolve));
    clock.advance(250);
    await expect.poll(() => other.calls.count("info")).toBe(1);
    await expect.poll(() => upstream.state).toBe("disabled");
    expect(other.calls.total).toBe(1);
  });

  test("a learned admin that changes disables the upstream", async () => {
    const clock = new ManualClock();
    const registry = await startRegistry();
    const { upstreams, upstream } = openUpstream([registry], {}, { clock, random });
    upstreams.start();
    await expect.poll(() => upstream.state).toBe("up");
    await registry.faults.set({ kind: "wrong-admin", admin: OTHER_ADMIN });
    clock.advance(300_000);
    await expect.poll(() => upstream.state).toBe("disabled");
    expect(upstream.admin).toBe(ADMIN);
    expect(upstreams.byAdmin(OTHER_ADMIN)).toBeUndefined();
    await registry.faults.clear();
    await new Promise((resolve) => setImmediate(resolve));
    clock.advance(75_000);
    await expect.poll(() => upstream.state).toBe("up");
  });

  test("a proof that is older than proof.every is renewed before the next call", async () => {
    const clock = new ManualClock();
    const registry = await startRegistry();
    const { upstream } = openUpstream([registry], { proof: { every: "10s" } }, { clock });
    const call = () => upstream.call(acceptCall({ deadline: clock.now() + 5_000 }));
    for (let i = 0; i < 3; i++) await call();
    expect(registry.calls.count("info")).toBe(1);
    await registry.faults.set({ kind: "wrong-admin", admin: OTHER_ADMIN });
    clock.advance(11_000);
    await expect(call()).rejects.toMatchObject({ status: 502 });
    expect(registry.calls.count("transfer_accept")).toBe(3);
  });

  test("a node that names another admin now and then is asked a minute later, and the second time when an operator says so", async () => {
    const clock = new ManualClock();
    const registry = await startRegistry();
    const { upstreams, upstream, environment, forgotten } = openUpstream(
      [registry],
      { admin: ADMIN },
      { clock, random },
    );
    upstreams.start();
    await expect.poll(() => upstream.state).toBe("up");
    const info = () =>
      upstream.call({
        ...listCall({ deadline: clock.now() + 500 }),
        operation: "info",
        path: "/registry/metadata/v1/info",
      });
    const turn = async () => {
      await registry.faults.set({ kind: "wrong-admin", admin: OTHER_ADMIN });
      await expect(info()).rejects.toMatchObject({ status: 502 });
      await registry.faults.clear();
      registry.calls.clear();
      clock.advance(59_000);
      await expect(info()).rejects.toMatchObject({ status: 502 });
      expect(registry.calls.total).toBe(0);
    };
    await turn();
    clock.advance(2_000);
    expect((await info()).status).toBe(200);
    await turn();
    clock.advance(7_200_000);
    await expect(info()).rejects.toMatchObject({ message: expect.stringMatching(/before an operator sets it active/) });
    expect(forgotten).toEqual([ADMIN, ADMIN]);
    const action = { upstream: "amulet", node: registry.url, by: "no token", from: "loopback" };
    await environment.coordinator.actions.act({ action, lasts: undefined });
    upstreams.followActions();
    expect((await info()).status).toBe(200);
  });
});
