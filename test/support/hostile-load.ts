/**
 * A thread that is a registry named big, whose answers are hostile, one named well, and hostile clients of the gateway:
 * what it takes to send all that holds nobody up who measures the gateway. It tells its port; then it is sent
 * {@link HostileOrder}s, and tells for each the statuses of the answers when all are there.
 */
import { type AddressInfo, connect, createServer } from "node:net";
import { parentPort } from "node:worker_threads";
import { send } from "./send.ts";

const MIB = 2 ** 20;

export interface HostileOrder {
  readonly kind: HostileKind;
  /** How many are sent at once. */
  readonly count: number;
  /** Bytes in a chunk. */
  readonly size: ChunkSize;
  readonly url: string;
  readonly operations: string;
}

export type HostileKind = keyof typeof KINDS;
export type ChunkSize = keyof typeof BODIES;

/** A JSON object of almost so many bytes, in chunks of `size`. */
function chunks(bytes: number, size: number): Buffer {
  const text = `{"choiceArguments":{"x":"${"a".repeat(bytes - 1_000)}"}}`;
  const parts: string[] = [];
  for (let at = 0; at < text.length; at += size) {
    const part = text.slice(at, at + size);
    parts.push(`${part.length.toString(16)}\r\n${part}\r\n`);
  }
  parts.push("0\r\n\r\n");
  return Buffer.from(parts.join(""));
}

const HEAD = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
const bodiesIn = (size: number) => ({
  request: chunks(MIB, size),
  answer: Buffer.concat([Buffer.from(`${HEAD}transfer-encoding: chunked\r\n\r\n`), chunks(8 * MIB, size)]),
});
const BODIES = { 1: bodiesIn(1), 65_536: bodiesIn(65_536) };
const plain = (json: string) => Buffer.from(`${HEAD}content-length: ${json.length}\r\n\r\n${json}`);
const EMPTY = plain("{}");
const INTERIM = Buffer.from("HTTP/1.1 102 Processing\r\n\r\n".repeat(MIB / 16));

/** What the registry named big answers to everything but its info. */
let answer: Buffer = EMPTY;

const registries = createServer((socket) => {
  let text = "";
  socket.on("error", () => undefined);
  socket.on("data", (chunk) => {
    text += chunk.toString("latin1");
    for (let end = text.indexOf("\r\n\r\n"); end !== -1; end = text.indexOf("\r\n\r\n")) {
      const [, name = "", rest = ""] = /^\S+ \/([^/ ]+)(\S*)/.exec(text) ?? [];
      text = text.slice(end + 4);
      if (rest.endsWith("/info")) socket.write(plain(`{"adminId":"${name}::1220aa","supportedApis":{}}`));
      else if (name === "well")
        socket.write(plain('{"id":"I-1","name":"N","symbol":"S","decimals":10,"supportedApis":{}}'));
      else socket.write(answer);
    }
  });
});

/** Sends a request with this body; resolves with the status of the answer, or 0 when the connection just ends. */
function post(base: string, path: string, body: Buffer): Promise<number> {
  const { hostname, port, host } = new URL(base);
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname);
    let text = "";
    const done = (): void => {
      socket.destroy();
      resolve(Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1] ?? 0));
    };
    socket.setTimeout(20_000, done);
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
      if (text.includes("\r\n\r\n")) done();
    });
    socket.on("error", done).on("close", done);
    socket.write(`POST ${path} HTTP/1.1\r\nhost: ${host}\r\n`);
    socket.write("content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n");
    socket.write(body);
  });
}

/** The status of the answer, or 0 when it breaks off. */
const ask = (base: string, path: string, body?: string): Promise<number> =>
  send(base, body === undefined ? { path } : { path, body }).then(
    ({ status }) => status,
    () => 0,
  );

const BIG = "/api/token-standard/v0/registrars/big/registry";
const FACTORY = `${BIG}/transfer-instruction/v1/transfer-factory`;

/** What is asked alike at the same time may be one call. */
let asked = 0;
const askFactory = (url: string): Promise<number> => ask(url, FACTORY, `{"choiceArguments":{"x":"${asked++}"}}`);

interface Kind {
  readonly answer: (size: ChunkSize) => Buffer;
  readonly send: (order: HostileOrder) => Promise<number>;
}

const empty = (): Buffer => EMPTY;
const large = (size: ChunkSize): Buffer => BODIES[size].answer;

const KINDS = {
  request: { answer: empty, send: ({ url, size }) => post(url, FACTORY, BODIES[size].request) },
  upload: { answer: empty, send: ({ url, size }) => post(url, `${BIG}/draft/v1/upload`, BODIES[size].request) },
  "sign-in": { answer: empty, send: ({ operations, size }) => post(operations, "/session", BODIES[size].request) },
  answer: { answer: large, send: ({ url }) => askFactory(url) },
  download: { answer: large, send: ({ url }) => ask(url, `${BIG}/draft/v1/download`) },
  page: { answer: large, send: ({ url }) => ask(url, `${BIG}/metadata/v1/instruments?pageToken=${asked++}`) },
  // As short as a chunk, and no end of them.
  interim: { answer: (size) => (size === 1 ? INTERIM : EMPTY), send: ({ url }) => askFactory(url) },
} satisfies Record<string, Kind>;

parentPort!.on("message", (order: HostileOrder) => {
  const { answer: answerOf, send: sendOne }: Kind = KINDS[order.kind];
  answer = answerOf(order.size);
  const all = Promise.all(Array.from({ length: order.count }, () => sendOne(order)));
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- threads have no origin
  void all.then((statuses) => parentPort!.postMessage(statuses));
});
registries.listen(0, "127.0.0.1", () => {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- threads have no origin
  parentPort!.postMessage((registries.address() as AddressInfo).port);
});
