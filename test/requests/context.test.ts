import { describe, expect, test } from "vitest";
import { deadlineFromNow } from "../../src/requests/context.ts";
import { requestIdOf } from "../../src/requests/send.ts";
import type { Upstream } from "../../src/upstream/upstream.ts";
import { ManualClock } from "../support/manual-clock.ts";

describe("the request id", () => {
  test.each(["a", "0af7651916cd43dd-8448eb211c80319c", "A.b_c:d/e+f=g@h~i-j", "x".repeat(128)])(
    "is the client's when it is safe: %s",
    (id) => {
      expect(requestIdOf(id)).toBe(id);
    },
  );

  test.each([
    "",
    " ",
    "x".repeat(129),
    "a b",
    "a,b",
    'a"b',
    "a\tb",
    "é",
    "<script>",
    "${jndi:x}",
    "rgk_abc",
    undefined,
  ])("is a new one otherwise: %j", (received) => {
    const id = requestIdOf(received);
    expect(id).toMatch(/^[0-9a-f]{16}-[0-9a-z]+$/);
    expect(requestIdOf(received)).not.toBe(id);
  });

  test("is a new one where the client sends several", () => {
    expect(requestIdOf(["a", "b"])).toMatch(/^[0-9a-f]{16}-/);
  });
});

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
