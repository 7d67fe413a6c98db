import { describe, expect, test } from "vitest";
import type { AbortSignalLike } from "../../src/clock.ts";
import { type FetchEnd, SharedFetch, waitFor } from "../../src/cache/shared-fetch.ts";
import { ManualClock } from "../support/manual-clock.ts";

interface Started {
  readonly clock: ManualClock;
  readonly fetch: SharedFetch<string>;
  readonly ends: FetchEnd[];
  readonly signal: () => AbortSignalLike;
  readonly succeed: (value: string) => void;
  readonly fail: (error: Error) => void;
}

function start(background = false): Started {
  const clock = new ManualClock();
  const ends: FetchEnd[] = [];
  const work = Promise.withResolvers<string>();
  let signal: AbortSignalLike | undefined;
  const fetch = new SharedFetch<string>({
    clock,
    timeout: 1_000,
    background,
    run: (given) => {
      signal = given;
      return work.promise;
    },
    ended: (how) => ends.push(how),
  });
  return { clock, fetch, ends, signal: () => signal!, succeed: work.resolve, fail: work.reject };
}

const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

describe("a fetch that requests share", () => {
  test("ends once for all that wait, and its signal stays quiet", async () => {
    const { clock, fetch, ends, succeed, signal } = start();
    const waiting = [fetch.wait({ deadline: clock.now() + 500 }), fetch.wait({ deadline: clock.now() + 500 })];
    succeed("value");
    expect(await Promise.all(waiting)).toEqual(["value", "value"]);
    clock.advance(5_000);
    await settle();
    expect([ends, signal().aborted]).toEqual([["done"], false]);
  });

  test("fails for all that wait", async () => {
    const { clock, fetch, ends, fail } = start();
    const waiting = Promise.allSettled([
      fetch.wait({ deadline: clock.now() + 500 }),
      fetch.wait({ deadline: Infinity }),
    ]);
    fail(new Error("no"));
    expect((await waiting).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(ends).toEqual(["failed"]);
  });

  test("is over at its own deadline, though its work does not heed the signal", async () => {
    const { clock, fetch, ends, signal } = start(true);
    const waiting = fetch.wait({ deadline: Infinity }).catch((error: unknown) => error);
    clock.advance(1_000);
    expect(await waiting).toMatchObject({ status: 504 });
    expect([ends, signal().aborted]).toEqual([["failed"], true]);
  });

  test("is given up when no request waits any more, unless it is in the background", async () => {
    for (const background of [false, true]) {
      const { clock, fetch, ends, signal } = start(background);
      const waiting = fetch.wait({ deadline: clock.now() + 100 }).catch((error: unknown) => error);
      clock.advance(100);
      expect(await waiting).toMatchObject({ status: 504 });
      expect([ends, signal().aborted]).toEqual(background ? [[], false] : [["abandoned"], true]);
    }
  });

  test("reports a failure that no request waited for to none", async () => {
    const { fail, ends } = start(true);
    fail(new Error("no"));
    await settle();
    expect(ends).toEqual(["failed"]);
  });
});

test("waiting leaves neither timer nor listener behind", async () => {
  const clock = new ManualClock();
  const { signal } = new AbortController();
  await waitFor(Promise.resolve(1), clock, { deadline: clock.now() + 100, signal });
  await expect(
    waitFor(Promise.reject(new Error("no")), clock, { deadline: clock.now() + 100, signal }),
  ).rejects.toThrow("no");
  expect(Reflect.get(clock, "timers")).toHaveProperty("size", 0);
});

test("a client's signal counts though it is a getter that makes it when it is first asked for", async () => {
  const clock = new ManualClock();
  const leaving = new AbortController();
  class Request {
    readonly deadline = clock.now() + 100;
    get signal(): AbortSignal {
      return leaving.signal;
    }
  }
  const waiting = waitFor(new Promise(() => undefined), clock, new Request());
  leaving.abort();
  await expect(waiting).rejects.toMatchObject({ code: "client_gone" });
});
