import { describe, expect, onTestFinished, test } from "vitest";
import { localCoordinator } from "../../src/sharing/alone.ts";
import { Upstreams } from "../../src/upstream/upstreams.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { findFreePort } from "../support/ports.ts";
import type { SampleRegistry } from "../support/sample-registry.ts";
import {
  acceptCall,
  ADMIN,
  inTime,
  listCall,
  openUpstream,
  openUpstreams,
  OTHER_ADMIN,
  startRegistry,
  streamedCall,
  upstreamConfigs,
} from "../support/upstream-registries.ts";

const THIRD_ADMIN = "Third::1220cc";
const INFO = { operation: "info", path: "/registry/metadata/v1/info" } as const;

async function startAll(...admins: string[]): Promise<SampleRegistry[]> {
  return Promise.all(admins.map((admin) => startRegistry({ admin })));
}

async function deadUrl(): Promise<string> {
  return `http://127.0.0.1:${await findFreePort()}`;
}

/** What reached them but the question who they are. */
function calls(registries: readonly SampleRegistry[]): number[] {
  return registries.map((registry) => registry.calls.total - registry.calls.count("info"));
}

async function turn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

describe.each([
  ["configured", ADMIN],
  ["learned", undefined],
])("with an admin that is %s, agree: 2", (_how, admin) => {
  const keys = { agreement: { admin: 2 }, ...(admin === undefined ? {} : { admin }) };

  test("lets no request pass while one node alone names it, and says what is missing", async () => {
    const [alone] = await startAll(ADMIN);
    const { upstream, upstreams } = openUpstream([alone!, await deadUrl()], keys);
    const refused = {
      status: 503,
      code: "agreement_missing",
      retryAfter: 5,
      message: expect.stringMatching(
        /is not used yet: 2 of its nodes have to name .* \(agreement.admin\), and of 2 1 named "DSO::1220aa", 1 did not say yet/,
      ),
    };
    for (let i = 0; i < 3; i++) {
      await expect(upstream.call(acceptCall())).rejects.toMatchObject(refused);
      await expect(upstream.call({ ...listCall(), ...INFO })).rejects.toMatchObject(refused);
      await expect(upstream.stream(streamedCall())).rejects.toMatchObject(refused);
      await expect(upstream.learnAdmin(inTime(5_000))).rejects.toMatchObject(refused);
    }
    expect(calls([alone!])).toEqual([0]);
    expect(upstream.admin).toBe(admin);
    expect(upstreams.byAdmin(ADMIN)).toBe(admin === undefined ? undefined : upstream);
    expect(upstream.isProved).toBe(false);
    expect(upstream.status()).toMatchObject({
      state: "unproved",
      agreement: { needed: 2, agreeing: 1, isReached: false },
      nodes: [
        { state: "unproved", admin: ADMIN, lastError: expect.stringMatching(/2 nodes have to name the same one/) },
        { state: "unproved", admin: undefined },
      ],
    });
  });

  test("uses both as soon as the second names it", async () => {
    const both = await startAll(ADMIN, ADMIN);
    const { upstream, observer } = openUpstream(both, keys);
    const answers = await Promise.all(Array.from({ length: 20 }, () => upstream.call(acceptCall())));
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    expect(upstream.status()).toMatchObject({
      state: "up",
      admin: ADMIN,
      agreement: { needed: 2, agreeing: 2, isReached: true },
    });
    expect(observer.count("proved")).toBe(1);
    expect(observer.count("mismatch")).toBe(0);
  });

  test.each([0, 1, 2])("leaves out a minority that names another, whichever place it has: %i", async (place) => {
    const registries = await startAll(...[0, 1, 2].map((each) => (each === place ? OTHER_ADMIN : ADMIN)));
    const { upstream, upstreams, observer, forgotten } = openUpstream(registries, keys);
    upstreams.start();
    await expect.poll(() => upstream.status().nodes.map(({ state }) => state)).toContain("wrong-admin");
    await expect.poll(() => upstream.state).toBe("degraded");
    for (let i = 0; i < 10; i++) expect((await upstream.call(acceptCall())).status).toBe(200);
    const { nodes } = upstream.status();
    expect(nodes.map(({ state }) => state)).toEqual([0, 1, 2].map((each) => (each === place ? "wrong-admin" : "up")));
    expect(nodes[place]!.lastError).toMatch(/names the admin "Other::1220bb" and not "DSO::1220aa"/);
    expect(calls(registries)[place]).toBe(0);
    expect(observer.count(`mismatch amulet ${OTHER_ADMIN}`)).toBeGreaterThan(0);
    // It never took a request: what is cached of the registry is right.
    expect(forgotten).toEqual([]);
  });

  test("a minority that speaks first teaches nothing", async () => {
    const registries = await startAll(OTHER_ADMIN, ADMIN, ADMIN);
    for (const late of registries.slice(1)) late.slow(50);
    const { upstream } = openUpstream(registries, keys);
    expect(await upstream.learnAdmin(inTime(5_000))).toBe(ADMIN);
    expect(upstream.status().nodes.map(({ state }) => state)).toEqual(["wrong-admin", "up", "up"]);
  });

  test("a request waits for the agreement within its own deadline", async () => {
    const [quick, hanging] = await startAll(ADMIN, ADMIN);
    await hanging!.faults.set({ kind: "hang" });
    const { upstream } = openUpstream([quick!, hanging!], keys);
    await expect(upstream.call(acceptCall({ deadline: inTime(150) }))).rejects.toMatchObject({ status: 504 });
    await hanging!.faults.clear();
    expect(calls([quick!, hanging!])).toEqual([0, 0]);
  });

  test("goes on with what nodes have said when one of them goes away", async () => {
    const both = await startAll(ADMIN, ADMIN);
    const { upstream } = openUpstream(both, keys);
    await upstream.learnAdmin(inTime(5_000));
    await both[1]!.kill();
    for (let i = 0; i < 10; i++) expect((await upstream.call(acceptCall())).status).toBe(200);
    expect(upstream.status().agreement).toEqual({ needed: 2, agreeing: 2, isReached: true });
  });

  test("uses none any more when a node takes its word back, and all again when it gives it", async () => {
    const both = await startAll(ADMIN, ADMIN);
    const { upstream, upstreams, environment, observer, forgotten } = openUpstream(both, keys);
    await upstream.learnAdmin(inTime(5_000));
    await expect.poll(() => upstream.state).toBe("up");
    await both[1]!.faults.set({ kind: "wrong-admin", admin: OTHER_ADMIN });
    upstream.receive(undefined);
    upstream.start();
    await expect.poll(() => upstream.state).toBe("disabled");
    const before = calls(both);
    await expect(upstream.call(acceptCall())).rejects.toMatchObject({
      status: 503,
      code: "upstream_disabled",
      message: expect.stringMatching(
        /disabled: 2 of its nodes have to name .*, and of 2 1 named "DSO::1220aa", 1 named "Other::1220bb"; correct/,
      ),
    });
    expect(calls(both)).toEqual(before);
    expect(upstream.status()).toMatchObject({
      agreement: { agreeing: 1, isReached: false },
      nodes: [{ state: "unproved" }, { state: "wrong-admin" }],
    });
    // It took requests, perhaps of another registry.
    expect(forgotten).toEqual([ADMIN]);
    expect(observer.count("node up → wrong-admin")).toBe(1);
    await both[1]!.faults.clear();
    // An operator says so, or a minute goes by.
    const action = { upstream: "amulet", node: both[1]!.url, by: "no token", from: "loopback" };
    await environment.coordinator.actions.act({ action, lasts: undefined });
    upstreams.followActions();
    await expect.poll(() => upstream.state).toBe("up");
    expect((await upstream.call(acceptCall())).status).toBe(200);
  });

  test("counts the word of a cordoned node", async () => {
    const both = await startAll(ADMIN, ADMIN);
    const coordinator = localCoordinator(new ManualClock());
    const { upstream } = openUpstream(both, keys, { coordinator });
    const cordon = {
      upstream: "amulet",
      node: both[1]!.url,
      state: "cordoned",
      by: "no token",
      from: "loopback",
    } as const;
    await coordinator.actions.act({ action: cordon, lasts: undefined });
    upstream.followActions();
    for (let i = 0; i < 5; i++) expect((await upstream.call(acceptCall())).node).toBe(0);
    expect(calls(both)).toEqual([5, 0]);
  });

  test("three that name three have no registry", async () => {
    const registries = await startAll(ADMIN, OTHER_ADMIN, THIRD_ADMIN);
    const { upstream, upstreams } = openUpstream(registries, keys);
    upstreams.start();
    await expect.poll(() => upstream.state).toBe("disabled");
    await expect(upstream.call(acceptCall())).rejects.toMatchObject({ status: 503, code: "upstream_disabled" });
    expect(calls(registries)).toEqual([0, 0, 0]);
  });
});

