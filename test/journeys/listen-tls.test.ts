import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:https";
import { type AddressInfo, connect as connectPlainly } from "node:net";
import { connect, type ConnectionOptions, type TLSSocket } from "node:tls";
import { describe, expect, onTestFinished, test } from "vitest";
import { useGateways } from "../support/gateways.ts";
import { sendRaw } from "../support/raw-connection.ts";
import { pem, pemFile, sampleText } from "../support/sample.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { send } from "../support/send.ts";

const startRegistry = useSampleRegistries();
const startGateway = useGateways();

const TLS = { certFile: pemFile("server"), keyFile: pemFile("server-key") };
const INFO = "/registry/metadata/v1/info";
const FACTORY = "/registry/transfer-instruction/v1/transfer-factory";
const DRAFT = "/registry/drafts/v1/x";

async function start(keys: { tls?: object; listen?: object; limits?: object } = {}) {
  const registry = await startRegistry();
  const gateway = await startGateway({
    listen: { host: "127.0.0.1", port: 0, tls: { ...TLS, ...keys.tls }, ...keys.listen },
    limits: { ...keys.limits },
    upstreams: [{ name: "amulet", urls: [registry.url] }],
  });
  return { registry, gateway, url: gateway.url };
}

/** Whether a handshake with these options comes to a connection that stays, and what it fails with. */
async function shake(url: string, options: ConnectionOptions = {}): Promise<TLSSocket | string> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port), ca: pem("ca"), ...options });
  onTestFinished(() => void socket.destroy());
  return new Promise((resolve) => {
    socket.on("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    socket.on("close", () => resolve("closed"));
    // With TLS 1.3 a client hears only after its own handshake that it was refused.
    socket.on("secureConnect", () => socket.write(`GET ${INFO} HTTP/1.1\r\nHost: g\r\n\r\n`));
    socket.on("data", () => resolve(socket));
  });
}

describe("over TLS", () => {
  test("cached metadata, calls, other paths and pages are answered as without", async () => {
    const { url, registry } = await start();
    const plain = await startGateway({ upstreams: [{ name: "amulet", urls: [registry.url] }] });
    const request = (sent: Parameters<typeof send>[1]) => send(url, sent);
    const body = sampleText("04-transfer-factory.request.amulet.json");
    for (const sent of [
      { path: INFO },
      { path: INFO },
      { path: INFO, method: "HEAD" },
      { path: "/registry/metadata/v1/instruments?pageSize=3" },
      { path: "/registry/metadata/v1/instruments/none" },
      { path: FACTORY, body },
      { path: FACTORY, body: "{" },
      { path: FACTORY, body, headers: { "content-type": "text/plain" } },
      { path: DRAFT },
      { path: DRAFT, body },
      { path: "/nowhere" },
      { path: "/" },
      { path: INFO, method: "DELETE" },
      { path: INFO, method: "OPTIONS", headers: { origin: "https://wallet.example" } },
      { path: INFO, headers: { expect: "202-accepted" } },
      { path: `/${"a".repeat(9_000)}` },
    ]) {
      const [got, wanted] = [await request(sent), await send(plain.url, sent)];
      const nameless = (text: string) => text.replace(/"requestId":"[^"]+"/, "");
      expect([sent, got.status, nameless(got.text)]).toEqual([sent, wanted.status, nameless(wanted.text)]);
      const names = (headers: object) =>
        Object.keys(headers).filter(
          (name) => !["connection", "keep-alive", "date", "transfer-encoding"].includes(name),
        );
      expect([sent, new Set(names(got.headers))]).toEqual([sent, new Set(names(wanted.headers))]);
    }
  });

  test("a conditional request and a compressed answer are the same", async () => {
    const { url } = await start();
    const request = (sent: Parameters<typeof send>[1]) => send(url, sent);
    const first = await request({ path: INFO });
    const etag = String(first.headers.etag);
    const again = await request({ path: INFO, headers: { "if-none-match": etag } });
    expect([again.status, again.text]).toEqual([304, ""]);
    const path = "/registry/metadata/v1/instruments?pageSize=100";
    await request({ path });
    const codingOf = async () =>
      (await request({ path, headers: { "accept-encoding": "gzip" } })).headers["content-encoding"];
    await expect.poll(codingOf).toBe("gzip");
  });

  test("a body that is larger than the limit is refused, and what follows is answered", async () => {
    const { url } = await start({ limits: { requestBody: "4KiB" } });
    const request = (sent: Parameters<typeof send>[1]) => send(url, sent);
    const refused = await request({ path: FACTORY, body: "x".repeat(200_000) });
    expect([refused.status, refused.headers["registry-gateway-error"]]).toEqual([413, "body_too_large"]);
    expect((await request({ path: INFO })).status).toBe(200);
  });
});

test("clients that know HTTP/2 get HTTP/1.1, and those that know nothing else no connection", async () => {
  const { url } = await start();
  const socket = await shake(url, { ALPNProtocols: ["h2", "http/1.1"] });
  expect((socket as TLSSocket).alpnProtocol).toBe("http/1.1");
  expect(await shake(url, { ALPNProtocols: ["h2"] })).toMatch(/ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL|ECONN/);
});

