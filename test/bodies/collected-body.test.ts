import { randomBytes } from "node:crypto";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { describe, expect, test } from "vitest";
import { collect, CollectedBody, collectOptionsOf } from "../../src/bodies/collected-body.ts";
import { Upload } from "../../src/bodies/upload.ts";

/** The bytes in chunks of these sizes, again and again. */
function inChunks(bytes: Buffer, ...sizes: number[]): Buffer[] {
  const chunks: Buffer[] = [];
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const size = sizes[i % sizes.length]!;
    chunks.push(bytes.subarray(at, at + size));
    at += size;
  }
  return chunks;
}

const body = randomBytes(15_000);

describe("a collected body", () => {
  test.each([[1], [15_000], [1, 4_000], [0, 3], [511, 512, 513]])("is what came, in chunks of %j", async (...sizes) => {
    expect(await collect(Readable.from(inChunks(body, ...sizes)), 15_000)).toEqual(body);
    const upload = new Upload(Readable.from(inChunks(body, ...sizes)), { most: 15_000 });
    expect(await buffer(upload)).toEqual(body);
  });

  test.each([undefined, 0, 10, 15_000, 1e9])(
    "is what came where %s bytes were announced, and takes no more room",
    (announced) => {
      const collected = new CollectedBody(20_000, { announced });
      for (const chunk of inChunks(body, 100)) expect(collected.add(chunk)).toBeUndefined();
      const whole = collected.take();
      expect(whole).toEqual(body);
      expect(whole.buffer.byteLength).toBe(15_000);
    },
  );

  test("goes on in pieces that keep their bytes while others come", () => {
    const collected = new CollectedBody(Infinity);
    const pieces = inChunks(body, 10, 700, 1).map((chunk, at) => {
      collected.add(chunk);
      return at % 3 === 2 ? collected.take() : Buffer.alloc(0);
    });
    expect(Buffer.concat([...pieces, collected.take()])).toEqual(body);
  });

  test("is refused one byte beyond the limit", async () => {
    await expect(collect(Readable.from(inChunks(body, 1_000)), 14_999)).rejects.toMatchObject({ fault: "too-large" });
  });

  test("is refused in far too many chunks, and empty ones are chunks", async () => {
    const many = Array.from({ length: 20_000 }, () => Buffer.from("x"));
    const fault = "too-many-chunks";
    await expect(collect(Readable.from(many), 2 ** 20)).rejects.toMatchObject({ fault });
    const empty = new CollectedBody(2 ** 20);
    expect(Array.from({ length: 20_000 }, () => empty.add(Buffer.alloc(0))).at(-1)).toBe(fault);
    await expect(buffer(new Upload(Readable.from(many), { most: 2 ** 20 }))).rejects.toMatchObject({ status: 400 });
    // So is what is too large besides: nothing more of it is read.
    await expect(collect(Readable.from(many), 512)).rejects.toMatchObject({ fault });
    await expect(collect(Readable.from(many), 16)).rejects.toMatchObject({ fault: "too-large" });
  });

  test.each([
    [{}, 1, 1_092],
    [{}, 10, 2_730],
    [{ "content-length": "30000" }, 1, 17_476],
  ])("of a request with %j in chunks of %i is refused after %i of them", (headers, size, taken) => {
    const collected = new CollectedBody(2 ** 20, collectOptionsOf({ headers }));
    const chunk = Buffer.alloc(size);
    let chunks = 0;
    while (collected.add(chunk) === undefined) chunks += 1;
    expect(chunks).toBe(taken);
  });

  test("is no body where the stream breaks or is cut off", async () => {
    const broken = new Readable({ read: () => undefined });
    const read = collect(broken, 10);
    broken.push("x");
    broken.destroy();
    await expect(read).rejects.toThrow("cut off");
  });
});

test("an upload gives back what it held", async () => {
  let held = 0;
  const options = { most: 15_000, onHeld: (bytes: number) => (held = bytes) };
  const unread = new Upload(Readable.from(inChunks(body, 100)), options);
  await unread.whenReady();
  expect(held).toBe(15_000);
  unread.destroy();
  await new Promise((resolve) => setImmediate(resolve));
  expect(held).toBe(0);
  await buffer(new Upload(Readable.from(inChunks(body, 100)), options));
  expect(held).toBe(0);
});