describe("two against two with agreement.admin: 2", () => {
  test("are both left out where the admin is learned, and what was cached meanwhile is given up", async () => {
    const registries = await startAll(ADMIN, ADMIN, OTHER_ADMIN, OTHER_ADMIN);
    const first = Promise.withResolvers<undefined>();
    for (const late of registries.slice(2)) late.script(() => first.promise);
    const { upstream, upstreams, forgotten } = openUpstream(registries, { agreement: { admin: 2 } });
    upstreams.start();
    expect((await upstream.call(acceptCall())).status).toBe(200);
    first.resolve(undefined);
    await expect.poll(() => upstream.state).toBe("disabled");
    const before = calls(registries);
    await expect(upstream.call(acceptCall())).rejects.toMatchObject({
      status: 503,
      message: expect.stringMatching(/its nodes name different admins, "DSO::1220aa" and "Other::1220bb"; set admin/),
    });
    expect(calls(registries)).toEqual(before);
    expect(calls(registries).slice(2)).toEqual([0, 0]);
    expect(forgotten).toEqual([ADMIN]);
  });

  test("are decided by a configured admin", async () => {
    const registries = await startAll(OTHER_ADMIN, ADMIN, OTHER_ADMIN, ADMIN);
    const { upstream, upstreams } = openUpstream(registries, { agreement: { admin: 2 }, admin: ADMIN });
    upstreams.start();
    await expect.poll(() => upstream.state).toBe("degraded");
    for (let i = 0; i < 10; i++) expect((await upstream.call(acceptCall())).status).toBe(200);
    expect(calls(registries)).toEqual([0, expect.any(Number), 0, expect.any(Number)]);
  });
});

