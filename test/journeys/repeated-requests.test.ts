import { writeFileSync } from "node:fs";
import { once } from "node:events";
import { Agent, request as requestPlainly } from "node:http";
import { Agent as SecureAgent, request as requestSecurely } from "node:https";
import { connect } from "node:net";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { createKey, digestOfKey } from "../../src/clients/api-key.ts";
import { type GatewayUnderTest, startGateway } from "../support/gateway.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { DSO, pem, pemFile } from "../support/sample.ts";
import { send } from "../support/send.ts";
import { useTemporaryFolder } from "../support/temporary-folder.ts";

const LISTING = "/registry/metadata/v1/instruments";

const startRegistry = useSampleRegistries();
const folder = useTemporaryFolder();

let gateway: GatewayUnderTest;
let agent: Agent;

afterEach(async () => {
  agent.destroy();
  await gateway.stop();
});

async function start(keys: Record<string, unknown> = {}) {
  const registry = await startRegistry();
  gateway = await startGateway({ upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url] }], ...keys });
  const isSecure = gateway.url.startsWith("https:");
  const options = { keepAlive: true, maxSockets: 1 };
  agent = isSecure
    ? new SecureAgent({ ...options, ca: pem("ca-and-successor"), ALPNProtocols: ["http/1.1"] })
    : new Agent(options);
  return registry;
}

interface Told {
  readonly status: number;
  readonly text: string;
  readonly headers: Record<string, string>;
}

/** The same bytes each time, on the one connection. */
function ask(path: string, headers: Record<string, string> = {}, method = "GET"): Promise<Told> {
  const request = gateway.url.startsWith("https:") ? requestSecurely : requestPlainly;
  return new Promise((resolve, reject) => {
    request(gateway.url + path, { agent, headers, method }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => (text += chunk));
      response.on("end", () =>
        resolve({ status: response.statusCode!, text, headers: response.headers as Record<string, string> }),
      );
      response.on("error", reject);
    })
      .on("error", reject)
      .end();
  });
}

async function askOften(count: number, ...request: Parameters<typeof ask>): Promise<Told[]> {
  const all: Told[] = [];
  for (let i = 0; i < count; i += 1) all.push(await ask(...request));
  return all;
}

const CHANGING = new Set(["x-request-id", "age", "date", "cache-status"]);

/** Without what is of one request, or one second. */
function fixedOf({ status, text, headers }: Told): unknown {
  const fixed = Object.entries(headers).filter(([name]) => !CHANGING.has(name));
  return { status, text, fixed };
}

describe.each([
  ["plain", {}],
  [
    "TLS",
    { listen: { host: "127.0.0.1", port: 0, tls: { certFile: pemFile("server"), keyFile: pemFile("server-key") } } },
  ],
])("over %s", (_what, listen) => {
  test.each([
    ["a page", {}, "GET", 200],
    ["its head", {}, "HEAD", 200],
    ["a page for a browser", { origin: "https://wallet.example", "accept-encoding": "identity" }, "GET", 200],
    ["what has not changed", { "if-none-match": "*" }, "GET", 304],
  ])(
    "%s is the same answer each time, with an id of its own, counted and logged",
    async (_which, headers, method, status) => {
      await start({ ...listen, log: { hits: 1 } });
      const answers = await askOften(20, LISTING, headers, method);
      const hits = answers.slice(3);
      for (const answer of hits) {
        expect(answer.status).toBe(status);
        expect(answer.headers["cache-status"]).toMatch(/^registry-gateway; ?hit/);
        expect(fixedOf(answer)).toEqual(fixedOf(hits[0]!));
      }
      const ids = answers.map((answer) => answer.headers["x-request-id"]);
      expect(new Set(ids).size).toBe(20);
      expect(gateway.lines.filter(({ msg }) => msg === "request").map(({ requestId }) => requestId)).toEqual(ids);
      const metrics = await (await fetch(`${gateway.operations}/metrics`)).text();
      const counts = [...metrics.matchAll(/^registry_gateway_requests_total\{[^}]*\} (\d+)$/gm)];
      expect(counts.reduce((sum, [, count]) => sum + Number(count), 0)).toBe(20);
    },
  );
});

const HEAD = `HEAD ${LISTING} HTTP/1.1\r\nHost: g\r\n\r\n`;

