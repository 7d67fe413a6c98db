import { fork } from "node:child_process";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { spentBy } from "../../hostile/probe.ts";
import { LONGEST_HOLD, LONGEST_HOLD_OF_MANY, Victim } from "../../hostile/victim.ts";
import { ACCEPT, DRAFT, FACTORY, INFO, LIST, PREFIX } from "../../support/endpoints.ts";
import { instruments, type Registry, startRegistry } from "../../support/registry.ts";
import { until } from "../../support/until.ts";

/** Hundreds and thousands of connections at once, against the program with 384 MB of heap. */

/** What a client's kernel sends in one go. */
const PACKET = 66_000;

let odd: Registry;
let victim: Victim;
const open = new Set<Socket>();

beforeAll(async () => {
  odd = await startRegistry("odd");
  odd.instruments = instruments("ODD", 2_000);
  victim = await Victim.start({ upstreams: [odd.upstream({ retries: 0, timeout: "5s", concurrency: 1_000 })] });
});

afterEach(async () => {
  for (const socket of open) socket.destroy();
  open.clear();
  // What they had it do is done, or left.
  await until(async () => (await victim.during(() => pause(200))).hits > 20, 120_000);
  await victim.expectHolds(LONGEST_HOLD, () => pause(200));
});

/** Opens connections, of which some may be refused. */
async function openMany(count: number, url: string): Promise<Socket[]> {
  const { port, hostname } = new URL(url);
  const sockets: Socket[] = [];
  while (sockets.length < count) {
    const some = Array.from({ length: Math.min(200, count - sockets.length) }, () => connect(Number(port), hostname));
    for (const socket of some) open.add(socket.on("error", () => undefined));
    await Promise.all(some.map((socket) => Promise.race([once(socket, "connect"), once(socket, "close")])));
    sockets.push(...some);
  }
  return sockets;
}

interface Attack {
  readonly count: number;
  readonly text: string;
  readonly url?: string;
  readonly isUnread?: boolean;
  readonly lasts?: number;
}

/** Has so many connections send the same at once. */
async function attack({
  count,
  text,
  url = victim.process.site.url,
  isUnread = false,
  lasts = 1_500,
}: Attack): Promise<void> {
  const sockets = await openMany(count, url);
  for (const socket of sockets) {
    if (isUnread) socket.pause();
    else socket.resume();
    socket.write(text, "latin1");
  }
  await pause(lasts);
}

const chunked = (path: string): string =>
  `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${"1\r\na\r\n".repeat(PACKET / 6)}`;

/** What the same packets cost a server of Node's that looks at nothing: the parser calls for each chunk. */
async function costOfNode(text: string): Promise<number> {
  const server = fork(new URL("../../hostile/bare-server.ts", import.meta.url));
  try {
    const [port] = (await once(server, "message")) as [number];
    const before = spentBy(server.pid!);
    await attack({ count: 400, text, url: `http://127.0.0.1:${port}`, lasts: 500 });
    let last = 0;
    await until(async () => {
      const [earlier] = [last, await pause(300)];
      last = spentBy(server.pid!);
      return last - earlier < 20;
    }, 120_000);
    return last - before;
  } finally {
    server.kill();
  }
}

/** The same for each of them: only the path differs. */
let bare: Promise<number> | undefined;

describe("400 connections that each send a packet of chunks of a byte cost no more than Node's parser does:", () => {
  test.each(["a factory", "a passed-through path", "the operations listener"])("to %s", async (where) => {
    const paths: Record<string, string> = { "a factory": FACTORY, "a passed-through path": DRAFT };
    const path = paths[where];
    const text = chunked(path === undefined ? "/purge" : `${PREFIX}/odd${path}`);
    bare ??= costOfNode(text);
    const most = 2 * (await bare) + 1_000;
    const before = victim.spent();
    const { site, operations } = victim.process;
    const held = await victim.during(() =>
      attack({ count: 400, text, url: (path === undefined ? operations : site).url }),
    );
    expect(held.failures).toBe(0);
    expect(victim.spent() - before).toBeLessThan(most);
  });
});

const head = (path: string, fields = ""): string => `GET ${path} HTTP/1.1\r\nHost: a\r\n${fields}`;
const post = (path: string, sent: number): string =>
  `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n${"x".repeat(sent)}`;

describe.each([400, 1_000])("%i connections hold nobody for a second, and the program lives:", (count) => {
  test.each([
    ["half heads", { text: head(INFO, `X-A: ${"x".repeat(15_000)}`) }],
    ["half bodies", { text: post(`${PREFIX}/odd${FACTORY}`, 100_000) }],
    ["bodies but for their end", { text: post(`${PREFIX}/odd${DRAFT}`, 999_000), lasts: 3_000 }],
    ["ten requests at once", { text: `${head(`${PREFIX}/well${INFO}`)}\r\n`.repeat(10), lasts: 3_000 }],
    [
      "answers that are not read",
      { text: `${head(`${PREFIX}/odd${LIST}`)}\r\n`.repeat(3), isUnread: true, lasts: 3_000 },
    ],
    [
      "contexts that are not read",
      {
        text: `POST ${PREFIX}/odd${ACCEPT} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n`,
        isUnread: true,
        lasts: 3_000,
      },
    ],
  ] as [string, Omit<Attack, "count">][])("%s", async (what, options) => {
    odd.on("transfer_accept", { body: { choiceContextData: { x: "x".repeat(50_000) }, disclosedContracts: [] } });
    if (what.startsWith("answers")) await victim.ask(`${PREFIX}/odd${LIST}`);
    await victim.expectHolds(LONGEST_HOLD_OF_MANY, () => attack({ count, ...options }));
  });
});

// Node parses all that stand in a packet before the first is answered, some 700 here, and keeps each until its answer is read.
// A bare server of Node's ends at 1,000 such connections; a front sends one request at a time.
test.each([false, true])(
  "100 connections that send a packet full of requests do not end the program; unread: %s",
  async (isUnread) => {
    const request = `${head(`${PREFIX}/well${INFO}`)}\r\n`;
    const text = request.repeat(Math.floor(PACKET / request.length));
    await victim.during(() => attack({ count: 100, text, isUnread, lasts: 5_000 }));
  },
);

test("10,000 connections that are opened and left: those who came before are served", async () => {
  await victim.expectHolds(LONGEST_HOLD_OF_MANY, async (round) => {
    if (round === 0) await attack({ count: 10_000, text: "", lasts: 500 });
  });
  expect(await victim.process.operations.metric("registry_gateway_connections")).toBeLessThanOrEqual(10_000);
});
