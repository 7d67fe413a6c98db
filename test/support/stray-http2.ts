import { readFileSync } from "node:fs";
import { performServerHandshake, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { Duplex } from "node:stream";
import { createServer, type TLSSocket } from "node:tls";
import { mulberry32 } from "../../src/sandbox/random.ts";
import { bodyTo, type Stray, type StrayOptions, type StrayRegistry } from "./stray-registry.ts";

const fixture = (name: string) => join(import.meta.dirname, "../fixtures/tls", name);

/** The key of an upstream that trusts this registry. */
export const STRAY_TLS = { caFile: fixture("ca.pem") };

/**
 * The same as `startStrayRegistry` over HTTP/2. An answer to nobody's question (`early`) has a number that only a server
 * gives; under that of a request it would be no stray but an answer to that one.
 */
export async function startStrayHttp2Registry({
  seed = 1,
  share,
  strays,
  latency = 4,
}: StrayOptions): Promise<StrayRegistry> {
  const random = mulberry32(seed);
  const counts = { answers: 0, strays: 0, connections: 0 };
  let isOn = true;
  const sockets = new Set<TLSSocket>();
  const credentials = { cert: readFileSync(fixture("server.pem")), key: readFileSync(fixture("server-key.pem")) };
  const server = createServer({ ...credentials, ALPNProtocols: ["h2"] }, (socket) => {
    counts.connections += 1;
    sockets.add(socket);
    socket.on("error", () => undefined).on("close", () => sockets.delete(socket));
    const session: ServerHttp2Session = performServerHandshake(passThrough(socket));
    session
      .on("error", () => undefined)
      .on("stream", (stream, headers) => {
        stream.on("error", () => undefined).resume();
        const path = headers[":path"]!;
        setTimeout(() => {
          if (stream.destroyed) return;
          counts.answers += 1;
          const text = bodyTo(headers[":method"]!, path);
          const isStray = isOn && !path.endsWith("/info") && random() < share;
          if (!isStray) return send(stream, text);
          counts.strays += 1;
          stray({ socket, stream, text, after: random() * 12 }, strays[Math.floor(random() * strays.length)]!);
        }, random() * latency);
      });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    counts,
    behave(): void {
      isOn = false;
    },
    async stop(): Promise<void> {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

interface Exchange {
  readonly socket: TLSSocket;
  readonly stream: ServerHttp2Stream;
  readonly text: string;
  readonly after: number;
}

function stray({ socket, stream, text, after }: Exchange, how: Stray): void {
  const { id = 0 } = stream;
  if (how === "cut") return send(stream, text.slice(0, text.length / 2), text.length);
  send(stream, text);
  const number = how === "early" ? 2 : id;
  const write = (): void => {
    if (socket.writable) socket.write(answerFrames(number, text));
  };
  if (how === "extra") setTimeout(write, after);
  else setImmediate(write);
}

function send(stream: ServerHttp2Stream, text: string, length = text.length): void {
  stream.respond({ ":status": 200, "content-type": "application/json", "content-length": length });
  stream.end(text);
}

/** A whole answer as frames (RFC 9113 §6.1, §6.2), its fields in a form that leaves the connection's table as it is. */
function answerFrames(stream: number, text: string): Buffer {
  const type = "application/json";
  const fields = Buffer.concat([Buffer.from([0x88, 0x0f, 0x10, type.length]), Buffer.from(type)]);
  return Buffer.concat([frame(1, 4, { stream, payload: fields }), frame(0, 1, { stream, payload: Buffer.from(text) })]);
}

function frame(type: number, flags: number, { stream, payload }: { stream: number; payload: Buffer }): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** Node's own HTTP/2 writes through this, so that other frames can be written between. */
function passThrough(socket: TLSSocket): Duplex {
  const duplex = new Duplex({
    read: () => void socket.resume(),
    write: (chunk: Buffer, _encoding, done) => void socket.write(chunk, () => done()),
    final: (done) => void socket.end(done),
    destroy: (_error, done) => {
      socket.destroy();
      done(null);
    },
  });
  socket
    .on("data", (chunk: Buffer) => {
      if (!duplex.push(chunk)) socket.pause();
    })
    .on("end", () => duplex.push(null))
    .on("close", () => duplex.destroy());
  return duplex;
}
