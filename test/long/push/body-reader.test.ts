import { onTestFinished, describe, expect, test } from "vitest";
import { BodyReader, TooCostly } from "../../../src/bodies/body-reader.ts";
import { ManualClock } from "../../support/manual-clock.ts";

const MIB = 2 ** 20;

function open(largest = () => 8 * MIB): { reader: BodyReader; clock: ManualClock } {
  const clock = new ManualClock();
  const reader = new BodyReader({ clock, largest });
  onTestFinished(() => reader.close());
  return { reader, clock };
}

const page = (count: number): Buffer =>
  Buffer.from(JSON.stringify({ instruments: Array.from({ length: count }, (_none, at) => ({ id: `i${at}` })) }));

const LARGE_PAGE = page(20_000);

describe("a large body is read in a thread of its own", () => {
  test("and what it says is what it says when it is read at once", async () => {
    const { reader } = open();
    const body = Buffer.from(
      `{"adminId":"a::1","x":"é","instruments":[{"id":"A","name":"Ä","totalSupplyAsOf":"2026-01-01T00:00:00Z"},{"id":"B"}],"nextPageToken":"t"}`,
    );
    const asker = { source: "amulet" };
    const answer = await reader.read({ kind: "answer", operation: "instruments" }, body, asker);
    expect(answer).toEqual({
      isJson: true,
      isError: false,
      adminId: "a::1",
      kinds: ["info", "instruments"],
      problem: expect.stringContaining("instruments"),
      supplyAsOf: Date.parse("2026-01-01T00:00:00Z"),
      page: await reader.read({ kind: "page" }, body, asker),
    });
    expect(answer.page).toMatchObject({ ids: ["A", "B"], names: ["Ä", ""], nextPageToken: "t" });
    expect(await reader.read({ kind: "answer", operation: "info" }, Buffer.from("{"), asker)).toMatchObject({
      isJson: false,
    });
    const request = await reader.read(
      { kind: "request", form: { kind: "factory", paths: [{ keys: ["choiceArguments", "expectedAdmin"] }] } },
      Buffer.from('{"choiceArguments":{"expectedAdmin":"a::1"}}'),
      { source: undefined },
    );
    expect(request).toEqual({
      allocations: [],
      refusal: undefined,
      strictProblem: undefined,
      admins: [{ admin: "a::1", at: "choiceArguments.expectedAdmin" }],
    });
    // It was copied, not taken away.
    expect(body.length).toBeGreaterThan(0);
  });

  test("each source in its turn, however much another has waiting; unless nobody waits for it any more, and no more than a thousand", async () => {
    const { reader } = open();
    const order: string[] = [];
    const read = async (source: string): Promise<void> => {
      await reader.read({ kind: "page" }, page(1_000), { source });
      order.push(source);
    };
    await Promise.all([read("a"), read("a"), read("a"), read("a"), read("b"), read("c"), read("b")]);
    expect(order).toEqual(["a", "a", "b", "c", "a", "b", "a"]);

    let isWanted = true;
    const first = reader.read({ kind: "page" }, page(1_000), { source: "a" });
    const second = reader.read({ kind: "page" }, page(1_000), { source: "a", isWanted: () => isWanted });
    isWanted = false;
    await first;
    await expect(second).rejects.toMatchObject({ status: 503 });

    const reads = Array.from({ length: 1_002 }, () => reader.read({ kind: "page" }, page(1), { source: "a" }));
    const results = await Promise.allSettled(reads);
    expect(results.map(({ status }) => status)).toEqual([
      ...Array.from({ length: 1_001 }, () => "fulfilled"),
      "rejected",
    ]);
  });

  test("unless it takes too much memory; the next one is read all the same", async () => {
    const { reader } = open();
    const nested = Buffer.from(`${"[".repeat(4 * MIB)}${"]".repeat(4 * MIB)}`);
    await expect(reader.read({ kind: "page" }, nested, { source: "a" })).rejects.toBeInstanceOf(TooCostly);
    // Parsed, this is not too heavy; what is made of it is.
    const numbers = Buffer.from(`{"instruments":[${"1,".repeat(6 * MIB)}1]}`);
    const meaning = reader.read({ kind: "meaning", operation: "instruments" }, numbers, { source: "a" });
    await expect(meaning).rejects.toBeInstanceOf(TooCostly);
    expect(await reader.read({ kind: "page" }, page(3), { source: "a" })).toMatchObject({ ids: ["i0", "i1", "i2"] });
  });

  test.each([
    ["instruments", "instruments", "{"],
    ["disclosedContracts", "transfer_accept", '{"choiceContextData":{},'],
  ] as const)("whatever is wrong with each of millions in %s", async (list, operation, head) => {
    const { reader } = open();
    const body = Buffer.from(`${head}"${list}":[${"0,".repeat(4 * MIB - 100)}0]}`);
    const { problem } = await reader.read({ kind: "answer", operation }, body, { source: "a" });
    expect(problem).toBe(`${list}.0 must be object`);
  });

  // The thread had a heap for what was the largest when it started: parsing more ended the process.
  test("also one that may be larger than any could be when the thread began", async () => {
    let largest = 8 * MIB;
    const { reader } = open(() => largest);
    await reader.read({ kind: "page" }, page(3), { source: "a" });
    largest = 40 * MIB;
    const heavy = Buffer.from(`{"x":[${"[1],".repeat(7 * MIB)}1],"instruments":[{"id":"i0"}]}`);
    expect(await reader.read({ kind: "page" }, heavy, { source: "a" })).toMatchObject({ ids: ["i0"] });
  });

  test("unless it takes too long; then those that wait are read by another thread", async () => {
    const { reader, clock } = open();
    const slow = reader.read({ kind: "page" }, LARGE_PAGE, { source: "a" });
    const next = reader.read({ kind: "page" }, page(3), { source: "a" });
    clock.advance(9_999);
    clock.advance(1);
    await expect(slow).rejects.toBeInstanceOf(TooCostly);
    expect(await next).toMatchObject({ ids: ["i0", "i1", "i2"] });
  });

  test("unless the gateway ends", async () => {
    const { reader } = open();
    const running = reader.read({ kind: "page" }, LARGE_PAGE, { source: "a" });
    const waiting = reader.read({ kind: "page" }, page(3), { source: "a" });
    reader.close();
    await expect(running).rejects.toMatchObject({ status: 503 });
    await expect(waiting).rejects.toMatchObject({ status: 503, retryAfter: 1 });
  });

  test("unless its turn does not come in time", async () => {
    const { reader, clock } = open();
    // Each of the first ones has its full time: the thread never gets to the last.
    const slow = [1, 2].map(() => reader.read({ kind: "page" }, LARGE_PAGE, { source: "a" }));
    clock.advance(9_000);
    const late = reader.read({ kind: "page" }, page(3), { source: "a" });
    clock.advance(1_000);
    await expect(slow[0]).rejects.toBeInstanceOf(TooCostly);
    clock.advance(9_000);
    await expect(late).rejects.toMatchObject({ status: 503, retryAfter: 1 });
    expect(await slow[1]).toHaveProperty("ids.length", 20_000);
  });

  test("and the thread ends when there was nothing to do for a while, and begins again", async () => {
    const { reader, clock } = open();
    for (let i = 0; i < 2; i++) {
      expect(await reader.read({ kind: "page" }, page(1), { source: "a" })).toMatchObject({ ids: ["i0"] });
      clock.advance(30_000);
    }
  });
});
