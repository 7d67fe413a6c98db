import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { collect, Collector, InboundBytes } from "../../../src/bodies/collect.ts";
import { GatewayError } from "../../../src/errors.ts";

const tooLarge = () => new GatewayError("body_too_large", "too large");

test.each([
  { name: "whole in one chunk", chunks: ["hello"], announced: 5 },
  { name: "in two chunks", chunks: ["hel", "lo"], announced: 5 },
  { name: "of unknown length", chunks: ["h", "e", "l", "l", "o"], announced: undefined },
  { name: "longer than announced", chunks: ["hel", "lo"], announced: 2 },
  { name: "shorter than announced", chunks: ["hello"], announced: 50 },
])("a body $name comes together, in a block of its size", ({ chunks, announced }) => {
  const inbound = new InboundBytes(10_000);
  const collector = new Collector({ limit: 100, announced, inbound });
  for (const chunk of chunks) expect(collector.add(Buffer.from(chunk))).toBeUndefined();
  expect(collector.body().toString()).toBe("hello");
  expect(inbound.bytes).toBe(5);
  collector.release();
  collector.release();
  expect(inbound.bytes).toBe(0);
});

test("a body of one-byte chunks costs at most twice its bytes, and keeps no chunk", () => {
  const inbound = new InboundBytes(2 ** 20);
  const collector = new Collector({ limit: 2 ** 20, inbound });
  const packet = Buffer.alloc(66_000, "x");
  for (let at = 0; at < packet.length; at += 1) collector.add(packet.subarray(at, at + 1));
  expect(inbound.bytes).toBeLessThanOrEqual(2 * 66_000);
  expect(collector.body().buffer).not.toBe(packet.buffer);
  expect(collector.body().equals(packet)).toBe(true);
});

test("a body of the limit is taken, one byte more is too large", () => {
  const collector = new Collector({ limit: 8, inbound: new InboundBytes(100) });
  expect(collector.add(Buffer.alloc(8))).toBeUndefined();
  expect(collector.add(Buffer.alloc(1))).toBe("too_large");
});

test("all bodies together take no more than the process has for them, until one is done with", () => {
  const inbound = new InboundBytes(4_096);
  const [one, two, three] = [0, 1, 2].map(() => new Collector({ limit: 100_000, inbound }));
  expect(one!.add(Buffer.alloc(1_000))).toBeUndefined();
  expect(two!.add(Buffer.alloc(1_000))).toBeUndefined();
  expect(three!.add(Buffer.alloc(1_000))).toBe("overloaded");
  one!.release();
  expect(three!.add(Buffer.alloc(1_000))).toBeUndefined();
});

const OUTCOMES = [
  { name: "within the limit", body: ["ab", "cd"], announced: undefined, limit: 4, inbound: 4_096, code: undefined },
  {
    name: "beyond the limit",
    body: ["ab", "cde"],
    announced: undefined,
    limit: 4,
    inbound: 4_096,
    code: "body_too_large",
  },
  {
    name: "that says it is beyond the limit",
    body: [],
    announced: 5,
    limit: 4,
    inbound: 4_096,
    code: "body_too_large",
  },
  {
    name: "for which there is no memory",
    body: ["ab"],
    announced: undefined,
    limit: 4,
    inbound: 1,
    code: "overloaded",
  },
];

test.each(OUTCOMES)("a request's body $name", async ({ body, announced, limit, inbound: most, code }) => {
  const inbound = new InboundBytes(most);
  const stream = Readable.from(body.map((chunk) => Buffer.from(chunk)));
  const collected = collect(stream, { limit, announced, inbound, tooLarge });
  if (code === undefined) expect((await collected).bytes.toString()).toBe(body.join(""));
  else await expect(collected).rejects.toMatchObject({ code });
});

test("a request that breaks off is a client that is gone, and its memory comes back", async () => {
  const inbound = new InboundBytes(4_096);
  const stream = new Readable({ read: () => undefined });
  const collected = collect(stream, { limit: 100, inbound, tooLarge });
  stream.push(Buffer.from("ab"));
  await new Promise((resolve) => setImmediate(resolve));
  expect(inbound.bytes).toBeGreaterThan(0);
  stream.destroy();
  await expect(collected).rejects.toMatchObject({ code: "client_gone" });
  expect(inbound.bytes).toBe(0);
});
