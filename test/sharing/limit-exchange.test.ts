import { expect, test } from "vitest";
import { CountedLimit } from "../../src/sharing/redis/counted-limit.ts";
import { LimitExchange } from "../../src/sharing/redis/limit-exchange.ts";
import { ManualClock } from "../support/manual-clock.ts";

const windows = [{ name: "calls", requests: 10, per: 60_000 }];
const settled = () => new Promise((resolve) => setImmediate(resolve));

// A replica whose second question was answered late gave Redis all its calls twice, and so used up the limit for all.
test("calls that Redis forgot are given to it once, however many questions are under way", async () => {
  const clock = new ManualClock();
  const asked: { readonly args: readonly (string | number)[]; readonly answer: (reply: unknown) => void }[] = [];
  const connection = {
    keys: { limit: () => "limit", channel: "channel" },
    message: () => "message",
    run: ({ args }: { args: readonly (string | number)[] }) => new Promise((answer) => asked.push({ args, answer })),
  };
  const epochs = { breakerEverywhere: { session: 1 }, fail: () => undefined };
  const exchange = new LimitExchange({
    connection: connection as never,
    epochs: epochs as never,
    members: { id: "a", agreedAt: -Infinity, shareOf: () => 10 } as never,
    clock,
  });
  const limit = new CountedLimit({ kind: "upstream", id: "amulet", windows }, clock);
  limit.of({ kind: "upstream", id: "amulet", windows });
  const first = exchange.run(limit, windows);
  asked.shift()!.answer([1, "before", 1, 0]);
  await first;

  const runs = [exchange.run(limit, windows), exchange.run(limit, windows)];
  const [one, other] = asked.splice(0);
  expect([one!.args[0], other!.args[0]]).toEqual(["before", "before"]);
  one!.answer([-1, ""]);
  await settled();
  // All calls, for a value of any name.
  const restore = asked.shift()!;
  expect(restore.args[0]).toBe("");
  restore.answer([1, "after", 1, 0]);
  await settled();
  other!.answer([-1, "after"]);
  await settled();
  expect(asked.map(({ args }) => args[0])).toEqual(["after", "after"]);
  for (const { answer } of asked) answer([1, "after", 2, 0]);
  for (const run of runs) expect((await run)?.granted).toBe(true);
});

// Each call to a registry was announced to all replicas, until the process ended.
test("calls beyond a share of a length that is claimed no more are not announced", async () => {
  const clock = new ManualClock();
  const announced: unknown[] = [];
  const connection = {
    keys: { limit: () => "limit", channel: "channel" },
    message: () => "message",
    run: async ({ args }: { args: readonly (string | number)[] }) => {
      announced.push(args[2]);
      return [1, "born", 1, 0, 1, 0];
    },
  };
  const exchange = new LimitExchange({
    connection: connection as never,
    epochs: { breakerEverywhere: { session: 1 }, fail: () => undefined } as never,
    members: { id: "a", agreedAt: -Infinity, shareOf: (requests: number) => requests / 2 } as never,
    clock,
  });
  const limit = new CountedLimit({ kind: "upstream", id: "amulet", windows }, clock);
  const ask = async (claimed: typeof windows) => {
    limit.of({ kind: "upstream", id: "amulet", windows: claimed });
    await exchange.run(limit, claimed);
  };
  for (let i = 0; i < 7; i += 1) await ask(windows);
  expect(announced.slice(5)).toEqual(["", "message"]);
  const longer = [{ name: "calls", requests: 1_000, per: 600_000 }];
  await ask(longer);
  clock.advance(60_000);
  announced.length = 0;
  for (let i = 0; i < 20; i += 1) await ask(longer);
  expect(new Set(announced)).toEqual(new Set([""]));
});
