import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { GatewayProcess } from "../../support/gateway-process.ts";
import { send } from "../../support/send.ts";

const MIB = 2 ** 20;
const AT_ONCE = 20;
const ROUNDS = 8;
const ADMIN = "big::1220aa";

/** As large as default limits allow: a hundred legs, and what a hundred allocations need. */
const REQUEST = Buffer.from(
  batchOf(MIB - 100, (pad) => `{"choiceArguments":{"transferLegs":[${pad}],"allocations":[]}}`),
);
const ANSWER = Buffer.from(
  batchOf(
    8 * MIB - 200,
    (pad) => `{"factoryId":"00","choiceContext":{"choiceContextData":{"x":[${pad}]},"disclosedContracts":[]}}`,
  ),
);

function batchOf(size: number, wrap: (parts: string) => string): string {
  const part = Math.floor(size / 101);
  return wrap(Array.from({ length: 100 }, (_none, at) => `{"leg":${at},"of":"${"y".repeat(part - 30)}"}`).join());
}

let registry: Server;
let gateway: GatewayProcess;
let misread = 0;

beforeAll(async () => {
  registry = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      response.writeHead(200, { "content-type": "application/json" });
      if (request.method === "GET") return void response.end(`{"adminId":"${ADMIN}","supportedApis":{}}`);
      if (!Buffer.concat(chunks).equals(REQUEST)) misread += 1;
      response.end(ANSWER);
    });
  });
  await new Promise<void>((resolve) => registry.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(registry.address() as AddressInfo).port}`;
  gateway = await GatewayProcess.start({ upstreams: [{ name: "big", admin: ADMIN, urls: [url], timeout: "60s" }] });
});
afterAll(async () => {
  await gateway.stop();
  registry.close();
  registry.closeAllConnections();
});

async function residentMib(): Promise<number> {
  const { text } = await send(gateway.operations, { path: "/metrics" });
  return Number(/^process_resident_memory_bytes (\S+)$/m.exec(text)![1]) / MIB;
}

/**
 * MiB that the process may hold at most: its own hundred, twice what twenty requests and answers are, for what is on its
 * way in and out, the heap of the thread that reads large bodies (384), and what was not collected yet.
 */
const BOUND = 1_024;

test("settlements of 1 MiB with answers of 8 MiB go through, twenty at once, in bounded memory", async () => {
  const path = "/registry/allocation/v2/settlement-factory";
  const idle = await residentMib();
  const peaks: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const done = new AbortController();
    const asked = Promise.all(
      Array.from({ length: AT_ONCE }, () => send(gateway.url, { path, body: REQUEST })),
    ).finally(() => done.abort());
    let peak = 0;
    while (!done.signal.aborted) {
      peak = Math.max(peak, await residentMib());
      await sleep(20);
    }
    for (const { status, text, bytes } of await asked) {
      expect([status, status === 200 ? "" : text]).toEqual([200, ""]);
      expect(bytes.equals(ANSWER)).toBe(true);
    }
    peaks.push(Math.round(peak));
  }
  console.log(`idle ${Math.round(idle)} MiB, then at most, by round: ${peaks.join(", ")} MiB`);
  expect(misread).toBe(0);
  expect(Math.max(...peaks)).toBeLessThan(BOUND);
  // What the first rounds took, later ones take again.
  expect(peaks.at(-1)!).toBeLessThan(Math.max(...peaks.slice(0, 3)) + 192);
});
