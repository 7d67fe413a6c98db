import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { type Clock, systemClock } from "../../src/clock.ts";
import { LocalCoordinator } from "../../src/coordination/local.ts";
import { mulberry32 } from "../../src/sandbox/random.ts";
import type { SampleRegistry } from "../../src/sandbox/registry.ts";
import type { Question } from "../../src/upstream/comparison/node-question.ts";
import type { Upstream } from "../../src/upstream/upstream.ts";
import { Upstreams } from "../../src/upstream/upstreams.ts";
import { measureLoopTime } from "../support/loop-time.ts";
import type { RecordingObserver } from "../support/recording-observer.ts";
import { IS_THOROUGH, runs } from "../support/thorough.ts";
import {
  acceptCall,
  ADMIN,
  type EnvironmentOptions,
  inTime,
  openUpstream,
  OTHER_ADMIN,
  startRegistry,
  upstreamConfigs,
} from "../support/upstream-registries.ts";

const BASE = "/registry/metadata/v1";
const FIELDS = ["accept", "application/json"];
const INFO: Question = { operation: "info", path: `${BASE}/info`, fields: FIELDS, instrument: undefined };
const PAGE: Question = { ...INFO, operation: "instruments", path: `${BASE}/instruments` };
const AMULET: Question = { ...INFO, operation: "instrument", path: `${BASE}/instruments/Amulet`, instrument: "Amulet" };

interface Opened {
  readonly upstream: Upstream;
  readonly observer: RecordingObserver;
}

/** An upstream of so many proved nodes with the same instruments. */
async function openWell(count: number, keys: Record<string, unknown> = {}, options: EnvironmentOptions = {}) {
  const registries = await Promise.all(Array.from({ length: count }, () => startRegistry()));
  const opened = openUpstream(registries, { admin: ADMIN, compare: 1, ...keys }, options);
  const { upstream } = opened;
  const infos = registries.map((registry) => registry.calls.reached(1));
  upstream.start();
  await Promise.all(infos);
  await expect.poll(() => upstream.state).toBe("up");
  for (const { calls } of registries) calls.clear();
  return { ...opened, registries };
}

/** Asks for a client, and lets the answer be compared. */
async function ask({ upstream }: Pick<Opened, "upstream">, question: Question) {
  const { operation, path, fields } = question;
  const call = { operation, method: "GET", path, fields, priority: "miss", deadline: inTime(10_000) } as const;
  const { status, body, node } = await upstream.call(call);
  upstream.compare(question, { status, body, node });
  return node;
}

/** What a registry says, without a gateway before it. */
async function bodyOf({ url, calls }: SampleRegistry, { path }: Question): Promise<Buffer> {
  const body = Buffer.from(await (await fetch(url + path)).arrayBuffer());
  calls.clear();
  return body;
}

/** Waits until so many comparisons are over. */
async function whenCompared({ observer }: Pick<Opened, "observer">, count: number): Promise<void> {
  await expect.poll(() => observer.count("compared"), { timeout: 20_000, interval: 5 }).toBe(count);
}

function callsTo(registries: readonly SampleRegistry[]): number {
  return registries.reduce((sum, { calls }) => sum + calls.total, 0);
}

