import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { Agent, request } from "undici";
import { afterEach, expect, test } from "vitest";
import { RealProcess } from "../support/real-process.ts";
import { DSO } from "../support/sample.ts";
import { startRedis, until } from "../support/redis.ts";

const PAGE = "/registry/metadata/v1/instruments";
const ACCEPT = "/registry/transfer-instruction/v1/00aa/choice-contexts/accept";
const CALLS = 200;
const WINDOW = 2_000;
/** On a machine that this test keeps busy, one call may take so much longer to arrive than another. */
const JITTER = 150;

interface Status {
  readonly workers: readonly { readonly id: number; readonly pid: number; readonly state: string }[];
}

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

/** A registry whose listing names how many times it was fetched, and that notes when it was called. */
async function startCounting() {
  const calls: number[] = [];
  let fetched = 0;
  const bodyOf = ({ method, url }: IncomingMessage): object => {
    if (url!.endsWith("/info")) return { adminId: DSO, supportedApis: { "splice-api-token-metadata-v1": 1 } };
    if (method === "POST") return { choiceContextData: { values: {} }, disclosedContracts: [] };
    fetched += 1;
    const instrument = { id: "Amulet", name: "Amulet", symbol: "AMT", totalSupply: String(fetched), decimals: 10 };
    return { instruments: [{ ...instrument, supportedApis: {} }] };
  };
  const server = createServer((incoming: IncomingMessage, response: ServerResponse) => {
    calls.push(performance.now());
    incoming.resume();
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(bodyOf(incoming)));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(() => new Promise((resolve) => server.close(resolve).closeAllConnections()));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, calls, fetched: () => fetched };
}

/** Clients that ask for much on one connection and never read an answer. */
function startUnreading(urls: readonly string[], count: number): readonly Socket[] {
  return Array.from({ length: count }, (_, index) => {
    const { port, hostname } = new URL(urls[index % urls.length]!);
    const socket = connect({ port: Number(port), host: hostname });
    socket.on("error", () => {});
    socket.pause();
    for (let asked = 0; asked < 200; asked += 1)
      socket.write(`GET /openapi.json HTTP/1.1\r\nhost: ${hostname}\r\n\r\n`);
    return socket;
  });
}

function peakOf(pid: number): number {
  return Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]) / 1024;
}

const workersOf = async (process: RealProcess) => (await process.status<Status>()).workers;

test("two replicas of two workers, one of which dies, with clients that never read: no stale answer, no call too many", async () => {
  const redis = await startRedis();
  closing.push(() => redis.stop());
  const registry = await startCounting();
  const keys = {
    workers: 2,
    redis: { url: redis.url },
    cache: { ttl: { instruments: "1h" } },
    upstreams: [
      {
        name: "amulet",
        admin: DSO,
        urls: [registry.url],
        rateLimit: { requests: CALLS, per: `${WINDOW}ms`, maxWait: "5s" },
      },
    ],
  };
  const replicas = [await RealProcess.start(keys), await RealProcess.start(keys)];
  for (const replica of replicas) closing.push(() => replica.dispose());
  const urls = replicas.map(({ url }) => url);
  const redisState = async (replica: RealProcess) => (await replica.status<{ redis: { state: string } }>()).redis.state;
  await until(async () => (await Promise.all(replicas.map(redisState))).every((state) => state === "up"));

  const unreading = startUnreading(urls, 40);
  closing.push(async () => unreading.forEach((socket) => socket.destroy()));

  // What a request that begins now must not get less than: the fetches that were made before a purge is in force.
  let least = 0;
  const attack = { isOver: false };
  const statuses = new Map<number | string, number>();
  const stale: string[] = [];
  const count = (what: number | string) => statuses.set(what, (statuses.get(what) ?? 0) + 1);
  const client = async (index: number): Promise<void> => {
    for (let turn = index; !attack.isOver; turn += 1) {
      // Most clients keep their connection; those that do not meet every worker.
      const agent = new Agent();
      const isPost = turn % 10 === 0;
      const bound = least;
      try {
        for (let again = 0; again < 5; again += 1) {
          const { statusCode, body } = await request(urls[turn % 2]! + (isPost ? ACCEPT : PAGE), {
            dispatcher: agent,
            method: isPost ? "POST" : "GET",
          });
          const text = await body.text();
          count(statusCode);
          if (isPost || statusCode !== 200) continue;
          const supply = Number(
            (JSON.parse(text) as { instruments: [{ totalSupply: string }] }).instruments[0].totalSupply,
          );
          if (supply <= bound) stale.push(`${supply} where more than ${bound} was fetched before the purge`);
        }
      } catch (error) {
        count((error as NodeJS.ErrnoException).code ?? String(error));
      } finally {
        await agent.close();
      }
    }
  };
  const clients = Array.from({ length: 16 }, (_, index) => client(index));

  const purge = async (replica: RealProcess): Promise<void> => {
    const fetchedBefore = registry.fetched();
    const headers = { "content-type": "application/json" };
    const response = await fetch(`${replica.operations}/purge`, {
      method: "POST",
      headers,
      body: '{"upstream":"amulet"}',
    });
    expect(await response.json()).toMatchObject({ scope: "fleet" });
    // In force 250 ms after the answer, 2 s where a message was lost: with the worker that is killed below.
    const inForce = performance.now() + 2_000;
    await until(() => performance.now() >= inForce);
    least = fetchedBefore;
  };
  for (let round = 0; round < 4; round += 1) {
    await purge(replicas[round % 2]!);
    if (round !== 1) continue;
    const [victim] = await workersOf(replicas[0]!);
    process.kill(victim!.pid, "SIGKILL");
  }
  await until(async () => {
    const workers = await workersOf(replicas[0]!);
    return workers.length === 2 && workers.every(({ state }) => state === "listening");
  });
  attack.isOver = true;
  await Promise.all(clients);

  const workers = (await Promise.all(replicas.map(workersOf))).flat();
  const peaks = workers.map(({ pid }) => peakOf(pid));
  const most = Math.max(
    ...registry.calls.map((begin) => registry.calls.filter((at) => at >= begin && at < begin + WINDOW - JITTER).length),
  );
  console.log(
    `answers ${JSON.stringify(Object.fromEntries(statuses))}, fetches ${registry.fetched()}, most calls in a window ${most}, ` +
      `peaks of the workers ${peaks.map(Math.round).join(", ")} MiB`,
  );
  expect(stale).toEqual([]);
  expect(most).toBeLessThanOrEqual(CALLS);
  const { 200: well = 0, 429: rationed = 0, ...failed } = Object.fromEntries(statuses) as Record<string, number>;
  expect(well).toBeGreaterThan(500);
  expect(rationed).toBeLessThan(well);
  // Only what the killed worker had connections for: of 16 clients at most.
  expect(Object.values(failed).reduce((sum, each) => sum + each, 0)).toBeLessThanOrEqual(16);
  for (const peak of peaks) expect(peak).toBeLessThan(400);
});
