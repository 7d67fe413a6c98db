import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { GatewayProcess } from "../../support/gateway-process.ts";
import type { ChunkSize, HostileKind, HostileOrder } from "../../support/hostile-load.ts";
import { send } from "../../support/send.ts";

const MIB = 2 ** 20;

/** What a process may take in all. */
const MAX_MEMORY = 384 * MIB;

/**
 * So many milliseconds of CPU the gateway may take while a hit of another registry waits for it. Of a client's body Node
 * reads 64 KiB at once, some 11,000 chunks of a byte: 10 ms, twice that where two threads share a core. Its parser cannot
 * be stopped in between, and what came on several connections is read in one turn of the loop: their times add up.
 * An answer rests every 2,048 chunks, but a hit takes a few turns, in each of which all have theirs.
 */
const MAX_HELD = 50;

/** The best counts: a fault of the gateway shows in every one. */
const ROUNDS = 3;

const HIT = { path: "/api/token-standard/v0/registrars/well/registry/metadata/v1/instruments/I-1" };

let load: Worker;
let port: number;
let gateway: GatewayProcess;

beforeAll(async () => {
  load = new Worker(new URL("../../support/hostile-load.ts", import.meta.url));
  [port] = (await once(load, "message")) as [number];
});
afterAll(() => load.terminate());

// A process for each, so that none lives on the memory of another.
beforeEach(async () => {
  const upstreams = ["big", "well"].map((name) => ({
    name,
    admin: `${name}::1220aa`,
    urls: [`http://127.0.0.1:${port}/${name}`],
  }));
  const program = join(import.meta.dirname, "../../../src/main.ts");
  gateway = await GatewayProcess.start(
    { upstreams },
    { command: [process.execPath, "--max-semi-space-size=8", program] },
  );
  await hitUntil(setTimeout(200));
});
afterEach(() => gateway.stop());

/** The most that a process took, in bytes, since this was asked last. */
function memoryOf(pid: number): number {
  const [, most] = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))!;
  writeFileSync(`/proc/${pid}/clear_refs`, "5");
  return Number(most) * 1024;
}

/** Milliseconds for which the main thread of a process ran: what others took of the machine does not count. */
function ranFor(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ", 1)[0]) / 1e6;
}

/** Hits of the registry named well, the worst of them; in milliseconds. */
interface Hits {
  /** What the gateway's thread did from the request to the answer. */
  readonly held: number;
  /** By the clock. */
  readonly slowest: number;
}

/** Hits until then, one after the other. Nothing else is done in this thread. */
async function hitUntil(end: Promise<unknown>): Promise<Hits> {
  const done = new AbortController();
  void end.then(() => done.abort());
  let held = 0;
  let slowest = 0;
  do {
    const ran = ranFor(gateway.pid);
    const begun = performance.now();
    expect((await send(gateway.url, HIT)).status).toBe(200);
    slowest = Math.max(slowest, performance.now() - begun);
    held = Math.max(held, ranFor(gateway.pid) - ran);
    await setTimeout(2);
  } while (!done.signal.aborted);
  return { held, slowest };
}

interface Attack {
  readonly hits: Hits;
  readonly statuses: readonly number[];
  /** Milliseconds. */
  readonly time: number;
  /** Bytes. */
  readonly memory: number;
}

async function attack(kind: HostileKind, count: number, size: ChunkSize): Promise<Attack> {
  const { pid, url, operations } = gateway;
  memoryOf(pid);
  const begun = performance.now();
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- threads have no origin
  load.postMessage({ kind, count, size, url, operations } satisfies HostileOrder);
  const answered = once(load, "message") as Promise<[number[]]>;
  const hits = await hitUntil(answered);
  const [statuses] = await answered;
  return { hits, statuses: [...new Set(statuses)], time: performance.now() - begun, memory: memoryOf(pid) };
}

/** The least, the median and the most. */
function range(values: readonly number[]): string {
  const sorted = values.map(Math.round).toSorted((one, other) => one - other);
  return [sorted[0], sorted[sorted.length >> 1], sorted.at(-1)].join("/");
}

const say = (hits: readonly Hits[]): string =>
  `held ${range(hits.map(({ held }) => held))} ms, slowest hit ${range(hits.map(({ slowest }) => slowest))} ms`;

/** What each is answered with in chunks of a byte and in large ones; 0: the answer breaks off. */
const ANSWERED: Readonly<Record<HostileKind, readonly [small: number, large: number]>> = {
  request: [400, 200],
  upload: [400, 200],
  "sign-in": [400, 413],
  answer: [502, 200],
  download: [0, 200],
  page: [502, 200],
  interim: [502, 200],
};

test.each<[count: number, kind: HostileKind, held: number]>([
  [1, "request", MAX_HELD],
  [2, "request", 2 * MAX_HELD],
  [20, "request", 20 * MAX_HELD],
  [1, "upload", MAX_HELD],
  [8, "upload", 8 * MAX_HELD],
  [1, "sign-in", MAX_HELD],
  [8, "sign-in", 8 * MAX_HELD],
  [1, "answer", MAX_HELD],
  [8, "answer", 4 * MAX_HELD],
  [1, "download", MAX_HELD],
  [8, "download", 4 * MAX_HELD],
  [1, "page", MAX_HELD],
  [8, "page", 4 * MAX_HELD],
  [1, "interim", MAX_HELD],
  [8, "interim", MAX_HELD],
])("%i × %s in chunks of one byte hold no hit of another registry up for %i ms", async (count, kind, most) => {
  const rounds: Attack[] = [];
  const quiet: Hits[] = [];
  for (let i = 0; i < ROUNDS; i += 1) {
    const round = await attack(kind, count, 1);
    rounds.push(round);
    quiet.push(await hitUntil(setTimeout(round.time)));
  }
  const memory = Math.max(...rounds.map((round) => round.memory));
  const large = await attack(kind, count, 65_536);
  const small = rounds.map(({ hits }) => hits);
  console.log(
    `${count} × ${kind}: ${say(small)}; without it ${say(quiet)}; in large chunks ${say([large.hits])}; ` +
      `${Math.round(memory / MIB)} MiB`,
  );
  const [inSmall, inLarge] = ANSWERED[kind];
  for (const { statuses } of rounds) expect(statuses).toEqual([inSmall]);
  expect(large.statuses).toEqual([inLarge]);
  expect(memory).toBeLessThan(MAX_MEMORY);
  expect(Math.min(...small.map(({ held }) => held))).toBeLessThan(most);
});
