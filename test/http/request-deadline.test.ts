import { describe, expect, test } from "vitest";
import { deadlineFromNow } from "../../src/http/request-deadline.ts";
import type { Upstream } from "../../src/upstream/upstream.ts";
import { ManualClock } from "../support/manual-clock.ts";

const upstream = { config: { timeout: 15_000 } } as Upstream;

describe("the deadline of a request", () => {
  test.each<[string | undefined, number]>([
    [undefined, 15_000],
    ["2", 2_000],
    ["0.25", 250],
    ["2.5", 2_500],
    ["15", 15_000],
    ["16", 15_000],
    ["999999", 15_000],
    ["0", 15_000],
    ["0.0", 15_000],
    ["-1", 15_000],
    ["1e3", 15_000],
    ["2s", 15_000],
    ["0.0001", 15_000],
    ["", 15_000],
    ["2, 3", 15_000],
  ])("with Request-Timeout %s is %i ms after it began", (asked, duration) => {
    const clock = new ManualClock();
    const began = clock.now();
    const deadlineOf = deadlineFromNow(asked === undefined ? {} : { "request-timeout": asked }, clock);
    clock.advance(100);
    expect(deadlineOf(upstream) - began).toBe(duration);
  });
});