test("a configured admin that no node names is a wrong admin, however many agree about another", async () => {
  const registries = await startAll(OTHER_ADMIN, OTHER_ADMIN);
  const { upstream, upstreams } = openUpstream(registries, { agreement: { admin: 2 }, admin: ADMIN });
  upstreams.start();
  await expect.poll(() => upstream.state).toBe("wrong-admin");
  await expect(upstream.call(acceptCall())).rejects.toMatchObject({ status: 502, code: "wrong_admin" });
  expect(calls(registries)).toEqual([0, 0]);
});

test("a node alone cannot contest an admin that another upstream learned", async () => {
  const [right, impostor, silent] = [await startRegistry(), await startRegistry(), await deadUrl()];
  const { upstreams } = openUpstreams(
    upstreamConfigs(
      { name: "right", urls: [right.url] },
      { name: "newcomer", urls: [impostor.url, silent], agreement: { admin: 2 } },
    ),
  );
  await upstreams.byName("right")!.learnAdmin(inTime(5_000));
  await expect(upstreams.byName("newcomer")!.learnAdmin(inTime(5_000))).rejects.toMatchObject({ status: 503 });
  expect(upstreams.byName("right")!.state).toBe("up");
  expect(upstreams.byAdmin(ADMIN)?.name).toBe("right");
});

