import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { ask, FLAG, FRAME, frame, FrameClient, headerBlock, openHttp2, REQUEST, uint32 } from "../support/http2.ts";
import { RealProcess } from "../support/real-process.ts";
import { findFreePort } from "../support/redis.ts";
import { pemFile } from "../support/sample.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";

/** The limit of `config/kubernetes/deployment.yaml`. */
const MAX_MEMORY = 512 * 1024 * 1024;
const CONNECTIONS = 40;
const SECONDS = 5;

const INFO = "/registry/metadata/v1/info";
const PAGE = "/registry/metadata/v1/instruments?pageSize=400";
const COLD = "/registry/metadata/v1/instruments?pageSize=7";

const startRegistry = useSampleRegistries();
let gateway: RealProcess | undefined;
const floods: FrameClient[] = [];

afterEach(async () => {
  for (const { socket } of floods.splice(0)) socket.destroy();
  await gateway?.dispose();
});

async function start(): Promise<{ process: RealProcess; url: string }> {
  const amulet = await startRegistry({ instruments: 400 });
  const port = await findFreePort();
  const tls = { certFile: pemFile("server"), keyFile: pemFile("server-key") };
  gateway = await RealProcess.start({
    listen: { host: "127.0.0.1", port, tls },
    cache: { ttl: { info: "1h", instruments: "1h" } },
    upstreams: [{ name: "amulet", admin: amulet.admin, urls: [amulet.url], concurrency: { max: 16, queue: 512 } }],
    log: { level: "warn" },
  });
  const url = `https://127.0.0.1:${port}`;
  const session = await openHttp2(url);
  for (const path of [INFO, PAGE]) expect((await ask(session, { path })).status).toBe(200);
  session.destroy();
  return { process: gateway, url };
}

function get(path: string, stream: number): Buffer {
  const fields = [...REQUEST.slice(0, 3), [":path", path]] as const;
  return frame(FRAME.headers, FLAG.endHeaders | FLAG.endStream, stream, headerBlock(fields));
}

const NO_WINDOW = Buffer.concat([Buffer.of(0, 4), uint32(0)]);

const FLOODS: readonly (readonly [what: string, settings: Buffer, make: (round: number) => readonly Buffer[]])[] = [
  [
    "streams that are reset at once",
    Buffer.alloc(0),
    (round) => [get(COLD, 2 * round + 1), frame(FRAME.reset, 0, 2 * round + 1, uint32(8))],
  ],
  ["pings", Buffer.alloc(0), () => [frame(FRAME.ping, 0, 0, Buffer.alloc(8))]],
  ["settings", Buffer.alloc(0), () => [frame(FRAME.settings, 0, 0, NO_WINDOW)]],
  ["windows of nothing, and requests for pages", NO_WINDOW, (round) => [get(PAGE, 2 * round + 1)]],
  [
    "heads without an end",
    Buffer.alloc(0),
    (round) => [
      round === 0
        ? frame(FRAME.headers, FLAG.endStream, 1, headerBlock(REQUEST))
        : frame(FRAME.continuation, 0, 1, headerBlock([["a", "b".repeat(4_000)]])),
    ],
  ],
];

test.each(FLOODS)(
  `${CONNECTIONS} connections that send %s neither fill the memory nor shut others out`,
  async (what, settings, make) => {
    const { process, url } = await start();
    const until = performance.now() + SECONDS * 1_000;
    const attack = Array.from({ length: CONNECTIONS }, async () => {
      while (performance.now() < until) {
        // What is shut out by the flood is the flood.
        const client = await FrameClient.open(url, settings).catch(() => undefined);
        if (client === undefined) continue;
        floods.push(client);
        for (let round = 0; round < 5_000 && !client.isClosed && performance.now() < until; round++) {
          client.send(...make(round));
          if (round % 100 === 99) await pause(1);
        }
        client.socket.destroy();
      }
    });
    const others = await openHttp2(url);
    let slowest = 0;
    let asked = 0;
    for (; performance.now() < until; asked++) {
      const startedAt = performance.now();
      expect((await ask(others, { path: INFO })).status).toBe(200);
      slowest = Math.max(slowest, performance.now() - startedAt);
      await pause(20);
    }
    await Promise.all(attack);
    const peak = Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${process.pid}/status`, "utf8"))![1]) * 1024;
    console.log(
      `${what}: ${Math.round(peak / 2 ** 20)} MiB, ${asked} hits of others, the slowest ${Math.round(slowest)} ms`,
    );
    expect(peak).toBeLessThan(MAX_MEMORY);
    expect(asked).toBeGreaterThan(0);
    expect((await ask(others, { path: INFO })).status).toBe(200);
  },
);
