import { expect, test } from "vitest";
import { HostNames } from "../../src/upstream/wire/host-names.ts";
import { ManualClock } from "../support/manual-clock.ts";

const A = [{ address: "192.0.2.1", family: 4 as const }];
const B = [{ address: "192.0.2.2", family: 4 as const }];

const tick = () => new Promise((resolve) => setImmediate(resolve));

/** Names, and the lookups of the system that nobody has answered yet. */
function open() {
  const clock = new ManualClock();
  const asked: { name: string; answer: (addresses: typeof A) => void; fail: (error: Error) => void }[] = [];
  const names = new HostNames(clock, (name) => {
    const { promise, resolve, reject } = Promise.withResolvers<typeof A>();
    asked.push({ name, answer: resolve, fail: reject });
    return promise;
  });
  const take = () => asked.splice(0);
  return { clock, names, asked, take };
}

test("one name is asked for once, however many connections wait for it", async () => {
  const { names, take } = open();
  const waiting = [names.addressesOf("a"), names.addressesOf("a")];
  const [lookUp, ...others] = take();
  expect([lookUp?.name, others]).toEqual(["a", []]);
  lookUp!.answer(A);
  expect(await Promise.all(waiting)).toEqual([A, A]);
  const later = names.addressesOf("a");
  take()[0]!.answer(B);
  expect(await later).toEqual(B);
});

test("where no answer comes, what came last stands, and what comes late counts for the next", async () => {
  const { clock, names, take } = open();
  const first = names.addressesOf("a");
  take()[0]!.answer(A);
  await first;
  const second = names.addressesOf("a");
  clock.advance(500);
  expect(await second).toEqual(A);
  const third = names.addressesOf("a");
  take()[0]!.answer(B);
  expect(await third).toEqual(B);
});

test("a name that cannot be resolved for a while leads where it did, one that is gone nowhere", async () => {
  const { names, take } = open();
  const error = (code: string) => Object.assign(new Error(code), { code });
  const never = names.addressesOf("a");
  take()[0]!.fail(error("EAI_AGAIN"));
  await expect(never).rejects.toThrow("EAI_AGAIN");
  const first = names.addressesOf("a");
  take()[0]!.answer(A);
  await first;
  const second = names.addressesOf("a");
  take()[0]!.fail(error("EAI_AGAIN"));
  expect(await second).toEqual(A);
  const third = names.addressesOf("a");
  take()[0]!.fail(error("ENOTFOUND"));
  await expect(third).rejects.toThrow("ENOTFOUND");
});

test("names whose servers are silent take one lookup at a time, and others go past them", async () => {
  const { clock, names, take } = open();
  const silent = ["s1", "s2", "s3"];
  const error = Object.assign(new Error("EAI_AGAIN"), { code: "EAI_AGAIN" });
  const ask = (name: string) => names.addressesOf(name).catch(() => undefined);
  for (const name of silent) void ask(name);
  clock.advance(5_000);
  for (const { fail } of take()) fail(error);
  await tick();
  for (const name of silent) void ask(name);
  await tick();
  const good = names.addressesOf("good");
  const running = take();
  expect(running.map(({ name }) => name)).toEqual(["s1", "good"]);
  running[1]!.answer(A);
  expect(await good).toEqual(A);
  running[0]!.fail(error);
  await tick();
  expect(take().map(({ name }) => name)).toEqual(["s2"]);
});
