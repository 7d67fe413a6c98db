import { connect } from "node:net";
import { expect, test } from "vitest";
import { inboundBytes } from "../../../src/bodies/collect.ts";
import { TestClock } from "../../support/clock.ts";
import { ACCEPT, DRAFT, LIST } from "../../support/endpoints.ts";
import { NOTHING_KEPT, startGateway } from "../../support/gateway.ts";
import { type Canned, type Misdeed, startRegistry } from "../../support/registry.ts";
import { until } from "../../support/until.ts";

/** What nodes do besides answering, with the calls of a hundred to which they do it. */
const TROUBLE: readonly (readonly [number, Canned | Misdeed])[] = [
  [5, "reset"],
  [4, "hang"],
  [4, { status: 429, fields: ["Content-Type", "text/plain"], body: "busy" }],
  [6, { status: 404, body: { error: "not yet" } }],
  [3, { status: 503, body: "away" }],
  [3, { raw: "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{" }],
];

function random(below: number): number {
  return Math.floor(Math.random() * below);
}

function trouble(): Canned | Misdeed | undefined {
  let left = random(100);
  return TROUBLE.find(([share]) => (left -= share) < 0)?.[1];
}

const clock = TestClock.running();

/** A client that goes away after a while, in the middle of its request or its answer or before either; until it is gone. */
function hurry(base: string, path: string, isPost: boolean): Promise<void> {
  const { hostname, port } = new URL(base);
  const body = JSON.stringify({ meta: { pad: "x".repeat(random(30_000)) } });
  const head = `host: x\r\ncontent-type: application/json\r\n${isPost ? `content-length: ${body.length}\r\n` : ""}\r\n`;
  const socket = connect(Number(port), hostname);
  return new Promise((resolve) => {
    socket.on("error", () => undefined).on("close", () => resolve());
    socket.on("data", () => clock.after(random(10), () => socket.destroy()));
    socket.write(`${isPost ? "POST" : "GET"} ${path} HTTP/1.1\r\n${head}`);
    if (isPost) socket.write(body.slice(0, random(4) === 0 ? random(body.length) : body.length));
    const away = (): void => void (random(2) === 0 ? socket.destroy() : socket.resetAndDestroy());
    clock.after(random(3) === 0 ? 1_000 : random(60), away);
  });
}

test("a storm of clients that go away, of nodes in trouble and of reloads leaves nothing behind", async () => {
  const amulet = await startRegistry("amulet", { nodes: 3 });
  const bonds = await startRegistry("bonds", { nodes: 3 });
  for (const each of [amulet, bonds]) {
    const later = async () => {
      await new Promise<void>((resolve) => clock.after(random(30), resolve));
      return trouble();
    };
    each.on("*", later).on("info", later);
  }
  const quick = { timeout: "1s", attemptTimeout: "300ms", hedgeAfter: "20ms" };
  const values = (round: number) => ({
    ...NOTHING_KEPT,
    clients: { anonymous: "anonymous", tiers: { anonymous: { concurrency: 1_000 } } },
    upstreams: [
      amulet.upstream({ ...quick, concurrency: 8 + (round % 2), rateLimit: { requests: "300/1s" } }),
      bonds.upstream({ ...quick, agreement: 2, concurrency: 8, urls: bonds.urls.slice(round % 2) }),
    ],
  });
  const gateway = await startGateway(values(0), { clock });
  const clients: Promise<void>[] = [];
  for (let round = 1; round <= 8; round += 1) {
    for (let i = 0; i < 50; i += 1) {
      const path = [ACCEPT, DRAFT, LIST][random(3)]!;
      clients.push(hurry(gateway.url, gateway.base(random(2) === 0 ? "amulet" : "bonds") + path, path !== LIST));
    }
    // Some have come by now, and some have not.
    for (let turn = 0; turn < 60; turn += 1) {
      await new Promise(setImmediate);
      if (turn % 5 === 4) clock.advance(5);
    }
    gateway.reload(values(round));
    if (round % 4 === 0) clock.advance("6m");
  }
  let areGone = false;
  void Promise.all(clients).then(() => (areGone = true));
  await until(() => {
    clock.advance(50);
    return areGone;
  });
  interface Counts {
    readonly inFlight: number;
    readonly waiting?: number;
  }
  await until(async () => {
    clock.advance("1s");
    const { upstreams } = (await gateway.operations.status()) as { upstreams: (Counts & { nodes: Counts[] })[] };
    const counts = upstreams.flatMap((each) => [each, ...each.nodes]);
    const isQuiet = counts.every(({ inFlight, waiting = 0 }) => inFlight + waiting === 0);
    return (
      isQuiet && inboundBytes.bytes === 0 && [amulet, bonds].every(({ calls }) => calls.every(({ isOpen }) => !isOpen))
    );
  });
  await until(async () => (await gateway.operations.get("/clients")).json.clients[0].running === 0);
  expect(gateway.lines.filter(({ level }) => Number(level) >= 50)).toEqual([]);
});
