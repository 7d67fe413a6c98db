import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { IncomingMessage, RequestListener } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { describe, expect, onTestFinished, test } from "vitest";
import type { GatewayError } from "../../src/errors.ts";
import type { UpstreamAnswer, UpstreamCall } from "../../src/upstream/call.ts";
import { Upstreams } from "../../src/upstream/upstreams.ts";
import { MOST_IDLE } from "../../src/upstream/wire/connection.ts";
import { ManualClock } from "../support/manual-clock.ts";
import type { SampleRegistry } from "../support/sample-registry.ts";
import { ShiftedClock } from "../support/shifted-clock.ts";
import {
  acceptCall,
  ADMIN,
  inTime,
  listCall,
  openUpstream,
  openUpstreams,
  OTHER_ADMIN,
  startRegistry,
  streamedCall,
  upstreamConfigs,
} from "../support/upstream-registries.ts";

const portOf = ({ url }: SampleRegistry) => Number(new URL(url).port);
const fixture = (name: string) => join(import.meta.dirname, "../fixtures/tls", name);
const pem = (name: string) => readFileSync(fixture(`${name}.pem`));

/** All calls but infos. */
function requestsOf({ calls }: SampleRegistry): number {
  return calls.total - calls.count("info");
}

/** Another registry on the port of one that ended. */
async function replace(registry: SampleRegistry) {
  const port = portOf(registry);
  await registry.stop();
  return startRegistry({ admin: OTHER_ADMIN, port });
}

/** As after an idle time: the registry has closed what was open. */
async function dropConnections(registry: SampleRegistry): Promise<void> {
  await registry.kill();
  await registry.revive();
  await heard();
}

/** What happened to connections has reached the gateway. */
async function heard(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
}

async function openProved(keys: Record<string, unknown> = {}) {
  const registry = await startRegistry({ latency: 5 });
  const opened = openUpstream([registry], keys);
  await opened.upstream.learnAdmin(inTime(5_000));
  registry.calls.clear();
  return { registry, ...opened };
}

/** A server that answers as `serve` does, with TLS where `certificate` names one, and what it was asked. */
async function serveRegistry(certificate: string | undefined, serve: RequestListener, port = 0) {
  const asked: string[] = [];
  const answer: RequestListener = (request, response) => {
    asked.push(`${request.method} ${request.url}`);
    serve(request, response);
  };
  const server =
    certificate === undefined
      ? createServer(answer)
      : createTlsServer({ cert: pem(certificate), key: pem(`${certificate}-key`) }, answer);
  const sockets = new Set<Socket>();
  server.on(certificate === undefined ? "connection" : "secureConnection", (socket: Socket) => sockets.add(socket));
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const scheme = certificate === undefined ? "http" : "https";
  return { url: `${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}`, asked, server, sockets };
}

