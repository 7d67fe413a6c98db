import { expect, test } from "vitest";
import { type HeldBody, HeldBodies } from "../../src/bodies/held-bodies.ts";

const KIB = 1024;
const MIB = 1024 * KIB;

function holding(most: number) {
  const bodies = new HeldBodies({ most });
  const givenUp: string[] = [];
  const begin = (name: string, bytes: number): HeldBody => {
    const body = bodies.begin({ largest: MIB, giveUp: () => givenUp.push(name) });
    body.note(bytes);
    return body;
  };
  return { givenUp, begin };
}

// One was given up for each chunk, so that a large one was refused beside hundreds that had stalled.
test("as many bodies on their way are given up as one more needs, the longest first", () => {
  const { givenUp, begin } = holding(16 * MIB);
  for (let i = 0; i < 32; i += 1) begin(`${i}`, 512 * KIB);
  const large = begin("large", 100);
  large.complete();
  large.note(3 * MIB);
  expect([large.isTooMuch(), givenUp]).toEqual([false, ["0", "1", "2", "3", "4", "5"]]);
});

test("one that flows on is not given up in the place of one that stalls", () => {
  const { givenUp, begin } = holding(16 * MIB);
  begin("flowing", 10).note(0);
  begin("stalled", 16 * MIB);
  begin("another", 10);
  expect(givenUp).toEqual(["stalled"]);
});

test("complete ones are not given up: then there is no room", () => {
  const { givenUp, begin } = holding(16 * MIB);
  begin("complete", 15 * MIB).complete();
  const late = begin("late", 0);
  late.complete();
  late.note(2 * MIB);
  expect([late.isTooMuch(), givenUp]).toEqual([true, []]);
});
