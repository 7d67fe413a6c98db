import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { type ClientHttp2Session, connect as connectHttp2 } from "node:http2";
import { type AddressInfo, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { connect as connectTls } from "node:tls";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { parse } from "yaml";
import { Nginx } from "../../support/nginx.ts";
import { HAPROXY, NGINX, provideProgram, versionOf } from "../../support/programs.ts";
import { GatewayProcess } from "../../support/gateway-process.ts";
import { findFreePort } from "../../support/ports.ts";
import { until } from "../../support/until.ts";
import { useSampleRegistries } from "../../support/sample-registries.ts";

const ROOT = join(import.meta.dirname, "../../..");
const TLS = join(ROOT, "test/fixtures/tls");
const PAGE = readFileSync(join(ROOT, "docs/operations/in-front.md"), "utf8");
const [CERTIFICATE, KEY] = [join(TLS, "server.pem"), join(TLS, "server-key.pem")];
const ca = readFileSync(join(TLS, "ca.pem"));

/** The example of this language on the page of fronts, with HTTP/2. */
function example(language: string): string {
  const section = PAGE.slice(PAGE.indexOf("## HTTP/2 and HTTP/3"));
  const [, code] = new RegExp(`\`\`\`${language}\n([^]*?)\`\`\``).exec(section) ?? [];
  return code!;
}

const registry = useSampleRegistries();

/** A gateway behind a relay that counts connections and keeps what comes over them. */
async function startGateway() {
  const amulet = await registry();
  const gateway = await GatewayProcess.start({
    upstreams: [{ name: "amulet", admin: amulet.admin, urls: [amulet.url] }],
  });
  onTestFinished(async () => void (await gateway.stop()));
  const relay = { opened: 0, received: "", port: 0 };
  const server = createServer((client) => {
    relay.opened += 1;
    const onward = connect(Number(new URL(gateway.url).port), "127.0.0.1");
    client.on("data", (chunk) => (relay.received += chunk.toString("latin1")));
    client.on("error", () => onward.destroy()).on("close", () => onward.destroy());
    onward.on("error", () => client.destroy()).on("close", () => client.destroy());
    client.pipe(onward).pipe(client);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  relay.port = (server.address() as AddressInfo).port;
  return { gateway, relay };
}

function supervise(child: ChildProcess): void {
  const kill = (): void => void child.kill("SIGKILL");
  process.once("exit", kill);
  onTestFinished(async () => {
    process.off("exit", kill);
    if (child.exitCode !== null) return;
    const ended = once(child, "exit");
    kill();
    await ended;
  });
}

interface Ports {
  readonly front: number;
  readonly gateway: number;
  readonly operations: number;
}

function startNginx({ front, gateway }: Ports): void {
  const [major = 0, minor = 0] = versionOf(provideProgram(NGINX), "-v").split(".").map(Number);
  const isNew = major > 1 || minor >= 25;
  const http = example("nginx")
    // HTTP/3 needs another build, and the certificate is on the page that this one names.
    .replace(/.*quic.*\n/, "")
    .replace("listen 443 ssl;", `listen 127.0.0.1:${front} ssl${isNew ? "" : " http2"};`)
    .replace("http2 on;", `${isNew ? "http2 on;" : ""} ssl_certificate ${CERTIFICATE}; ssl_certificate_key ${KEY};`)
    .replace("127.0.0.1:8081", `127.0.0.1:${gateway}`);
  const nginx = Nginx.start(http);
  onTestFinished(() => nginx.stop());
}

function startHaproxy({ front, gateway, operations }: Ports): void {
  const program = provideProgram(HAPROXY);
  const folder = mkdtempSync(join(tmpdir(), "haproxy-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, "tls.pem"), readFileSync(CERTIFICATE, "utf8") + readFileSync(KEY, "utf8"));
  const hasQuic = execFileSync(program, ["-vv"], { encoding: "utf8" }).includes("+QUIC");
  const config = example("haproxy")
    .replace("bind :443", `bind 127.0.0.1:${front}`)
    .replace(/.*quic4.*\n/, hasQuic ? `    bind quic4@127.0.0.1:${front} ssl crt ${folder}/tls.pem alpn h3\n` : "")
    .replace("/etc/haproxy/tls.pem", join(folder, "tls.pem"))
    .replace("127.0.0.1:8081 check port 9090", `127.0.0.1:${gateway} check port ${operations}`);
  const file = join(folder, "haproxy.cfg");
  writeFileSync(file, `defaults\n    timeout connect 2s\n    timeout client 60s\n    timeout server 30s\n${config}`);
  supervise(spawn(program, ["-db", "-q", "-f", file], { stdio: ["ignore", "inherit", "inherit"] }));
}

async function ask(session: ClientHttp2Session, fields: Record<string, string>, body?: string) {
  const stream = session.request({ ":method": body === undefined ? "GET" : "POST", ...fields });
  stream.end(body);
  const [head] = (await once(stream, "response")) as [Record<string, string | number>];
  return { status: head[":status"], type: head["content-type"], body: await text(stream) };
}

const INFO = "/registry/metadata/v1/info";
const ACCEPT = "/registry/transfer-instruction/v1/00aa/choice-contexts/accept";

/** Bytes of a HEADERS frame, uncompressed (RFC 7541 §6.2.2), that a client library would not send. */
function headersFrame(fields: readonly (readonly [name: string, value: string])[]): Buffer {
  const block = Buffer.concat(
    fields.map(([name, value]) => {
      const [one, other] = [Buffer.from(name, "latin1"), Buffer.from(value, "latin1")];
      return Buffer.concat([Buffer.from([0, one.length]), one, Buffer.from([other.length]), other]);
    }),
  );
  const head = Buffer.from([0, 0, block.length, 1, 0x5, 0, 0, 0, 1]);
  return Buffer.concat([head, block]);
}

/** Sends one request over HTTP/2 as bytes, and waits until the front has said something to it, or closed. */
async function sendRaw(port: number, fields: readonly (readonly [string, string])[]): Promise<void> {
  const socket = connectTls({ port, host: "127.0.0.1", servername: "localhost", ca, ALPNProtocols: ["h2"] });
  onTestFinished(() => void socket.destroy());
  await once(socket, "secureConnect");
  let received = Buffer.alloc(0);
  socket.on("error", () => undefined).on("data", (chunk: Buffer) => (received = Buffer.concat([received, chunk])));
  const settings = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]);
  socket.write(Buffer.concat([Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), settings, headersFrame(fields)]));
  const hasAnswer = (): boolean => {
    for (let at = 0; at + 9 <= received.length; at += 9 + received.readUIntBE(at, 3)) {
      // HEADERS, RST_STREAM or GOAWAY.
      if ([1, 3, 7].includes(received[at + 3]!)) return true;
    }
    return false;
  };
  await until(() => hasAnswer() || socket.destroyed);
}

describe.each([
  ["nginx", startNginx],
  ["HAProxy", startHaproxy],
])("%s as the page of fronts has it", (_name, startFront) => {
  let gateway: GatewayProcess;
  let relay: Awaited<ReturnType<typeof startGateway>>["relay"];
  let session: ClientHttp2Session;
  let front: number;

  beforeEach(async () => {
    ({ gateway, relay } = await startGateway());
    front = await findFreePort();
    startFront({ front, gateway: relay.port, operations: Number(new URL(gateway.operations).port) });
    const open = async (): Promise<ClientHttp2Session> => {
      const opened = connectHttp2(`https://localhost:${front}`, { ca });
      opened.on("error", () => undefined);
      await once(opened, "connect");
      return opened;
    };
    await until(async () => {
      try {
        session = await open();
        return (await ask(session, { ":path": INFO })).status === 200;
      } catch {
        return false;
      }
    });
    onTestFinished(() => session.destroy());
  });

  test("speaks HTTP/2 to clients and HTTP/1.1 to the gateway, on connections that it keeps", async () => {
    expect(session.alpnProtocol).toBe("h2");
    const before = relay.opened;
    for (let i = 0; i < 50; i += 1) {
      expect(await ask(session, { ":path": INFO })).toMatchObject({ status: 200, type: "application/json" });
      const context = await ask(session, { ":path": ACCEPT, "content-type": "application/json" }, "{}");
      expect(context.status).toBe(200);
    }
    const many = await Promise.all(Array.from({ length: 50 }, () => ask(session, { ":path": INFO })));
    expect(new Set(many.map(({ status }) => status))).toEqual(new Set([200]));
    expect(relay.received).toContain(`GET ${INFO} HTTP/1.1\r\n`);
    // 100 requests one after the other take a few connections, and 50 at once no more than one each.
    expect(relay.opened - before).toBeLessThan(60);
    const settled = relay.opened;
    for (let i = 0; i < 50; i += 1) await ask(session, { ":path": INFO });
    expect(relay.opened - settled).toBeLessThan(5);
  });

  test("leaves paths as they are", async () => {
    const path = "/registry/metadata/v1/instruments/Amulet%2FUSD";
    await ask(session, { ":path": path });
    expect(relay.received).toContain(`GET ${path} HTTP/1.1\r\n`);
  });

  test("says who the client is, and lets it say nothing of that", async () => {
    const made = "203.0.113.9";
    await ask(session, { ":path": `${INFO}?made-up`, "x-forwarded-for": made, forwarded: `for=${made}` });
    const head = relay.received.slice(relay.received.indexOf("?made-up")).toLowerCase();
    expect(head).toContain("\r\nx-forwarded-for: 127.0.0.1\r\n");
    expect(head).not.toContain(made);
  });

  // Node's HTTP/2 dropped such a field, and the request went to another registry.
  test.each(["b\n", "b\u0000", "b\r\nx-other: c"])(
    "sends no request with %j in a field to the gateway",
    async (value) => {
      const send = (path: string, admin: string) =>
        sendRaw(front, [
          [":method", "GET"],
          [":scheme", "https"],
          [":path", path],
          [":authority", "localhost"],
          ["x-instrument-admin", admin],
        ]);
      await send(`${INFO}?good`, "b");
      expect(relay.received).toContain("?good");
      await send(`${INFO}?forbidden`, value);
      expect(relay.received).not.toContain("?forbidden");
      expect((await ask(session, { ":path": INFO })).status).toBe(200);
    },
  );
});

test("the example of Envoy is YAML that leaves paths alone and keeps connections of HTTP/1.1 shorter than the gateway", () => {
  const config = parse(example("yaml")) as Record<string, Record<string, unknown>>;
  expect(config).toMatchObject({ normalize_path: false, path_with_escaped_slashes_action: "KEEP_UNCHANGED" });
  // It says who the client is, and lets the client's own request id through.
  expect(config).toMatchObject({ use_remote_address: true, preserve_external_request_id: true });
  expect(config["route_config"]).toMatchObject({ request_headers_to_remove: ["forwarded"] });
  const [host] = (config["route_config"] as { virtual_hosts: [{ retry_policy: object; routes: object[] }] })
    .virtual_hosts;
  expect(host.retry_policy).toMatchObject({ retry_on: "connect-failure,reset", num_retries: 1 });
  // The first that matches counts: the stream of changes ended after 30 s.
  expect(host.routes).toMatchObject([
    { match: { path: "/catalog/v1/changes" }, route: { timeout: "0s" } },
    { match: { prefix: "/" }, route: { timeout: "30s" } },
  ]);
  const [options] = Object.values(config["typed_extension_protocol_options"]!) as Record<
    string,
    Record<string, object>
  >[];
  expect(options!["common_http_protocol_options"]).toEqual({ idle_timeout: "60s" });
  expect(options!["explicit_http_config"]).toEqual({ http_protocol_options: {} });
});
