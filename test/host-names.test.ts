import { expect, test } from "vitest";
import { sleep } from "../src/clock.ts";
import { HostNames } from "../src/host-names.ts";
import { ManualClock } from "./support/manual-clock.ts";

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

/** How long the system asks a silent server. */
const GIVEN_UP_AFTER = 10_000;

/** Lookups as the system makes them, two at once; all servers but those of good names are silent. */
function openSystem() {
  const clock = new ManualClock();
  const begun: string[] = [];
  const waiting: (() => void)[] = [];
  let free = 2;
  const names = new HostNames(clock, async (name) => {
    if (free > 0) free -= 1;
    else await new Promise<void>((begin) => waiting.push(begin));
    begun.push(name);
    try {
      if (name.startsWith("good")) return A;
      await sleep(GIVEN_UP_AFTER, clock);
      throw Object.assign(new Error("EAI_AGAIN"), { code: "EAI_AGAIN" });
    } finally {
      const next = waiting.shift();
      if (next === undefined) free += 1;
      else next();
    }
  });
  const pass = async (duration: number) => {
    await tick();
    clock.advance(duration);
    await tick();
  };
  return { names, begun, pass };
}

test("fifty names of a stranger whose servers are silent hold up no other name", async () => {
  const { names, begun, pass } = openSystem();
  const strangers = Promise.allSettled(
    Array.from({ length: 50 }, (_, at) => names.addressesForStranger(`stranger-${at}`)),
  );
  await tick();
  expect(await names.addressesOf("good")).toEqual(A);

  // Not even beside a silent one of ours: the next thread that is free is for what asked first.
  void names.addressesOf("silent").catch(() => undefined);
  const another = names.addressesOf("good-too");
  await pass(GIVEN_UP_AFTER);
  expect(await another).toEqual(A);
  const codes = (await strangers).map((each) => each.status === "rejected" && each.reason.code);
  expect(new Set(codes)).toEqual(new Set(["EAI_AGAIN"]));
  // Nobody waits for the others any more.
  expect(begun).toEqual(["stranger-0", "good", "silent", "good-too"]);
});

test("a stranger's name that led somewhere leads there while others have the turn", async () => {
  const { names, pass } = openSystem();
  expect(await names.addressesForStranger("good")).toEqual(A);
  void names.addressesForStranger("stranger").catch(() => undefined);
  const again = names.addressesForStranger("good");
  await pass(500);
  expect(await again).toEqual(A);
});

test("a name that is ours does not wait for the turn that a stranger has for it", async () => {
  const { names, begun } = openSystem();
  for (const name of ["stranger", "good"]) void names.addressesForStranger(name).catch(() => undefined);
  await tick();
  expect([await names.addressesOf("good"), begun]).toEqual([A, ["stranger", "good"]]);
});
