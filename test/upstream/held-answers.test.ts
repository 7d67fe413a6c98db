import type { Socket } from "node:net";
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { heldAnswers } from "../../src/upstream/parts.ts";
import { startRawServer } from "../support/raw-server.ts";
import {
  acceptCall,
  ADMIN,
  inTime,
  openUpstreams,
  OTHER_ADMIN,
  streamedCall,
  upstreamConfigs,
} from "../support/upstream-registries.ts";

const KIB = 1024;
const LIMITS = { requestBody: KIB, responseBody: 256 * KIB };
/** As many of the largest answers as there is room for. */
const ROOM = 4;

/** The first byte of what is coded so. */
const GZIP = 0x1f;

const json = (body: unknown) => Buffer.from(JSON.stringify(body));
const LARGEST = json({ choiceContextData: { values: { padding: "x".repeat(256 * KIB - 100) } } });

interface Begun {
  readonly path: string;
  /** Sends the last byte. */
  readonly finish: () => void;
}

/** Two registries that send all of an answer but its last byte, and that when it is asked for. */
async function openHalting(bodyOf: (path: string) => Buffer) {
  const begun: Begun[] = [];
  const writeHead = (socket: Socket, { length }: Buffer, fields: string) =>
    socket.write(`HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n${fields}content-length: ${length}\r\n\r\n`);
  const start = (adminId: string) =>
    startRawServer((socket) => {
      socket.on("data", (chunk: Buffer) => {
        const path = chunk.toString("latin1").split(" ")[1]!;
        const isInfo = path.endsWith("/info");
        const body = isInfo ? json({ adminId, supportedApis: {} }) : bodyOf(path);
        writeHead(socket, body, body[0] === GZIP ? "content-encoding: gzip\r\n" : "");
        if (isInfo) return void socket.write(body);
        socket.write(body.subarray(0, -1));
        begun.push({ path, finish: () => void socket.write(body.subarray(-1)) });
      });
    });
  const urls = [await start(ADMIN), await start(OTHER_ADMIN)].map(({ port }) => [`http://127.0.0.1:${port}`]);
  const answers = heldAnswers(ROOM * LIMITS.responseBody);
  const keys = { retry: { attempts: 2 } };
  const { upstreams, observer } = openUpstreams(
    upstreamConfigs({ name: "amulet", urls: urls[0], ...keys }, { name: "bonds", urls: urls[1], ...keys }),
    { limits: LIMITS, answers },
  );
  for (const each of upstreams.all) await each.learnAdmin(inTime(5_000));
  const finish = () => begun.splice(0).map((each) => each.finish());
  return { upstreams, observer, begun, finish };
}

const pathOf = (n: number) => `/registry/transfer-instruction/v1/${n}/choice-contexts/accept`;

type Opened = Awaited<ReturnType<typeof openHalting>>;

/** How an answer is kept until it is complete. */
const KINDS: [string, (opened: Opened, n: number) => Promise<number>][] = [
  ["calls", async ({ upstreams }, n) => (await upstreams.all[n % 2]!.call(acceptCall({ path: pathOf(n) }))).status],
  [
    "calls of other paths",
    async ({ upstreams }, n) =>
      (await upstreams.all[n % 2]!.collect(streamedCall({ method: "GET", path: pathOf(n), body: undefined }))).status,
  ],
];

describe("where answers to several registries take too much memory in all", () => {
  test.each(KINDS)("the one that is on its way longest is 503, of %s, and no fault of its node", async (_kind, ask) => {
    const opened = await openHalting(() => LARGEST);
    const { upstreams, observer, begun, finish } = opened;
    const asked: Promise<number>[] = [];
    const begin = async () => {
      const n = asked.length;
      const answer = ask(opened, n);
      answer.catch(() => undefined);
      asked.push(answer);
      await expect.poll(() => begun.some(({ path }) => path === pathOf(n))).toBe(true);
    };
    for (let i = 0; i <= ROOM; i++) await begin();
    await expect(asked[0]).rejects.toMatchObject({ status: 503, code: "overloaded", retryAfter: 1 });
    await begin();
    await expect(asked[1]).rejects.toMatchObject({ status: 503, code: "overloaded" });
    finish();
    expect(await Promise.all(asked.slice(2))).toEqual(Array(ROOM).fill(200));

    // What they took is given back.
    const again = Array.from({ length: ROOM }, (_, n) => ask(opened, 100 + n));
    await expect.poll(() => begun.length).toBe(ROOM);
    finish();
    expect(await Promise.all(again)).toEqual(Array(ROOM).fill(200));
    expect(observer.count("breaker")).toBe(0);
    expect(observer.count("retry")).toBe(0);
    for (const { state, nodes } of upstreams.all.map((each) => each.status())) {
      expect([state, nodes.map((each) => each.state)]).toEqual(["up", ["up"]]);
    }
  });

  test("small ones stay, however many there are", async () => {
    const small = json({ choiceContextData: { values: { padding: "x".repeat(60 * KIB) } } });
    const opened = await openHalting(() => small);
    const asked = Array.from({ length: 40 }, (_, n) => KINDS[0]![1](opened, n));
    await expect.poll(() => opened.begun.length).toBe(40);
    opened.finish();
    expect(await Promise.all(asked)).toEqual(Array(40).fill(200));
  });

  test("one is as large as it is when it was decoded", async () => {
    const coded = gzipSync(LARGEST);
    const opened = await openHalting((path) => (path === pathOf(99) ? coded : LARGEST));
    const [, call] = KINDS[0]!;
    const first = call(opened, 0);
    first.catch(() => undefined);
    await expect.poll(() => opened.begun.length).toBe(1);
    const others = Array.from({ length: ROOM - 1 }, (_, n) => call(opened, n + 1));
    await expect.poll(() => opened.begun.length).toBe(ROOM);
    const last = call(opened, 99);
    await expect.poll(() => opened.begun.length).toBe(ROOM + 1);
    opened.begun.pop()!.finish();
    await expect(first).rejects.toMatchObject({ status: 503, code: "overloaded" });
    expect(await last).toBe(200);
    opened.finish();
    expect(await Promise.all(others)).toEqual(Array(ROOM - 1).fill(200));
  });
});
