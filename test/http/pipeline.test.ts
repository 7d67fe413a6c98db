import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { Turn } from "../../src/http/pipeline.ts";

test("tasks run together at the end of the turn, in order", async () => {
  const turn = new Turn();
  const done: string[] = [];
  turn.atEnd(() => done.push("first"));
  await Promise.resolve();
  turn.atEnd(() => done.push("second"));
  expect(done).toEqual([]);
  await nextTurn();
  expect(done).toEqual(["first", "second"]);
});

test("what follows from a task in the same turn is not put off again", async () => {
  const turn = new Turn();
  const done: string[] = [];
  turn.atEnd(() => {
    done.push("task");
    turn.atEnd(() => done.push("at once"));
    void Promise.resolve()
      .then(() => undefined)
      .then(() => turn.atEnd(() => done.push("a little later")));
    process.nextTick(() => turn.atEnd(() => done.push("after a tick")));
    setImmediate(() => turn.atEnd(() => done.push("in the next turn")));
  });
  turn.atEnd(() => done.push("another"));
  await nextTurn();
  expect(done).toEqual(["task", "at once", "another", "after a tick", "a little later"]);
  await nextTurn();
  await nextTurn();
  expect(done.at(-1)).toBe("in the next turn");
});

test("a task that throws takes nothing from those after it, and its error is not swallowed", async () => {
  const listeners = process.listeners("uncaughtException");
  process.removeAllListeners("uncaughtException");
  const errors: unknown[] = [];
  process.on("uncaughtException", (error) => errors.push(error));
  try {
    const turn = new Turn();
    const done: string[] = [];
    turn.atEnd(() => done.push("before"));
    turn.atEnd(() => {
      throw new Error("broken");
    });
    turn.atEnd(() => done.push("after"));
    await nextTurn();
    await nextTurn();
    expect(done).toEqual(["before", "after"]);
    expect(errors).toEqual([new Error("broken")]);
    turn.atEnd(() => done.push("later"));
    await nextTurn();
    expect(done).toEqual(["before", "after", "later"]);
  } finally {
    process.removeAllListeners("uncaughtException");
    for (const listener of listeners) process.on("uncaughtException", listener);
  }
});

test("several come at a time when the last turn that brought any brought more than two", async () => {
  const turn = new Turn();
  const arrive = async (count: number): Promise<readonly boolean[]> => {
    await nextTurn();
    return Array.from({ length: count }, () => turn.arrive());
  };
  expect(await arrive(3)).toEqual([false, false, false]);
  await nextTurn();
  expect(await arrive(2)).toEqual([true, true]);
  expect(await arrive(1)).toEqual([false]);
  expect(await arrive(4)).toEqual([false, false, false, false]);
  expect(await arrive(1)).toEqual([true]);
  expect(await arrive(1)).toEqual([false]);
});