describe("a second node is asked", () => {
  test.each([INFO, PAGE, AMULET])("for $operation, once, and says the same", async (question) => {
    const opened = await openWell(2);
    for (let i = 1; i <= 5; i++) {
      await ask(opened, question);
      await whenCompared(opened, i);
    }
    expect(opened.observer.count("compared amulet same")).toBe(5);
    expect(opened.registries.map(({ calls }) => calls.count(question.operation))).toEqual([5, 5]);
    expect(opened.observer.comparisonCalls).toBe(5);
    expect(opened.upstream.status()).toMatchObject({ divergences: [], running: 0 });
  });

  test("for as large a share as is configured: 1,000 fetches cost 50 calls or so", async () => {
    const opened = await openWell(2, { compare: 0.05 }, { random: mulberry32(7) });
    const body = Buffer.from(JSON.stringify({ instruments: [], nextPageToken: null }));
    for (const { faults } of opened.registries) await faults.set({ kind: "status", status: 500 });
    for (let i = 0; i < 1_000; i++) {
      opened.upstream.compare(PAGE, { status: 200, body, node: 0 });
      await turn();
      while (opened.upstream.status().running > 0) await turn();
    }
    expect(callsTo(opened.registries)).toBe(opened.observer.comparisonCalls);
    expect(callsTo(opened.registries)).toBeGreaterThan(30);
    expect(callsTo(opened.registries)).toBeLessThan(70);
  });

  test("never where compare is 0, or the node is the only one", async () => {
    for (const opened of [await openWell(2, { compare: 0 }), await openWell(1)]) {
      for (let i = 0; i < 20; i++) await ask(opened, INFO);
      for (let i = 0; i < 20; i++) await turn();
      expect(callsTo(opened.registries)).toBe(20);
      expect(opened.observer.count("compared")).toBe(0);
    }
  });

  test("never one that is cordoned, ejected, of weight 0, or in a pause", async () => {
    const registries = await Promise.all(Array.from({ length: 2 }, () => startRegistry()));
    const urls = registries.map(({ url }, at) => ({ url, weight: at === 0 ? 1 : 0 }));
    const opened = openUpstream([], { admin: ADMIN, compare: 1, urls });
    await opened.upstream.learnAdmin(inTime(5_000));
    await expect.poll(() => opened.upstream.state).toBe("up");
    await ask(opened, AMULET);
    await whenCompared(opened, 1);
    expect(opened.observer.events).toContain("compared amulet skipped");
    expect(registries[1]!.calls.count("instrument")).toBe(0);

    const coordinator = new LocalCoordinator({ clock: systemClock() });
    const other = await openWell(2, {}, { coordinator });
    const cordon = { upstream: "amulet", by: "no token", from: "loopback", state: "cordoned" } as const;
    await coordinator.act({ action: { ...cordon, node: other.registries[1]!.url }, lasts: undefined });
    other.upstream.heed();
    await ask(other, AMULET);
    await whenCompared(other, 1);
    expect(other.registries[1]!.calls.total).toBe(0);
  });
});