test("HTTP/2 that was not agreed on is refused, and no request comes of what follows", async () => {
  const { url, registry } = await start();
  const socket = (await shake(url)) as TLSSocket;
  const before = registry.calls.recent.length;
  let text = "";
  socket.on("data", (chunk: Buffer) => (text += chunk.toString("latin1")));
  const closed = once(socket, "close");
  const draft = `GET ${DRAFT} HTTP/1.1\r\nHost: g\r\n\r\n`;
  socket.write(`PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${draft}`);
  await closed;
  expect(text).toMatch(/^HTTP\/1\.1 400 /);
  expect([text.match(/HTTP\/1\.1 /g)!.length, registry.calls.recent.length - before]).toEqual([1, 0]);
});

test("TLS before 1.2 and protocols that the gateway does not speak are refused in the handshake", async () => {
  const { url, gateway } = await start();
  expect(await shake(url, { maxVersion: "TLSv1.1", minVersion: "TLSv1", ciphers: "DEFAULT@SECLEVEL=0" })).toMatch(
    /ERR_SSL|ECONNRESET/,
  );
  expect(await shake(url, { ALPNProtocols: ["spdy/3"] })).toMatch(/ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL|ECONN/);
  const metrics = await (await fetch(`${gateway.operations}/metrics`)).text();
  expect(metrics).toMatch(/registry_gateway_tls_handshake_failures_total\{reason="other"\} 2/);
});

test("plain HTTP on the port of TLS is told so in plain text", async () => {
  const { url } = await start();
  const answer = await sendRaw(url, "GET / HTTP/1.1\r\nHost: g\r\n\r\n");
  expect(answer.statuses).toEqual([400]);
  expect(answer.text).toContain("https://");
  expect(answer.isClosed).toBe(true);
});

test("a connection that never ends its handshake is closed, however slowly it goes on", async () => {
  const { url } = await start();
  const { hostname, port } = new URL(url);
  const socket = connectPlainly({ host: hostname, port: Number(port) });
  onTestFinished(() => void socket.destroy());
  socket.on("error", () => undefined);
  await once(socket, "connect");
  const startedAt = performance.now();
  const hello = Buffer.from("16030100c8010000c40303", "hex");
  let sent = 0;
  const timer = setInterval(
    () => socket.write(hello.subarray(sent % hello.length, (sent++ % hello.length) + 1)),
    1_000,
  );
  // It may be reset while it sends, which `once` would take for a failure.
  await new Promise((resolve) => socket.once("close", resolve));
  clearInterval(timer);
  expect(performance.now() - startedAt).toBeLessThan(20_000);
});

describe("client certificates", () => {
  const good = { cert: pem("client"), key: pem("client-key") };
  const stranger = { cert: pem("successor"), key: pem("successor-key") };
  const clientCaFile = pemFile("ca");

  test("are required: who has none or a bad one gets no connection", async () => {
    const { url } = await start({ tls: { clientAuth: "require", clientCaFile } });
    expect((await send(url, { path: INFO }, good)).status).toBe(200);
    expect(await shake(url)).toMatch(/CERTIFICATE_REQUIRED|ALERT|ECONNRESET/);
    expect(await shake(url, stranger)).toMatch(/closed|ECONNRESET|ALERT/);
  });

  test("are asked for: who has none or a bad one goes on without", async () => {
    const { url } = await start({ tls: { clientAuth: "request", clientCaFile } });
    for (const tls of [{}, good, stranger]) expect((await send(url, { path: INFO }, tls)).status).toBe(200);
  });
});

test("requests sent ahead on one connection are answered in their order", async () => {
  const { url } = await start();
  const socket = (await shake(url)) as TLSSocket;
  let text = "";
  socket.on("data", (chunk: Buffer) => (text += chunk.toString("latin1")));
  const paths = [INFO, "/nowhere", INFO, "/nowhere"];
  socket.write(paths.map((path) => `GET ${path} HTTP/1.1\r\nHost: g\r\n\r\n`).join(""));
  await expect
    .poll(() => [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status))
    .toEqual(["200", "404", "200", "404"]);
});

test("what is no HTTP/1.1 is refused in our form", async () => {
  const { url } = await start();
  const socket = (await shake(url)) as TLSSocket;
  let text = "";
  socket.on("data", (chunk: Buffer) => (text += chunk.toString("latin1")));
  const closed = once(socket, "close");
  socket.write("GET / HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n");
  await closed;
  expect(text).toMatch(/^HTTP\/1\.1 400 /);
  expect(text).toContain("registry-gateway-error: malformed_request");
});

