import { describe, expect, test } from "vitest";
import type { Coordinator, FetchOutcome, Lease } from "../../src/sharing/ports.ts";
import { until } from "./until.ts";

/** A coordinator under test and the time it runs by. */
export interface CoordinatorSetup {
  coordinator: Coordinator;
  now: () => number;
  /** Lets time go by: a hand-moved clock moves, a real one is waited for. */
  pass: (milliseconds: number) => Promise<void>;
  close(): Promise<void>;
  /** Until it grants calls as it does from then on; by default it does at once. */
  settle?: () => Promise<void>;
  /** What it may take of a limit by itself, if not all: it does not know whether there are others. */
  share?: number;
}

const amulet = { partition: "DSO::1220aa", scopes: ["all", "list", "instrument:Amulet"] };
const usd = { partition: "DSO::1220aa", scopes: ["all", "list", "instrument:USD"] };
const info = { partition: "DSO::1220aa", scopes: ["all", "info"] };
const elsewhere = { partition: "other::1220bb", scopes: ["all", "info"] };

const OPERATOR = { upstream: "amulet", by: "operations token", from: "loopback" };

/** What every coordinator promises, whatever it shares its state through. Tests run at once: no two set-ups share state. */
export function describeCoordinator(name: string, setUp: () => Promise<CoordinatorSetup>): void {
  async function use(run: (setup: CoordinatorSetup) => Promise<void>): Promise<void> {
    const setup = await setUp();
    try {
      await run(setup);
    } finally {
      await setup.close();
    }
  }

  describe.concurrent(`${name}: epochs`, () => {
    test("an epoch stays the same while nothing is purged", () =>
      use(async ({ coordinator }) => {
        expect(coordinator.epochs.epochOf(amulet)).toBe(coordinator.epochs.epochOf({ ...amulet }));
        await coordinator.epochs.purge("nobody::1220", ["all"]);
        const before = coordinator.epochs.epochOf(amulet);
        await coordinator.epochs.purge("nobody::1220", ["all"]);
        expect(coordinator.epochs.epochOf(amulet)).toBe(before);
      }));

    test("a purge of one scope changes what depends on it and nothing else, at once", () =>
      use(async ({ coordinator, pass }) => {
        const [a, u, i, e] = [amulet, usd, info, elsewhere].map((key) => coordinator.epochs.epochOf(key));
        const purged = coordinator.epochs.purge(amulet.partition, ["instrument:Amulet"]);
        expect(coordinator.epochs.epochOf(amulet)).not.toBe(a);
        expect([usd, info, elsewhere].map((key) => coordinator.epochs.epochOf(key))).toEqual([u, i, e]);
        await purged;
        const after = coordinator.epochs.epochOf(amulet);
        expect(after).not.toBe(a);
        await pass(100);
        expect(coordinator.epochs.epochOf(amulet)).toBe(after);
      }));

    test("a purge without a partition reaches partitions that were never seen", () =>
      use(async ({ coordinator }) => {
        const [i, e] = [info, elsewhere].map((key) => coordinator.epochs.epochOf(key));
        const never = coordinator.epochs.epochOf({ partition: "never::1220", scopes: ["all"] });
        await coordinator.epochs.purge(undefined, ["all"]);
        expect(coordinator.epochs.epochOf(info)).not.toBe(i);
        expect(coordinator.epochs.epochOf(elsewhere)).not.toBe(e);
        expect(coordinator.epochs.epochOf({ partition: "never::1220", scopes: ["all"] })).not.toBe(never);
      }));

    test("purging more scopes than are remembered never brings an entry back", () =>
      use(async ({ coordinator }) => {
        const keys = Array.from({ length: 700 }, (_, i) => ({
          partition: "p::1220",
          scopes: ["all", `instrument:${i}`],
        }));
        const before = keys.map((key) => coordinator.epochs.epochOf(key));
        await Promise.all(keys.map((key) => coordinator.epochs.purge(key.partition, [key.scopes[1]!])));
        const after = keys.map((key) => coordinator.epochs.epochOf(key));
        expect(after.filter((epoch, i) => epoch === before[i])).toEqual([]);
      }));

    test("a page behind a token has an epoch only once the token was issued, and another one when its page changed", () =>
      use(async ({ coordinator }) => {
        const page = { ...info, chain: "25:token" };
        expect(coordinator.epochs.epochOf(page)).toBeUndefined();
        coordinator.chains.issueChain(page.partition, page.chain, "digest-1");
        const first = coordinator.epochs.epochOf(page);
        expect(first).toBeDefined();
        coordinator.chains.issueChain(page.partition, page.chain, "digest-1");
        expect(coordinator.epochs.epochOf(page)).toBe(first);
        coordinator.chains.issueChain(page.partition, page.chain, "digest-2");
        expect(coordinator.epochs.epochOf(page)).not.toBe(first);
        expect(coordinator.epochs.epochOf({ ...page, partition: elsewhere.partition })).toBeUndefined();
      }));
  });

  describe.concurrent(`${name}: actions of operators`, () => {
    test("are in force at once, for their target alone, until they are undone", () =>
      use(async ({ coordinator }) => {
        const { actions } = coordinator;
        await coordinator.actions.act({
          action: { ...OPERATOR, node: "https://a.example", state: "cordoned" },
          lasts: undefined,
        });
        await coordinator.actions.act({
          action: { ...OPERATOR, mode: "cache-only", reason: "migration" },
          lasts: undefined,
        });
        expect(actions.find("amulet", "https://a.example")?.action.state).toBe("cordoned");
        expect(actions.find("amulet")?.action).toEqual({ ...OPERATOR, mode: "cache-only", reason: "migration" });
        expect(actions.find("amulet", "https://b.example")).toBeUndefined();
        expect(actions.find("usdx")).toBeUndefined();
        await coordinator.actions.act({ action: { ...OPERATOR, node: "https://a.example" }, lasts: undefined });
        expect(actions.find("amulet", "https://a.example")).toBeUndefined();
        expect(actions.all().map(({ action }) => action.mode)).toEqual(["cache-only"]);
      }));

    test("end by themselves, and say so", () =>
      use(async ({ coordinator, pass }) => {
        const states: (string | undefined)[] = [];
        const { actions } = coordinator;
        actions.onChange(() => states.push(actions.find("amulet")?.action.mode));
        await coordinator.actions.act({ action: { ...OPERATOR, mode: "cache-only" }, lasts: 1_000 });
        await pass(700);
        expect(actions.find("amulet")?.action.mode).toBe("cache-only");
        await pass(500);
        expect(actions.find("amulet")).toBeUndefined();
        expect([states[0], states.at(-1)]).toEqual(["cache-only", undefined]);
      }));
  });

  describe.concurrent(`${name}: leases`, () => {
    test("a key has one holder at a time, and the next after it was released", () =>
      use(async ({ coordinator }) => {
        const lease = await coordinator.leases.acquire("key");
        expect(lease).toBeDefined();
        expect(await coordinator.leases.acquire("key")).toBeUndefined();
        const other = await coordinator.leases.acquire("another");
        expect(other).toBeDefined();
        other!.release("failed");
        lease!.release("stored");
        const next = await acquireSoon(coordinator, "key");
        lease!.release("stored");
        expect(await coordinator.leases.acquire("key")).toBeUndefined();
        next.release("failed");
      }));

    test.for<FetchOutcome>(["stored", "uncacheable", "failed"])(
      "those who wait learn that the fetch was %s",
      (outcome) =>
        use(async ({ coordinator, now }) => {
          const lease = await coordinator.leases.acquire("key");
          const waiting = [
            coordinator.leases.whenReleased("key", now() + 5_000),
            coordinator.leases.whenReleased("key", now() + 5_000),
          ];
          lease!.release(outcome);
          expect(await Promise.all(waiting)).toEqual([outcome, outcome]);
        }),
    );

    test("nobody waits beyond the deadline", () =>
      use(async ({ coordinator, now, pass }) => {
        const lease = await coordinator.leases.acquire("key");
        const waiting = coordinator.leases.whenReleased("key", now() + 50);
        await pass(60);
        expect(await waiting).toBeUndefined();
        lease!.release("failed");
      }));
  });

  describe.concurrent(`${name}: limits`, () => {
    test("grant no more calls than they say in any window of either length", () =>
      use(async ({ coordinator, now, pass, settle, share = 1 }) => {
        await settle?.();
        const windows = [
          { name: "calls", requests: 8 / share, per: 400 },
          { name: "burst", requests: 4 / share, per: 100 },
        ];
        const granted: { from: number; to: number }[] = [];
        let refused = 0;
        for (let i = 0; i < 100; i += 1) {
          const from = now();
          const answer = await coordinator.limits.take({ kind: "upstream", id: "budget", windows });
          if (answer.granted) granted.push({ from, to: now() });
          else {
            refused += 1;
            expect(Math.max(...answer.retryIn)).toBeGreaterThan(0);
            expect(Math.max(...answer.retryIn)).toBeLessThanOrEqual(410);
          }
          await pass(10);
        }
        expect(granted.length).toBeGreaterThan(11);
        expect(refused).toBeGreaterThan(0);
        for (const { requests, per } of windows) {
          for (let i = requests * share; i < granted.length; i += 1) {
            expect(granted[i]!.to - granted[i - requests * share]!.from).toBeGreaterThanOrEqual(per - 1);
          }
        }
      }));

    test("count down what is left, for each name alone, and refuse in all windows or in none", () =>
      use(async ({ coordinator, settle, share = 1 }) => {
        await settle?.();
        const windows = [
          { name: "calls", requests: 3 / share, per: 60_000 },
          { name: "burst", requests: 2 / share, per: 50_000 },
        ];
        const take = async (id: string) => coordinator.limits.take({ kind: "upstream", id, windows });
        const left = ({ used }: Awaited<ReturnType<typeof take>>) =>
          windows.map(({ requests }, i) => requests - used[i]!);
        expect(left(await take("one"))).toEqual([2, 1]);
        expect(left(await take("one"))).toEqual([1, 0]);
        for (let i = 0; i < 3; i += 1) expect((await take("one")).granted).toBe(false);
        expect(left(await take("two"))).toEqual([2, 1]);
        const one = { kind: "upstream", id: "one", windows: [windows[0]!] } as const;
        expect((await coordinator.limits.take(one)).granted).toBe(true);
        expect((await coordinator.limits.take(one)).granted).toBe(false);
      }));

    test("go on with what was counted when a reload makes a window shorter or longer", () =>
      use(async ({ coordinator, settle, share = 1 }) => {
        await settle?.();
        const take = async (per: number) => {
          const windows = [
            { name: "calls", requests: 3 / share, per },
            { name: "burst", requests: 4 / share, per: 40_000 },
          ];
          return (await coordinator.limits.take({ kind: "upstream", id: "reloaded", windows })).granted;
        };
        for (let i = 0; i < 2; i += 1) expect(await take(60_000)).toBe(true);
        expect(await take(30_000)).toBe(true);
        expect(await take(30_000)).toBe(false);
        expect(await take(90_000)).toBe(false);
        // What was called under the other length was missing from the first, which had the whole limit to give again.
        expect(await take(60_000)).toBe(false);
      }));

    test("count what is made later than it was granted, in full windows as well", () =>
      use(async ({ coordinator, settle, share = 1 }) => {
        await settle?.();
        const windows = [{ name: "calls", requests: 3 / share, per: 60_000 }];
        const claim = { kind: "upstream", id: "late", windows } as const;
        expect((await coordinator.limits.take(claim)).granted).toBe(true);
        coordinator.limits.recount(claim);
        coordinator.limits.recount(claim);
        expect((await coordinator.limits.take(claim)).granted).toBe(false);
        coordinator.limits.recount(claim);
        expect((await coordinator.limits.take(claim)).used[0]).toBeGreaterThanOrEqual(4);
      }));
  });

  describe.concurrent(`${name}: facts`, () => {
    test("recalls what was remembered until its time is over", () =>
      use(async ({ coordinator, pass }) => {
        expect(await coordinator.facts.recall("contract")).toEqual([]);
        coordinator.facts.remember("contract", "DSO::1220aa", 150);
        expect(await coordinator.facts.recall("contract")).toEqual(["DSO::1220aa"]);
        coordinator.facts.remember("contract", "other::1220bb", 150);
        expect((await coordinator.facts.recall("contract"))[0]).toBe("other::1220bb");
        await pass(200);
        // Its time begins when it is written, which is soon.
        await until(async () => (await coordinator.facts.recall("contract")).length === 0);
      }));
  });
}

/** Releasing may take a moment to reach what is shared. */
async function acquireSoon(coordinator: Coordinator, key: string): Promise<Lease> {
  for (let i = 0; i < 200; i += 1) {
    const lease = await coordinator.leases.acquire(key);
    if (lease !== undefined) return lease;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error("the lease was never released");
}