describe("a difference", () => {
  async function openDiffering(count: number, plant: (registries: readonly SampleRegistry[]) => void) {
    const opened = await openWell(count);
    plant(opened.registries);
    return opened;
  }

  test("is told with both values, and costs no more calls than are saved afterwards", async () => {
    const opened = await openDiffering(2, ([, second]) => second!.catalogue.update("Amulet", { decimals: 3 }));
    const node = await ask(opened, AMULET);
    await whenCompared(opened, 1);
    const values = node === 0 ? ["10", "3"] : ["3", "10"];
    const nodes = [node, 1 - node];
    expect(opened.observer.divergences).toMatchObject([
      {
        operation: "instrument",
        at: expect.stringMatching(/^20\d\d-.*Z$/),
        times: 1,
        nodes,
        odd: undefined,
        isNews: true,
        differences: [{ instrument: "Amulet", path: "$['decimals']", kind: "data", values }],
      },
    ]);
    expect(opened.upstream.status().divergences).toMatchObject([{ nodes }]);
    // The one that found it, and both once more.
    expect(opened.observer.comparisonCalls).toBe(3);
    for (let i = 0; i < 3; i++) await ask(opened, INFO);
    await whenCompared(opened, 2);
    expect(opened.observer.comparisonCalls).toBe(4);
  });

  test.each([0, 1, 2])("of three nodes names the odd one: %i", async (odd) => {
    const opened = await openDiffering(3, (all) => all[odd]!.catalogue.update("Amulet", { extra: { a: [1] } }));
    for (let i = 0; i < 30 && opened.observer.divergences.length === 0; i++) {
      const before = opened.observer.count("compared");
      await ask(opened, PAGE);
      await whenCompared(opened, before + 1);
    }
    expect(opened.observer.divergences).toMatchObject([
      {
        odd,
        differences: [{ instrument: "Amulet", path: "$['extra']", values: expect.arrayContaining(['{"a":[1]}']) }],
      },
    ]);
  });

  test("that is gone a second later is none", async () => {
    const opened = await openDiffering(2, ([, second]) => second!.catalogue.update("Amulet", { decimals: 3 }));
    await ask(opened, AMULET);
    await expect.poll(() => callsTo(opened.registries), { interval: 5 }).toBe(2);
    await expect.poll(() => opened.upstream.status().running, { interval: 5 }).toBe(0);
    opened.registries[1]!.catalogue.update("Amulet", { decimals: 10 });
    await whenCompared(opened, 1);
    expect(opened.observer.events).toContain("compared amulet vanished");
    expect(opened.observer.divergences).toEqual([]);
  });

  test("in what changes with every answer is none", async () => {
    const opened = await openDiffering(2, (all) => {
      let answers = 0;
      for (const registry of all) {
        registry.script(({ operation }) => {
          if (operation === "info") return undefined;
          answers += 1;
          return { status: 200, body: JSON.stringify({ id: "Amulet", name: "a", symbol: "a", decimals: 1, answers }) };
        });
      }
    });
    await ask(opened, AMULET);
    await whenCompared(opened, 1);
    expect(opened.observer.events).toContain("compared amulet vanished");
  });

  test("of supply counts as of the same moment alone", async () => {
    const at = (totalSupply: string, totalSupplyAsOf: string) => ({ totalSupply, totalSupplyAsOf });
    const moved = await openDiffering(2, ([first, second]) => {
      first!.catalogue.update("Amulet", at("1.0", "2026-01-01T00:00:00.000000"));
      second!.catalogue.update("Amulet", at("2.0", "2026-01-01T00:00:00.000001"));
    });
    await ask(moved, PAGE);
    await whenCompared(moved, 1);
    expect(moved.observer.events).toContain("compared amulet same");

    const same = await openDiffering(2, ([first, second]) => {
      first!.catalogue.update("Amulet", at("1.0", "2026-01-01T00:00:00.000000"));
      second!.catalogue.update("Amulet", at("2.0", "2026-01-01T00:00:00.000000"));
    });
    await ask(same, PAGE);
    await whenCompared(same, 1);
    expect(same.observer.divergences).toMatchObject([
      { differences: [{ instrument: "Amulet", path: "$['totalSupply']", kind: "supply" }] },
    ]);
  });

  test("is an instrument that one node has and the other has not", async () => {
    const opened = await openDiffering(2, ([, second]) => second!.catalogue.remove("Amulet"));
    await ask(opened, AMULET);
    await whenCompared(opened, 1);
    expect(opened.observer.divergences).toMatchObject([
      {
        differences: [
          { instrument: "Amulet", path: "$", values: expect.arrayContaining(["status 200", "status 404"]) },
        ],
      },
    ]);
  });

  test("goes on being shown after a reload, while nodes are compared", async () => {
    const opened = await openDiffering(2, ([, second]) => second!.catalogue.update("Amulet", { decimals: 3 }));
    await ask(opened, AMULET);
    await whenCompared(opened, 1);
    const urls = opened.registries.map(({ url }) => url);
    const configs = upstreamConfigs({ name: "amulet", admin: ADMIN, urls, compare: 0.5 });
    const next = new Upstreams(configs, opened.environment, opened.upstreams);
    onTestFinished(() => next.close());
    expect(next.byName("amulet")!.status().divergences).toMatchObject([{ operation: "instrument" }]);
  });
});

