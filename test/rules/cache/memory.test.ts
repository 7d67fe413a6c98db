import { describe, expect, test } from "vitest";
import { Memory } from "../../../src/cache/memory.ts";
import { SingleFlight } from "../../../src/cache/single-flight.ts";
import type { CacheKey, Entry } from "../../../src/cache/types.ts";
import { KEY } from "./scene.ts";

const KB = 1_024;
const keyOf = (name: string | number, isMinor = false): CacheKey => ({ ...KEY, name: String(name), isMinor });

function entryOf(bytes: number, status = 200): Entry {
  return {
    status,
    fields: [],
    body: Buffer.alloc(bytes),
    etag: "",
    validators: undefined,
    clientTtl: 0,
    bornAt: 0,
    freshUntil: 0,
    refreshUntil: 0,
    errorUntil: 0,
    epoch: 0,
    generation: 0,
  };
}

function memoryOf(bytes: number): { memory: Memory; evicted: () => number } {
  let evicted = 0;
  const memory = new Memory(bytes, (count) => {
    evicted += count;
  });
  return { memory, evicted: () => evicted };
}

describe("memory", () => {
  test("gives up what was used least recently, and never holds more than its bound", () => {
    const { memory, evicted } = memoryOf(100 * KB);
    for (let i = 0; i < 20; i += 1) {
      memory.set(keyOf(i), entryOf(10 * KB));
      memory.get(keyOf(0));
      expect(memory.bytes).toBeLessThanOrEqual(100 * KB);
    }
    expect(memory.get(keyOf(0))).toBeDefined();
    expect(memory.get(keyOf(1))).toBeUndefined();
    expect(evicted()).toBe(20 - memory.entries);
  });

  test.for([
    ["pages behind a token", true, 200],
    ["404s", false, 404],
  ] as const)("%s share an eighth, and push out nothing else", ([, isMinor, status]) => {
    const { memory } = memoryOf(160 * KB);
    for (let i = 0; i < 8; i += 1) memory.set(keyOf(`hot ${i}`), entryOf(10 * KB));
    const { bytes } = memory;
    for (let i = 0; i < 1_000; i += 1) memory.set(keyOf(i, isMinor), entryOf(KB, status));
    for (let i = 0; i < 8; i += 1) expect(memory.get(keyOf(`hot ${i}`))).toBeDefined();
    expect(memory.bytes - bytes).toBeLessThanOrEqual(20 * KB);
    expect(memory.get(keyOf(999, isMinor))).toBeDefined();
  });

  test("what has a place of its own keeps it when it is read as a minor one, and gets it when it is not", () => {
    const { memory } = memoryOf(160 * KB);
    memory.set(keyOf("a"), entryOf(KB));
    memory.set(keyOf("a", true), entryOf(2 * KB));
    memory.set(keyOf("b", true), entryOf(KB));
    memory.set(keyOf("b"), entryOf(2 * KB));
    for (let i = 0; i < 100; i += 1) memory.set(keyOf(i, true), entryOf(KB));
    for (const name of ["a", "b"]) expect(memory.get(keyOf(name))?.body).toHaveLength(2 * KB);
  });

  test("a 404 takes the place of a 200, and the other way", () => {
    const { memory } = memoryOf(160 * KB);
    for (const status of [200, 404, 200, 404]) {
      memory.set(keyOf("a"), entryOf(KB, status));
      expect([memory.get(keyOf("a"))?.status, memory.entries]).toEqual([status, 1]);
    }
    memory.delete(keyOf("a"));
    expect([memory.entries, memory.bytes]).toEqual([0, 0]);
  });

  test("what is larger than all of it is not kept, nor what it would take the place of", () => {
    const { memory } = memoryOf(16 * KB);
    memory.set(keyOf("a"), entryOf(KB));
    memory.set(keyOf("a"), entryOf(64 * KB));
    expect(memory.get(keyOf("a"))).toBeUndefined();
  });

  test("with another bound keeps what fits, the most recently used first", () => {
    const { memory } = memoryOf(320 * KB);
    for (let i = 0; i < 10; i += 1) memory.set(keyOf(i), entryOf(10 * KB));
    memory.get(keyOf(0));
    memory.resize(80 * KB);
    expect(memory.bytes).toBeLessThanOrEqual(80 * KB);
    expect([0, 1, 9].map((i) => memory.get(keyOf(i)) !== undefined)).toEqual([true, false, true]);
    memory.resize(0);
    memory.set(keyOf("a"), entryOf(KB));
    expect(memory.entries).toBe(0);
  });
});

test("a reload that leaves the bound alone looks at no entry: they may be many", () => {
  const { memory } = memoryOf(320 * KB);
  let looks = 0;
  const entry = entryOf(KB);
  const watched: Entry = Object.defineProperty({ ...entry }, "fields", { get: () => ((looks += 1), entry.fields) });
  memory.set(keyOf("a"), watched);
  const before = looks;
  memory.resize(320 * KB);
  expect([looks - before, memory.entries]).toEqual([0, 1]);
});

describe("a single flight", () => {
  test("is one per id, and over when it has landed", async () => {
    const flights = new SingleFlight<number>();
    let begun = 0;
    const begin = (): Promise<number> => Promise.resolve((begun += 1));
    const first = flights.join("a", begin);
    expect([first.isJoined, flights.join("a", begin).isJoined, flights.join("b", begin).isJoined]).toEqual([
      false,
      true,
      false,
    ]);
    expect([flights.has("a"), await first.work, flights.has("a")]).toEqual([true, 1, false]);
    expect(await flights.join("a", begin).work).toBe(3);
  });

  test("of too many refuses the next, and takes it once one has landed", async () => {
    const flights = new SingleFlight<void>();
    const { promise, resolve } = Promise.withResolvers<void>();
    for (let i = 0; i < 10_000; i += 1) flights.join(String(i), () => promise);
    expect(() => flights.join("one more", () => promise)).toThrow("try again in a moment");
    expect(flights.join("0", () => promise).isJoined).toBe(true);
    resolve();
    await flights.join("0", () => promise).work;
    expect(flights.join("one more", () => promise).isJoined).toBe(false);
  });
});
