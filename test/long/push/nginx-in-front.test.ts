import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server } from "node:http";
import { request as requestHttps } from "node:https";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { startGateway } from "../../support/gateway.ts";
import { GatewayProcess } from "../../support/gateway-process.ts";
import { SteadyLoad } from "../../support/steady-load.ts";
import { useSampleRegistries } from "../../support/sample-registries.ts";
import { UTILITY_ADMIN } from "../../support/sample.ts";
import { Nginx } from "../../support/nginx.ts";
import { findFreePort } from "../../support/ports.ts";
import { send } from "../../support/send.ts";
import { until } from "../../support/until.ts";

const ROOT = join(import.meta.dirname, "../../..");
const TLS = join(ROOT, "test/fixtures/tls");
const EXAMPLE = readFileSync(join(ROOT, "config/nginx/in-front.conf"), "utf8");

const AMULET = "/api/token-standard/v0/registrars/amulet/registry";
const INFO = `${AMULET}/metadata/v1/info`;
const ACCEPT = `${AMULET}/transfer-instruction/v1/00aa/choice-contexts/accept`;

const registry = useSampleRegistries();

/** The example with the ports and certificates of this test, and nothing else changed. */
function configure(port: number, gateways: readonly number[]): string {
  return EXAMPLE.replace("listen 443 ssl http2", `listen 127.0.0.1:${port} ssl http2`)
    .replaceAll("127.0.0.1:8081", `127.0.0.1:${gateways[0]}`)
    .replaceAll("127.0.0.1:8082", `127.0.0.1:${gateways[1]}`)
    .replace("/etc/nginx/tls/tls.crt", join(TLS, "server.pem"))
    .replace("/etc/nginx/tls/tls.key", join(TLS, "server-key.pem"));
}

async function listen(port: number): Promise<Server> {
  const server = createServer((_request, response) => response.end("{}")).listen(port, "127.0.0.1");
  await once(server, "listening");
  return server;
}

async function close(server: Server): Promise<void> {
  const closed = once(server, "close");
  server.close();
  server.closeAllConnections();
  await closed;
}

/** One hit, one call that is passed on, in turns. */
function mixed(index: number) {
  return index % 2 === 0
    ? ({ method: "GET", path: INFO } as const)
    : ({ method: "POST", path: ACCEPT, body: "{}" } as const);
}