describe("a second node that", () => {
  test.each<[string, (registry: SampleRegistry) => unknown]>([
    ["sends 10 MiB", (each) => each.script(() => ({ status: 200, body: `{"a":"${"b".repeat(10 * 2 ** 20)}"}` }))],
    ["sends deep JSON", (each) => each.script(() => ({ status: 200, body: "[".repeat(60_000) }))],
    [
      "sends deep JSON that is whole",
      (each) => each.script(() => ({ status: 200, body: `${"[".repeat(30_000)}${"]".repeat(30_000)}` })),
    ],
    ["sends HTML", (each) => each.faults.set({ kind: "html-404" })],
    ["sends no JSON", (each) => each.faults.set({ kind: "not-json" })],
    ["sends a page without instruments", (each) => each.script(() => ({ status: 200, body: '{"instruments":7}' }))],
    ["redirects", (each) => each.faults.set({ kind: "redirect" })],
    ["resets", (each) => each.faults.set({ kind: "reset" })],
    ["answers 500", (each) => each.faults.set({ kind: "status", status: 500 })],
    ["hangs", (each) => each.faults.set({ kind: "hang" })],
  ])("%s delays nothing, and is neither a difference nor out for it", async (_what, spoil) => {
    const opened = await openWell(2, { attemptTimeout: "400ms" });
    const body = await bodyOf(opened.registries[0]!, PAGE);
    await spoil(opened.registries[1]!);
    const took = measureLoopTime();
    opened.upstream.compare(PAGE, { status: 200, body, node: 0 });
    expect(took()).toBeLessThan(50);
    await whenCompared(opened, 1);
    expect(opened.observer.events).toContain("compared amulet failed");
    expect(opened.observer.divergences).toEqual([]);
    expect(opened.upstream.status()).toMatchObject({ running: 0, nodes: [{ state: "up" }, { state: "up" }] });
  });

  test("hangs gives its place to the first call that wants it", async () => {
    const opened = await openWell(2, { concurrency: { max: 1, queue: 0 } });
    await opened.registries[1]!.faults.set({ kind: "hang" });
    opened.upstream.compare(INFO, { status: 200, body: Buffer.from("{}"), node: 0 });
    await expect.poll(() => opened.registries[1]!.calls.total).toBe(1);
    expect(opened.upstream.status().running).toBe(1);
    await opened.registries[1]!.faults.clear();
    expect((await opened.upstream.call(acceptCall())).status).toBe(200);
    await whenCompared(opened, 1);
    expect(opened.observer.events).toContain("compared amulet skipped");
    expect(opened.upstream.status().running).toBe(0);
  });

  test("answers 429 is left alone for as long as it says", async () => {
    const opened = await openWell(2, { rateLimit: { requests: 1_000, per: "1m" } });
    opened.registries[1]!.script(() => ({ status: 429, headers: ["retry-after", "30"], body: '{"error":"slow"}' }));
    opened.upstream.compare(INFO, { status: 200, body: Buffer.from("{}"), node: 0 });
    await whenCompared(opened, 1);
    expect(opened.observer.events).toContain("rationed amulet 0.5");
    opened.upstream.compare(INFO, { status: 200, body: Buffer.from("{}"), node: 0 });
    await whenCompared(opened, 2);
    expect(opened.observer.events).toContain("compared amulet skipped");
    expect(opened.registries[1]!.calls.total).toBe(1);
  });

  test("turns out to be another registry gets nothing more", async () => {
    const opened = await openWell(2);
    await opened.registries[1]!.faults.set({ kind: "wrong-admin", admin: OTHER_ADMIN });
    opened.upstream.compare(INFO, { status: 200, body: Buffer.from("{}"), node: 0 });
    await expect.poll(() => opened.upstream.status().nodes[1]!.state).toBe("wrong-admin");
    expect(opened.forgotten).toEqual([ADMIN]);
    expect(opened.observer.divergences).toEqual([]);
  });

  test("is asked when the upstream is closed is waited for by nothing", async () => {
    const opened = await openWell(2);
    await opened.registries[1]!.faults.set({ kind: "hang" });
    opened.upstream.compare(INFO, { status: 200, body: Buffer.from("{}"), node: 0 });
    await expect.poll(() => opened.registries[1]!.calls.total).toBe(1);
    const took = measureLoopTime();
    await opened.upstreams.close();
    expect(took()).toBeLessThan(500);
    await whenCompared(opened, 1);
    await expect.poll(() => opened.registries[1]!.connections.open).toBe(0);
  });
});

