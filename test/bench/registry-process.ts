import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { optionsOfParent, tellParent } from "./parent.ts";

/** A registry of fixed answers. */
export interface RegistryOptions {
  /** Bodies of endpoints 1 to 4. */
  readonly info: string;
  readonly page: string;
  readonly instrument: string;
  readonly factory: string;
  /** Milliseconds before an answer other than info's. */
  readonly delay: number;
}

const { info, page, instrument, factory, delay } = optionsOfParent() as RegistryOptions;
const METADATA = "/registry/metadata/v1/";
const INSTRUMENTS = `${METADATA}instruments/`;
const NOT_FOUND = '{"error":"no such instrument"}';
const { id: known } = JSON.parse(instrument) as { id: string };
let calls = 0;

const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
  const url = request.url!;
  calls += 1;
  if (request.method === "POST") return answerPost(request, response);
  if (url === `${METADATA}info`) return send(response, info);
  const status = url.startsWith(INSTRUMENTS) && url !== INSTRUMENTS + known ? 404 : 200;
  const body = status === 404 ? NOT_FOUND : url.startsWith(INSTRUMENTS) ? instrument : page;
  answerLater(response, body, status);
});

function answerLater(response: ServerResponse, body: string, status: number): void {
  if (delay === 0) send(response, body, status);
  else setTimeout(send, delay, response, body, status);
}

/** As a registry does, it reads the whole request first. */
function answerPost(request: IncomingMessage, response: ServerResponse): void {
  request.resume().once("end", () => answerLater(response, factory, 200));
}

function send(response: ServerResponse, body: string, status = 200): void {
  response.writeHead(status, ["content-type", "application/json", "content-length", String(Buffer.byteLength(body))]);
  response.end(body);
}

process.on("message", () => {
  tellParent({ calls });
  calls = 0;
});
server.listen(0, "127.0.0.1", () => tellParent({ port: (server.address() as AddressInfo).port }));