describe("a node that becomes another registry gets no request:", () => {
  test("under the load of 32 connections, passed-through calls and pages included", async () => {
    const { registry, upstream, forgotten } = await openProved({ admin: ADMIN });
    const end = new AbortController();
    onTestFinished(() => end.abort());
    const statuses: number[] = [];
    const load = Array.from({ length: 32 }, async (_, i) => {
      while (!end.signal.aborted) {
        const deadline = inTime(5_000);
        const called =
          i % 4 === 0
            ? upstream.stream(streamedCall({ deadline })).then(async ({ status, body }) => {
                await buffer(body);
                return status;
              })
            : upstream
                .call(i % 4 === 1 ? listCall({ deadline }) : acceptCall({ deadline }))
                .then(({ status }) => status);
        statuses.push(await called.catch(({ status }: { status: number }) => status));
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    });
    await registry.calls.reached(300);
    expect(new Set(statuses)).toEqual(new Set([200]));
    const other = await replace(registry);
    const before = statuses.length;
    await expect.poll(() => statuses.length).toBeGreaterThan(before + 500);
    end.abort();
    await Promise.all(load);
    expect(other.calls.count("info")).toBeGreaterThan(0);
    expect(requestsOf(other)).toBe(0);
    expect(forgotten).toEqual([ADMIN]);
    expect(upstream.state).toBe("wrong-admin");
  });

  test("after an idle time, in which its connections ended", async () => {
    const { registry, upstream, forgotten } = await openProved({ admin: ADMIN });
    expect((await upstream.call(acceptCall())).status).toBe(200);
    const other = await replace(registry);
    await heard();
    const answers = await Promise.allSettled(
      [acceptCall(), listCall(), acceptCall()].map((each) => upstream.call(each) as Promise<unknown>),
    );
    const streamed = await Promise.allSettled([upstream.stream(streamedCall())]);
    for (const answer of [...answers, ...streamed]) {
      expect(answer).toMatchObject({ reason: { status: 502, message: expect.stringMatching(/another registry/) } });
    }
    expect(requestsOf(other)).toBe(0);
    expect(forgotten).toEqual([ADMIN]);
  });

  test("of two nodes the other one has it, and a configured upstream loses the odd node alone", async () => {
    const registries = [await startRegistry(), await startRegistry()];
    const { upstream, upstreams } = openUpstream(registries, { admin: ADMIN });
    upstreams.start();
    await expect.poll(() => upstream.state).toBe("up");
    const other = await replace(registries[0]!);
    const answers: UpstreamAnswer[] = [];
    for (let i = 0; i < 20; i++) answers.push(await upstream.call(acceptCall()));
    expect(answers.map(({ status, node }) => [status, node])).toEqual(answers.map(() => [200, 1]));
    expect(requestsOf(other)).toBe(0);
    await expect.poll(() => upstream.status().nodes[0]!.state).toBe("wrong-admin");
    expect(upstream.state).toBe("degraded");
  });

  test("another certificate at the same address is asked first, although a connection of the one before is open", async () => {
    const stalled: IncomingMessage[] = [];
    const registry = await serveRegistry("server", (request, response) => {
      if (request.method === "GET") response.end(`{"adminId":"${ADMIN}"}`);
      else stalled.push(request);
    });
    const keys = { admin: ADMIN, tls: { caFile: fixture("ca-and-successor.pem") } };
    const { upstream } = openUpstream([registry.url], keys);
    const stuck = upstream.call(acceptCall({ deadline: inTime(2_000) })).catch(() => undefined);
    await expect.poll(() => stalled.length).toBe(1);
    // The listener is gone, and of its connections only the one that is in use stays.
    registry.server.close();
    for (const socket of registry.sockets) if (socket !== stalled[0]!.socket) socket.destroy();
    await heard();
    const port = Number(new URL(registry.url).port);
    const other = await serveRegistry(
      "successor",
      (_request, response) => response.end(`{"adminId":"${OTHER_ADMIN}"}`),
      port,
    );
    await expect(upstream.call(listCall())).rejects.toMatchObject({ status: 502 });
    expect(other.asked).toEqual(["GET /registry/metadata/v1/info"]);
    await stuck;
  });
});

describe("a proof costs", () => {
  test("one info after an idle time, however many calls come at once, and none while a connection is open", async () => {
    const { registry, upstream } = await openProved({ admin: ADMIN });
    const storm = () => Promise.all(Array.from({ length: 32 }, () => upstream.call(acceptCall())));
    await storm();
    await storm();
    expect(registry.calls.count("info")).toBe(0);
    expect(registry.connections.accepted).toBeGreaterThan(16);
    for (let idle = 1; idle <= 3; idle += 1) {
      await dropConnections(registry);
      await storm();
      expect(registry.calls.count("info")).toBe(idle);
    }
  });

  test("one info after an idle time where a registry closes its connections after each answer", async () => {
    const { url, asked } = await serveRegistry(undefined, (request, response) => {
      response.writeHead(200, { connection: "close", "content-type": "application/json" });
      const body = request.method === "GET" ? `{"adminId":"${ADMIN}"}` : '{"choiceContextData":{}}';
      request.resume().on("end", () => response.end(body));
    });
    const { upstream } = openUpstream([url], { admin: ADMIN, retry: { attempts: 1 } });
    await upstream.learnAdmin(inTime(5_000));
    for (let i = 0; i < 5; i++) expect((await upstream.call(acceptCall())).status).toBe(200);
    const posts = asked.filter((line) => line.startsWith("POST"));
    expect(posts).toHaveLength(5);
    const storm = await Promise.all(Array.from({ length: 16 }, () => upstream.call(acceptCall())));
    expect(storm.every(({ status }) => status === 200)).toBe(true);
    expect(asked.filter((line) => line.startsWith("GET"))).toHaveLength(1);
  });

  test("none for a call within proof.every of the one before, though no connection is idle for a minute", async () => {
    const { url, asked, sockets } = await serveRegistry(undefined, (request, response) => {
      response.writeHead(200, { connection: "close", "content-type": "application/json" });
      const body = request.method === "GET" ? `{"adminId":"${ADMIN}"}` : '{"choiceContextData":{}}';
      request.resume().on("end", () => response.end(body));
    });
    const clock = new ManualClock();
    const { upstream } = openUpstream([url], { admin: ADMIN, proof: { every: "10m" } }, { clock });
    const post = () => upstream.call(acceptCall({ deadline: clock.now() + 10_000 }));
    await upstream.learnAdmin(clock.now() + 5_000);
    expect((await post()).status).toBe(200);
    /** As long as a connection may be idle, so many times. */
    const pass = async (times: number) => {
      for (; times > 0; times -= 1) {
        const before = [...sockets];
        clock.advance(MOST_IDLE);
        await expect.poll(() => before.every(({ destroyed }) => destroyed)).toBe(true);
      }
    };
    await pass(11);
    expect((await post()).status).toBe(200);
    expect(asked.filter((line) => line.startsWith("GET"))).toHaveLength(1);

    await pass(3);
    expect([...sockets].every(({ destroyed }) => destroyed)).toBe(true);
    expect((await post()).status).toBe(200);
    expect(asked.filter((line) => line.startsWith("GET"))).toHaveLength(2);
  });

  test("none where a client brings about that connections end", async () => {
    const { registry, upstream } = await openProved({ admin: ADMIN, retry: { attempts: 1 } });
    await registry.faults.set({ kind: "reset", operations: ["transfer_accept"] });
    for (let i = 0; i < 30; i++) await upstream.call(acceptCall()).catch(() => undefined);
    await registry.faults.set({ kind: "hang", operations: ["transfer_accept"] });
    for (let i = 0; i < 10; i++) await upstream.call(acceptCall({ deadline: inTime(20) })).catch(() => undefined);
    expect((await upstream.call(listCall())).status).toBe(200);
    // Once because so many calls failed in a row.
    expect(registry.calls.count("info")).toBeLessThanOrEqual(1);
  });

  test("a call of rateLimit, and a call that finds none left for it is 429", async () => {
    const { registry, upstream } = await openProved({
      admin: ADMIN,
      rateLimit: { requests: 3, per: "1h", maxWait: "0s" },
    });
    expect((await upstream.call(acceptCall())).status).toBe(200);
    await dropConnections(registry);
    await expect(upstream.call(acceptCall())).rejects.toMatchObject({ status: 429 });
    expect(requestsOf(registry)).toBe(1);
  });

  test("nothing at a reload: connections of the former configuration vouch for new ones", async () => {
    const { registry, upstreams, environment } = await openProved();
    const { url } = registry;
    const next = new Upstreams(upstreamConfigs({ name: "amulet", urls: [url], timeout: "9s" }), environment, upstreams);
    onTestFinished(() => next.close());
    expect((await next.byName("amulet")!.call(acceptCall())).status).toBe(200);
    expect(registry.calls.count("info")).toBe(0);
    await upstreams.closeExcept(next);
    const other = await replace(registry);
    await heard();
    await expect(next.byName("amulet")!.call(acceptCall())).rejects.toMatchObject({ status: 502 });
    expect(requestsOf(other)).toBe(0);
  });
});

describe("a call whose grant is out of its window when its connection is proved takes another", () => {
  const rateLimit = { requests: 10, per: "1s", perEndpoint: true, group: "host" };

  /** What becomes of it, where another registry of the group is called so often meanwhile. */
  async function statusOf(call: Partial<UpstreamCall>, others: number): Promise<number> {
    const clock = new ShiftedClock();
    const [slow, well] = [await startRegistry({ clock }), await startRegistry({ admin: OTHER_ADMIN, clock })];
    const { upstreams } = openUpstreams(
      upstreamConfigs({ name: "slow", urls: [slow.url], rateLimit }, { name: "well", urls: [well.url], rateLimit }),
      { clock },
    );
    const [one, other] = [upstreams.byName("slow")!, upstreams.byName("well")!];
    await Promise.all([one, other].map((each) => each.learnAdmin(clock.now() + 5_000)));
    await dropConnections(slow);
    slow.calls.clear();
    const proof = Promise.withResolvers<undefined>();
    slow.script(({ operation }) => (operation === "info" ? proof.promise : undefined));
    const status = one.call(acceptCall(call)).then(
      (answer) => answer.status,
      (error: GatewayError) => error.status,
    );
    await slow.calls.reached(1);
    clock.advance(1_200);
    for (let i = 0; i < others; i++) await other.call(acceptCall());
    proof.resolve(undefined);
    return status;
  }

  test.for([
    ["as urgent as it is", "post", 6, 200],
    ["no more urgent than it is", "background", 6, 429],
    ["within the time that it may wait", "post", 10, 429],
  ] as const)("%s", async ([, priority, others, status]) => {
    expect(await statusOf({ priority, maxWait: 0 }, others)).toBe(status);
  });
});

test("an info that fails after an idle time is the answer of the request, and the node stays what it was", async () => {
  const { registry, upstream } = await openProved({ admin: ADMIN });
  await dropConnections(registry);
  await registry.faults.set({ kind: "status", status: 500, operations: ["info"], times: 1 });
  await expect(upstream.call(acceptCall())).rejects.toMatchObject({
    status: 502,
    message: expect.stringMatching(/answered 500 when asked which registry it is/),
  });
  expect(requestsOf(registry)).toBe(0);
  expect((await upstream.call(acceptCall())).status).toBe(200);
});

test("connections that waited for a proof that fails are closed", async () => {
  const { registry, upstream } = await openProved({ admin: ADMIN, retry: { attempts: 1 } });
  await dropConnections(registry);
  await registry.faults.set({ kind: "status", status: 500, operations: ["info"] });
  const accepted = registry.connections.accepted;
  const calls = await Promise.allSettled(Array.from({ length: 16 }, () => upstream.call(acceptCall())));
  expect(calls.every(({ status }) => status === "rejected")).toBe(true);
  // As many as were accepted before the first of them failed.
  expect(registry.connections.accepted - accepted).toBeGreaterThan(1);
  await expect.poll(() => registry.connections.open).toBe(0);
});

test("a request that ends while its connection is proved leaves the proof to the others", async () => {
  const { registry, upstream } = await openProved({ admin: ADMIN });
  await dropConnections(registry);
  await registry.faults.set({ kind: "slow", delay: 100, operations: ["info"] });
  const controller = new AbortController();
  const first = upstream.call(acceptCall({ signal: controller.signal }));
  await registry.calls.reached(1);
  const second = upstream.call(acceptCall());
  controller.abort();
  await expect(first).rejects.toMatchObject({ status: 499 });
  expect((await second).status).toBe(200);
  expect(registry.calls.count("info")).toBe(1);
  expect(upstream.status()).toMatchObject({ running: 0, nodes: [{ inFlight: 0 }] });
});

test("what another process finds out about a node has it asked before it gets another call", async () => {
  const { registry, upstream, upstreams } = await openProved({ admin: ADMIN });
  const told: string[] = [];
  const elsewhere = openUpstream([registry], { admin: ADMIN });
  elsewhere.environment.coordinator.announcements.announce = (news) => void told.push(news);
  await elsewhere.upstream.learnAdmin(inTime(5_000));
  await dropConnections(registry);
  await registry.faults.set({ kind: "wrong-admin", admin: OTHER_ADMIN, operations: ["info"] });
  await expect(elsewhere.upstream.call(acceptCall())).rejects.toMatchObject({ status: 502 });
  expect(told).toHaveLength(1);
  await registry.faults.clear();
  await upstream.call(acceptCall());
  await registry.faults.set({ kind: "wrong-admin", admin: OTHER_ADMIN, operations: ["info"] });
  // This process has open connections that were proved, which another one's word takes away.
  expect((await upstream.call(acceptCall())).status).toBe(200);
  const before = requestsOf(registry);
  upstreams.receive("impostor of somebody else");
  expect((await upstream.call(acceptCall())).status).toBe(200);
  for (const news of told) upstreams.receive(news);
  await expect(upstream.call(acceptCall())).rejects.toMatchObject({ status: 502 });
  expect(requestsOf(registry)).toBe(before + 1);
});
