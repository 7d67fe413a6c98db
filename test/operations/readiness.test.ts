import { describe, expect, test } from "vitest";
import { Readiness } from "../../src/operations/readiness.ts";
import type { UpstreamState, UpstreamStatus } from "../../src/upstream/status.ts";
import { ManualClock } from "../support/manual-clock.ts";

interface World {
  states: UpstreamState[];
  isDraining: boolean;
  isRedisConnected: boolean;
}

function begin(states: UpstreamState[], isRedisConnected = true) {
  const clock = new ManualClock();
  const world: World = { states, isDraining: false, isRedisConnected };
  const readiness = new Readiness({
    clock,
    isDraining: () => world.isDraining,
    isRedisConnected: () => world.isRedisConnected,
    upstreams: () => world.states.map((state, i) => ({ name: `u${i}`, state }) as UpstreamStatus),
  });
  return { clock, world, readiness, isReady: () => readiness.report().ready };
}

describe("a replica is ready", () => {
  test("at once when a node of some upstream has proved its admin", () => {
    for (const state of ["up", "degraded", "failing"] as const) {
      expect(begin(["unproved", state]).isReady()).toBe(true);
    }
  });

  test("after 5 s when none has", () => {
    const { clock, readiness, isReady } = begin(["unproved", "unproved"]);
    expect(readiness.report()).toEqual({
      ready: false,
      reason: expect.stringContaining("admin"),
      upstreams: [
        { name: "u0", state: "unproved" },
        { name: "u1", state: "unproved" },
      ],
    });
    clock.advance(4_999);
    expect(isReady()).toBe(false);
    clock.advance(1);
    expect(isReady()).toBe(true);
  });

  test("not by an upstream that names another admin, while the others have not answered", () => {
    const { clock, world, isReady } = begin(["wrong-admin", "unproved"]);
    expect(isReady()).toBe(false);
    world.states = ["wrong-admin", "wrong-admin"];
    clock.advance(5_000);
    expect(isReady()).toBe(false);
  });

  test("one second later at most because of Redis", () => {
    const waiting = begin(["up"], false);
    expect(waiting.readiness.report().reason).toContain("Redis");
    waiting.clock.advance(999);
    expect(waiting.isReady()).toBe(false);
    waiting.clock.advance(1);
    expect(waiting.isReady()).toBe(true);
    const connected = begin(["up"], false);
    connected.world.isRedisConnected = true;
    expect(connected.isReady()).toBe(true);
  });

  test("and stays so whatever becomes of upstreams and Redis", () => {
    const { world, isReady } = begin(["up", "unproved"]);
    expect(isReady()).toBe(true);
    world.isRedisConnected = false;
    for (const state of ["failing", "unproved", "disabled", "degraded"] as const) {
      world.states = [state, state];
      expect(isReady()).toBe(true);
    }
  });
});

describe("a replica is not ready", () => {
  test("when every upstream serves another admin, even after it was", () => {
    const { clock, world, readiness, isReady } = begin(["up", "up"]);
    expect(isReady()).toBe(true);
    world.states = ["wrong-admin", "up"];
    expect(isReady()).toBe(true);
    world.states = ["wrong-admin", "wrong-admin"];
    expect(readiness.report().reason).toContain("another admin");
    clock.advance(60_000);
    expect(isReady()).toBe(false);
    world.states = ["up", "wrong-admin"];
    expect(isReady()).toBe(true);
  });

  test("while it drains", () => {
    const { world, readiness } = begin(["up"]);
    world.isDraining = true;
    expect(readiness.report()).toMatchObject({ ready: false, reason: "draining" });
  });
});