describe("two gateways behind the nginx of the example", () => {
  const ca = readFileSync(join(TLS, "ca.pem"));
  let ports: number[];
  let gateways: GatewayProcess[];
  let nginx: Nginx;
  let url: string;
  let start: (port: number) => Promise<GatewayProcess>;

  beforeEach(async () => {
    const [amulet, bonds] = [await registry({ latency: 10 }), await registry({ admin: UTILITY_ADMIN })];
    const keys = {
      upstreams: [
        { name: "amulet", admin: amulet.admin, urls: [amulet.url] },
        { name: "bonds", admin: bonds.admin, urls: [bonds.url] },
      ],
      shutdown: { grace: "1500ms", timeout: "5s" },
    };
    start = (port) => GatewayProcess.start({ ...keys, listen: { host: "127.0.0.1", port } });
    ports = [await findFreePort(), await findFreePort()];
    gateways = await Promise.all(ports.map(start));
    const port = await findFreePort();
    url = `https://localhost:${port}`;
    nginx = Nginx.start(configure(port, ports));
    await until(() =>
      ask(INFO).then(
        ({ status }) => status === 200,
        () => false,
      ),
    );
  });

  afterEach(async () => {
    await nginx.stop();
    await Promise.all(gateways.map((each) => each.stop()));
  });

  async function ask(path: string): Promise<{ status: number; type: string | undefined; body: string }> {
    const request = requestHttps(`${url}${path}`, { ca });
    request.end();
    const [response] = (await once(request, "response")) as [IncomingMessage];
    return { status: response.statusCode!, type: response.headers["content-type"], body: await text(response) };
  }

  test("are restarted one after the other, twice, without a failed request", async () => {
    const load = new SteadyLoad({ url, rate: 80, request: mixed, tls: { ca } });
    await until(() => load.answered > 50);
    for (const index of [0, 1, 0, 1]) {
      gateways[index]!.signal("SIGTERM");
      expect(await gateways[index]!.ended).toBe(0);
      gateways[index] = await start(ports[index]!);
    }
    const report = await load.stop();
    expect(report.failures).toEqual({});
    expect(report.sent).toBeGreaterThan(200);
  });

  test("one that is killed costs no client an error", async () => {
    const load = new SteadyLoad({ url, rate: 80, request: mixed, tls: { ca } });
    await until(() => load.answered > 50);
    gateways[0]!.signal("SIGKILL");
    await gateways[0]!.ended;
    const before = load.answered;
    await until(() => load.answered > before + 100);
    expect((await load.stop()).failures).toEqual({});
  });

  // Two tries were not enough: the second could be at the gateway that had just refused the first.
  test("one that is back while nginx still leaves it out serves when the other goes", async () => {
    for (const each of gateways) each.signal("SIGKILL");
    await Promise.all(gateways.map(({ ended }) => ended));
    const statuses: number[] = [];
    const askTimes = async (times: number): Promise<void> => {
      for (let i = 0; i < times; i += 1) statuses.push((await ask(INFO)).status);
    };
    // In the gateways' places, servers that start and end at once. Twice, each time with an odd number of requests after
    // the change: the two backups have their turns one after the other.
    for (const _ of [1, 2]) {
      let first = await listen(ports[0]!);
      const second = await listen(ports[1]!);
      // Until none is left out.
      await sleep(2_100);
      await askTimes(10);
      await close(first);
      await askTimes(6);
      first = await listen(ports[0]!);
      await close(second);
      await askTimes(11);
      await close(first);
    }
    expect(new Set(statuses)).toEqual(new Set([200]));
  });

  test("get an id with an encoded slash as one segment", async () => {
    const { status, body } = await ask(`${AMULET}/metadata/v1/instruments/No%2FSuch`);
    expect([status, JSON.parse(body)]).toEqual([404, { error: expect.any(String) as string }]);
  });

  // nginx kept events back: the example had it ignore that the stream is not to be buffered.
  test("send changes as they happen", async () => {
    const request = requestHttps(`${url}/catalog/v1/changes`, { ca }).end();
    const [response] = (await once(request, "response")) as [IncomingMessage];
    const [first] = (await once(response, "data")) as [Buffer];
    expect(first.toString()).toMatch(/^retry: /);
    request.destroy();
  });

  test("clients get JSON when no gateway can be reached", async () => {
    for (const each of gateways) each.signal("SIGKILL");
    await Promise.all(gateways.map(({ ended }) => ended));
    const { status, type, body } = await ask(INFO);
    expect([status, type]).toEqual([502, "application/json"]);
    expect(JSON.parse(body)).toEqual({ error: "no gateway can be reached; try again shortly" });
  });
});

// The example passed both fields on, and each anonymous client had as many limits as it made up addresses.
test.each([
  ["X-Forwarded-For", (address: string) => address],
  ["Forwarded", (address: string) => `for=${address}`],
])("no client behind it chooses its own address by %s", async (name, valueOf) => {
  const amulet = await registry();
  const gateway = await startGateway({
    upstreams: [{ name: "amulet", admin: amulet.admin, urls: [amulet.url] }],
    listen: { host: "127.0.0.1", port: 0, trustedProxies: ["127.0.0.1"] },
    clients: { anonymous: "browser", tiers: { browser: { requests: 5, per: "1m" } } },
  });
  onTestFinished(() => gateway.stop());
  const port = await findFreePort();
  const behind = Number(new URL(gateway.url).port);
  const nginx = Nginx.start(configure(port, [behind, behind]));
  onTestFinished(() => nginx.stop());
  const url = `https://localhost:${port}`;
  // Counts nothing.
  await until(() =>
    send(url, { path: "/openapi.json" }).then(
      ({ status }) => status === 200,
      () => false,
    ),
  );
  const statuses: number[] = [];
  for (let client = 1; client <= 7; client += 1) {
    const headers = { [name]: valueOf(`203.0.113.${client}`) };
    statuses.push((await send(url, { path: INFO, headers })).status);
  }
  expect(statuses).toEqual([200, 200, 200, 200, 200, 429, 429]);
});