test("more connections than may be open are refused, handshakes among them", async () => {
  const { url } = await start({ listen: { maxConnections: 2 } });
  const { hostname, port } = new URL(url);
  const hold = async () => {
    const socket = connectPlainly({ host: hostname, port: Number(port) });
    onTestFinished(() => void socket.destroy());
    socket.on("error", () => undefined);
    await once(socket, "connect");
    await new Promise((resolve) => socket.write(Buffer.from("160301", "hex"), resolve));
    // The gateway, in this process, reads it in one of these turns.
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
  };
  await hold();
  await hold();
  expect(await shake(url)).toMatch(/ECONNRESET|closed|EPIPE/);
});

// The handshake that began last was taken for both: its connection was given to the other client, and its own was closed.
test("one port of a client may be used for two addresses of the gateway at once", async () => {
  const { url } = await start({ listen: { host: "0.0.0.0" } });
  const port = Number(new URL(url).port);
  const open = async (host: string, localPort = 0) => {
    const socket = connectPlainly({ host, port, localAddress: "127.0.0.1", localPort });
    onTestFinished(() => void socket.destroy());
    await once(socket, "connect");
    return socket;
  };
  const one = await open("127.0.0.1");
  const other = await open("127.0.0.2", one.localPort);
  expect(await shake(url, { socket: one })).not.toBeTypeOf("string");
  expect(await shake(url, { socket: other, checkServerIdentity: () => undefined })).not.toBeTypeOf("string");
});

describe("the client's address", () => {
  const forwardedTo = async (listen: object, headers: Record<string, string>) => {
    const registry = await startRegistry();
    const gateway = await startGateway({
      listen: { host: "127.0.0.1", port: 0, ...listen },
      upstreams: [{ name: "amulet", urls: [registry.url], forwardClientAddress: true }],
    });
    const body = sampleText("04-transfer-factory.request.amulet.json");
    for (const sent of [{ path: INFO }, { path: FACTORY, body }, { path: DRAFT }])
      await send(gateway.url, { ...sent, headers });
    const seen = (operation: string) =>
      registry.calls.recent.findLast((call) => call.operation === operation)?.headers["x-forwarded-for"];
    return { call: seen("transfer_factory"), other: seen("pass_through"), cached: seen("info") };
  };

  test("goes upstream as it is, whatever the client says, and never where answers are shared", async () => {
    const spoofed = { "x-forwarded-for": "203.0.113.9", forwarded: "for=203.0.113.9" };
    expect(await forwardedTo({}, spoofed)).toEqual({ call: "127.0.0.1", other: "127.0.0.1", cached: undefined });
  });

  test("is the one that a trusted proxy tells", async () => {
    const told = { "x-forwarded-for": "198.51.100.66, 203.0.113.9" };
    const { call, other } = await forwardedTo({ trustedProxies: ["127.0.0.0/8"] }, told);
    expect([call, other]).toEqual(["203.0.113.9", "203.0.113.9"]);
  });
});

test("when certificates end, in and out, is in /status and a metric", async () => {
  const registry = createServer({ cert: pem("server"), key: pem("server-key") }, (_request, response) => {
    response.setHeader("content-type", "application/json");
    response.end(sampleText("01-info.response.amulet.json"));
  });
  registry.listen(0, "127.0.0.1");
  await once(registry, "listening");
  onTestFinished(() => void registry.close());
  const gateway = await startGateway({
    listen: {
      host: "127.0.0.1",
      port: 0,
      tls: { ...TLS, clientAuth: "request", clientCaFile: pemFile("ca-and-successor") },
    },
    upstreams: [
      {
        name: "amulet",
        urls: [`https://127.0.0.1:${(registry.address() as AddressInfo).port}`],
        tls: { caFile: pemFile("ca"), certFile: pemFile("client"), keyFile: pemFile("client-key") },
      },
    ],
  });
  expect((await send(gateway.url, { path: INFO })).status).toBe(200);
  const end = (...names: string[]) =>
    new Date(Math.min(...names.map((name) => Date.parse(new X509Certificate(pem(name)).validTo)))).toISOString();
  const status = (await (await fetch(`${gateway.operations}/status`)).json()) as {
    certificates: object[];
    upstreams: { certificates: object[] }[];
  };
  expect(status.certificates).toEqual([
    { role: "listener", expiresAt: end("server") },
    { role: "client_authority", expiresAt: end("ca", "successor") },
  ]);
  expect(status.upstreams[0]!.certificates).toEqual([
    { role: "client", expiresAt: end("client") },
    { role: "authority", expiresAt: end("ca") },
    { role: "node", expiresAt: end("server") },
  ]);
  const metrics = await (await fetch(`${gateway.operations}/metrics`)).text();
  const left = (upstream: string, role: string) =>
    Number(
      new RegExp(
        `^registry_gateway_certificate_expiry_seconds\\{upstream="${upstream}",role="${role}"\\} (.+)$`,
        "m",
      ).exec(metrics)?.[1],
    );
  for (const [upstream, role, name] of [
    ["none", "listener", "server"],
    ["amulet", "client", "client"],
    ["amulet", "node", "server"],
  ] as const) {
    const wanted = (Date.parse(end(name)) - Date.now()) / 1_000;
    expect(Math.abs(left(upstream, role) - wanted)).toBeLessThan(60);
  }
});