test("a difference planted in one of 10,000 instruments is found within the time that the share lets expect", async () => {
  const share = 0.05;
  const found: number[] = [];
  for (let trial = 0; trial < runs(1, 25); trial++) {
    const options = { instruments: 10_000, defaultPageSize: 1_000 };
    const registries = [await startRegistry(options), await startRegistry(options)];
    const keys = { admin: ADMIN, compare: share };
    const opened = openUpstream(registries, keys, { random: mulberry32(100 + trial) });
    await opened.upstream.learnAdmin(inTime(10_000));
    await expect.poll(() => opened.upstream.state, { timeout: 10_000 }).toBe("up");
    const planted = registries[1]!.catalogue.list()[7_321]!.id;
    registries[1]!.catalogue.update(planted, { decimals: 99 });
    const pages: { readonly question: Question; readonly body: Buffer }[] = [];
    for (let next: string | undefined = ""; next !== undefined;) {
      const question = { ...PAGE, path: `${PAGE.path}${next}` };
      const body = await bodyOf(registries[0]!, question);
      pages.push({ question, body });
      const { nextPageToken } = JSON.parse(body.toString()) as { nextPageToken: string | null };
      next = nextPageToken === null ? undefined : `?pageToken=${encodeURIComponent(nextPageToken)}`;
    }
    expect(pages).toHaveLength(10);
    let rounds = 0;
    // One page in ten has it: a second look at another one is none.
    for (; opened.observer.divergences.length === 0 && rounds < 300; rounds++) {
      for (const { question, body } of pages) {
        const before = opened.observer.count("compared");
        opened.upstream.compare(question, { status: 200, body, node: 0 });
        await turn();
        if (opened.upstream.status().running > 0) await whenCompared(opened, before + 1);
      }
    }
    expect(opened.observer.divergences).toMatchObject([
      { operation: "instruments", differences: [{ instrument: planted, path: "$['decimals']", kind: "data" }] },
    ]);
    found.push(rounds);
    expect(registries[1]!.calls.count("instruments")).toBeLessThanOrEqual(opened.observer.comparisonCalls);
  }
  // The page is fetched once a round, so it is compared in one round of twenty on average: one trial in 2,000 takes 150.
  const mean = found.reduce((sum, each) => sum + each) / found.length;
  expect(mean).toBeLessThan((IS_THOROUGH ? 1.75 : 7.5) / share);
}, 300_000);

test("comparisons cost what compare says, also where nodes differ every time and each difference is looked at again", async () => {
  const [share, fetches] = [0.05, runs(1_000, 10_000)];
  const real = systemClock();
  // The second look is a fiftieth of a second later.
  const clock: Clock = { ...real, after: (delay, fire) => real.after(delay / 50, fire) };
  const opened = await openWell(3, { compare: share, timeout: "60s" }, { random: mulberry32(21), clock });
  for (const [at, { catalogue }] of opened.registries.entries()) catalogue.update("Amulet", { decimals: 20 + at });
  const body = await bodyOf(opened.registries[0]!, AMULET);
  for (let i = 0; i < fetches; i++) {
    const before = opened.observer.count("compared");
    opened.upstream.compare(AMULET, { status: 200, body, node: 0 });
    await turn();
    if (opened.upstream.status().running > 0) await whenCompared(opened, before + 1);
  }
  expect(opened.observer.divergences.length).toBeGreaterThan((fetches * share) / 8);
  // Checks of nodes are not of comparisons.
  const asked = opened.registries.reduce((sum, { calls }) => sum + calls.count("instrument"), 0);
  expect(asked).toBe(opened.observer.comparisonCalls);
  // As many as are drawn, and no more: five standard deviations, and what the last one took beyond its own.
  const most = fetches * share + 5 * Math.sqrt(fetches * share) + 3;
  expect(opened.observer.comparisonCalls).toBeLessThan(most);
  expect(opened.observer.comparisonCalls).toBeGreaterThan((fetches * share) / 2);
}, 300_000);

test("comparisons take calls of rateLimit that clients cannot miss: half of the window is theirs alone", async () => {
  const opened = await openWell(2, { rateLimit: { requests: 20, per: "1m", maxWait: "0s" } });
  const body = await bodyOf(opened.registries[1]!, PAGE);
  for (let i = 1; i <= 40; i++) {
    opened.upstream.compare(PAGE, { status: 200, body, node: 0 });
    await turn();
    while (opened.upstream.status().running > 0) await turn();
  }
  // Two of the ten that are for background work went for the proofs.
  expect(callsTo(opened.registries)).toBeLessThanOrEqual(8);
  expect(opened.observer.count("compared amulet skipped")).toBeGreaterThan(10);
  for (let i = 0; i < 10; i++) expect((await opened.upstream.call(acceptCall())).status).toBe(200);
});

test("of one upstream two comparisons run at once, of all eight, and the rest are skipped", async () => {
  const opened = await openWell(2);
  await opened.registries[1]!.faults.set({ kind: "hang" });
  for (let i = 0; i < 20; i++) opened.upstream.compare(INFO, { status: 200, body: Buffer.from("{}"), node: 0 });
  await whenCompared(opened, 18);
  expect(opened.upstream.status().running).toBe(2);
  expect(opened.registries[1]!.calls.total).toBeLessThanOrEqual(2);
});