/** Sends heads one after the other, each when the one before is answered, and what comes last; all statuses until the connection is closed. */
async function statusesUntilClosed(heads: number, ...last: readonly string[]): Promise<number[]> {
  const socket = connect(Number(new URL(gateway.url).port), "127.0.0.1");
  let text = "";
  const closed = new Promise((resolve) => socket.on("error", () => undefined).once("close", resolve));
  socket.setEncoding("latin1").setTimeout(10_000, () => socket.destroy());
  for (let i = 0; i < heads; i += 1) {
    socket.write(HEAD);
    while (text.split("\r\n\r\n").length <= i + 1) text += String((await once(socket, "data"))[0]);
  }
  socket.on("data", (chunk: string) => (text += chunk));
  for (const packet of last) {
    socket.write(packet, "latin1");
    // Read apart.
    if (last.length > 1) await once(socket, "data");
  }
  await closed;
  return [...text.matchAll(/^HTTP\/1\.1 (\d+)/gm)].map(([, status]) => Number(status));
}

test.each([
  ["a line that is none", "nonsense\r\n\r\n", 400],
  ["two lengths", `POST ${LISTING} HTTP/1.1\r\nHost: g\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n`, 400],
  ["two framings", `POST ${LISTING} HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n`, 400],
  ["a blank before a colon", `GET ${LISTING} HTTP/1.1\r\nHost : g\r\n\r\n`, 400],
  ["a zero byte", `GET ${LISTING} HTTP/1.1\r\nHost: g\r\nA: \0\r\n\r\n`, 400],
  ["the beginning of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400],
  ["CONNECT", "CONNECT g:1 HTTP/1.1\r\nHost: g\r\n\r\n", 405],
])("with %s behind it in one packet a hit is answered, and then that, each time", async (_what, rest, status) => {
  await start();
  for (let i = 0; i < 4; i += 1) {
    expect(await statusesUntilClosed(4, HEAD + rest)).toEqual([200, 200, 200, 200, 200, status]);
  }
});

test("what follows a beginning of HTTP/2 is no request", async () => {
  await start();
  for (let i = 0; i < 3; i += 1) {
    const both = [`${HEAD}PRI * HTTP/2.0\r\n\r\n`, HEAD] as const;
    expect(await statusesUntilClosed(4, ...both)).toEqual([200, 200, 200, 200, 200, 400]);
  }
});

test("what was purged is not served again, on a connection that asked for it all along", async () => {
  const registry = await start();
  await askOften(8, LISTING);
  registry.script(({ operation }) =>
    operation === "instruments" ? { status: 200, body: '{"instruments":[],"new":true}' } : undefined,
  );
  const purged = await send(gateway.operations, { path: "/purge", body: "{}" });
  expect(purged.status).toBe(200);
  const answers = await askOften(8, LISTING);
  for (const { text } of answers) expect(text).toBe('{"instruments":[],"new":true}');
  expect(answers[0]!.headers["cache-status"]).toContain("fwd=");
});

test("each is counted once by the limits of its client, and refused beyond", async () => {
  const tiers = { open: { requests: 30, per: "24h" } };
  await start({ clients: { anonymous: "open", tiers }, cache: { ttl: { instruments: "1h" } } });
  const answers = await askOften(45, LISTING);
  const admitted = answers.filter(({ status }) => status === 200).length;
  expect(answers.slice(admitted).map(({ status }) => status)).toEqual(Array.from({ length: 45 - admitted }, () => 429));
  const left = answers.slice(0, admitted).map(({ headers }) => Number(/r=(\d+)/.exec(headers["ratelimit"]!)![1]));
  expect(left).toEqual(left.map((_, i) => left[0]! - i));
  expect(left.at(-1)).toBe(0);
  const lines = gateway.lines.filter(({ status }) => status === 429);
  expect(lines.map(({ requestId }) => requestId)).toEqual(
    answers.slice(admitted).map(({ headers }) => headers["x-request-id"]),
  );
});

test("a key is looked at each time, and goes nowhere", async () => {
  const keysFile = join(folder(), "clients.jsonl");
  const key = createKey();
  const entry = { name: "wallet", tier: "all", digest: digestOfKey(key) };
  writeFileSync(keysFile, `${JSON.stringify(entry)}\n`);
  const registry = await start({
    clients: { anonymous: false, keysFile, tiers: { all: {} } },
  });
  const answers = await askOften(10, LISTING, { "x-api-key": key });
  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 10 }, () => 200));
  expect((await ask(LISTING)).status).toBe(401);
  expect((await ask(LISTING, { "x-api-key": `${key.slice(0, -1)}x` })).status).toBe(401);
  expect(JSON.stringify(registry.calls.recent)).not.toContain(key);
  expect(JSON.stringify(gateway.lines)).not.toContain(key);
});