describe("a reload", () => {
  async function reload(from: Record<string, unknown>, to: Record<string, unknown>, registries: SampleRegistry[]) {
    const { upstreams, upstream, environment } = openUpstream(registries.slice(0, 2), from);
    await upstream.learnAdmin(inTime(5_000));
    await expect.poll(() => upstream.state).toBe("up");
    const configs = upstreamConfigs({ name: "amulet", urls: registries.map(({ url }) => url), ...to });
    const next = new Upstreams(configs, environment, upstreams);
    onTestFinished(() => next.close());
    await upstreams.closeExcept(next);
    return next.byName("amulet")!;
  }

  test("that asks for as many as agreement.admin already goes on without asking", async () => {
    const registries = await startAll(ADMIN, ADMIN);
    const upstream = await reload({ agreement: { admin: 1 } }, { agreement: { admin: 2 } }, registries);
    expect(upstream.state).toBe("up");
    expect(registries.map((registry) => registry.calls.count("info"))).toEqual([1, 1]);
    expect((await upstream.call(acceptCall())).status).toBe(200);
  });

  test("that asks for more waits for a node that came with it", async () => {
    const registries = await startAll(ADMIN, ADMIN, ADMIN);
    const upstream = await reload({ agreement: { admin: 2 } }, { agreement: { admin: 3 } }, registries);
    expect(upstream.state).toBe("unproved");
    expect(upstream.admin).toBeUndefined();
    expect((await upstream.call(acceptCall())).status).toBe(200);
    expect(upstream.state).toBe("up");
  });

  test("that asks for more than agreement.admin uses none", async () => {
    const registries = await startAll(ADMIN, ADMIN, OTHER_ADMIN);
    const upstream = await reload({ agreement: { admin: 2 } }, { agreement: { admin: 3 } }, registries);
    await expect(upstream.call(acceptCall())).rejects.toMatchObject({ status: 503, code: "upstream_disabled" });
    expect(calls(registries)).toEqual([0, 0, 0]);
  });
});

describe("in the background", () => {
  const random = () => 0.5;

  test("a node that waits for others is asked again like an unproved one, and agreement heals by itself", async () => {
    const clock = new ManualClock();
    const [first, second] = await startAll(ADMIN, ADMIN);
    await second!.faults.set({ kind: "status", status: 500 });
    const { upstream, upstreams, observer } = openUpstream(
      [first!, second!],
      { agreement: { admin: 2 } },
      { clock, random },
    );
    upstreams.start();
    for (const [i, pause] of [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000].entries()) {
      await expect.poll(() => [first!, second!].map((each) => each.calls.count("info"))).toEqual([i + 1, i + 1]);
      await expect.poll(() => observer.count("check")).toBe(2 * (i + 1));
      await turn();
      clock.advance(pause - 1);
      await turn();
      expect(first!.calls.count("info")).toBe(i + 1);
      clock.advance(1);
    }
    await expect.poll(() => observer.count("check")).toBe(16);
    await turn();
    await second!.faults.clear();
    clock.advance(5_000);
    await expect.poll(() => upstream.state).toBe("up");
    expect(observer.events).toContain("upstream unproved → up amulet");
  });

  test("what one process learns of a node that others count on, they ask it about at once", async () => {
    const clock = new ManualClock();
    const registries = await startAll(ADMIN, ADMIN, ADMIN);
    const coordinator = localCoordinator(clock);
    const options = { clock, coordinator, random };
    const one = openUpstream(registries, { agreement: { admin: 2 } }, options);
    // As another process hears it.
    coordinator.announcements.announce = (news?: string) => one.upstreams.receive(news);
    one.upstreams.start();
    await expect.poll(() => one.upstream.state).toBe("up");
    await registries[2]!.faults.set({ kind: "wrong-admin", admin: OTHER_ADMIN });
    // The other process never used the node.
    const other = openUpstream(registries, { agreement: { admin: 2 } }, options);
    other.upstreams.start();
    await expect.poll(() => one.upstream.status().nodes.map(({ state }) => state)).toEqual(["up", "up", "wrong-admin"]);
  });
});
