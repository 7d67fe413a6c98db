import { once } from "node:events";
import { Agent, type IncomingMessage, request } from "node:http";
import { connect, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { GatewayProcess } from "../../support/gateway-process.ts";
import { PROGRAM } from "../../support/program.ts";
import { until } from "../../support/until.ts";
import { useSampleRegistries } from "../../support/sample-registries.ts";
import { DSO } from "../../support/sample.ts";

const startRegistry = useSampleRegistries();

interface Asked {
  readonly path: string;
  readonly agent: Agent;
  readonly body?: string;
}

async function statusOf(base: string, { path, agent, body }: Asked): Promise<number> {
  const headers = { "content-type": "application/json" };
  const sent = request(new URL(path, base), { agent, headers, method: body === undefined ? "GET" : "POST" });
  sent.end(body);
  const [answer] = (await once(sent, "response")) as [IncomingMessage];
  await once(answer.resume(), "end");
  return answer.statusCode!;
}

function keptAlive(): Agent {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(() => agent.destroy());
  return agent;
}

/** Connections until the system has no descriptor for another one, which it then closes. */
async function takeAll(url: string): Promise<readonly Socket[]> {
  const { hostname, port } = new URL(url);
  const sockets: Socket[] = [];
  const closed: Socket[] = [];
  while (closed.length < 3) {
    const socket = connect(Number(port), hostname);
    socket.on("error", () => undefined).on("close", () => void closed.push(socket));
    sockets.push(socket);
    await once(socket, "connect").catch(() => undefined);
  }
  return sockets;
}

// The memory of the process could not be read, and that ended it.
test("a gateway without a free file descriptor says so once, serves who is connected, and goes on when there are some", async () => {
  const registry = await startRegistry();
  const gateway = await GatewayProcess.start(
    { cache: { ttl: { notFound: "0s" } }, upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url] }] },
    { command: ["sh", "-c", 'ulimit -n 100; exec "$0" "$@"', process.execPath, PROGRAM] },
  );
  onTestFinished(async () => void (await gateway.stop()));
  const [client, operator] = [keptAlive(), keptAlive()];
  const miss = "/registry/metadata/v1/instruments/none";
  expect(await statusOf(gateway.url, { path: miss, agent: client })).toBe(404);
  expect(await statusOf(gateway.operations, { path: "/livez", agent: operator })).toBe(200);
  const sockets = await takeAll(gateway.url);
  const said = () => gateway.lines.filter(({ msg }) => String(msg).startsWith("out of file descriptors"));
  await until(() => said().length > 0);
  expect(said()).toMatchObject([{ level: "error", code: "EMFILE" }]);
  // Samples of the process are taken every 5 s.
  const seen = Date.now();
  await until(() => Date.now() - seen > 6_000);
  expect(await statusOf(gateway.url, { path: miss, agent: client })).toBe(404);
  const body = JSON.stringify({ choiceArguments: { text: "x".repeat(100_000) } });
  const path = "/registry/transfer-instruction/v1/transfer-factory";
  expect(await statusOf(gateway.url, { path, agent: client, body })).toBe(503);
  for (const each of ["/metrics", "/status", "/history"]) {
    expect([each, await statusOf(gateway.operations, { path: each, agent: operator })]).toEqual([each, 200]);
  }
  await statusOf(gateway.operations, { path: "/console/", agent: operator });
  for (const socket of sockets) socket.destroy();
  await until(() => gateway.lines.some(({ msg }) => msg === "file descriptors can be had again"));
  expect(said()).toHaveLength(1);
  const anew = new Agent();
  expect(await statusOf(gateway.url, { path: miss, agent: anew })).toBe(404);
  expect(await statusOf(gateway.url, { path, agent: anew, body })).toBe(200);
}, 120_000);
