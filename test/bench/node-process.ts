import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import httpProxy from "@fastify/http-proxy";
import { fastify } from "fastify";
import { FACTORY_ANSWER, INFO, PAGE } from "./bodies.ts";
import { optionsOfParent, tellParent } from "../support/forks.ts";

/** A whole answer, its body in base64, with `content-length` among the fields. */
export interface Canned {
  readonly status: number;
  /** Name, value, … */
  readonly fields: readonly string[];
  readonly body: string;
}

/** The Node servers of the bench that are not the gateway. */
export type NodeServer =
  | { readonly kind: "bare"; readonly answer: Canned }
  | { readonly kind: "http-proxy"; readonly upstream: string }
  /** A registry of fixed answers; `delay` in ms, of all but infos. */
  | { readonly kind: "registry"; readonly delay: number };

/** The least that a server on this platform can do: it reads nothing of a request and always answers the same. */
function bare({ status, fields, body }: Canned): Server {
  const bytes = Buffer.from(body, "base64");
  return createServer((_request, response) => {
    response.writeHead(status, [...fields]);
    response.end(bytes.length === 0 ? undefined : bytes);
  });
}

/** All settings at their defaults. */
async function stockProxy(upstream: string): Promise<Server> {
  const app = fastify();
  await app.register(httpProxy, { upstream });
  await app.ready();
  return app.server;
}

function registry(delay: number): Server {
  const answerLater = (response: ServerResponse, body: string): void => {
    if (delay === 0) send(response, body);
    else setTimeout(send, delay, response, body);
  };
  return createServer({ keepAliveTimeout: 60_000 }, (request: IncomingMessage, response) => {
    if (request.method === "POST") request.resume().once("end", () => answerLater(response, FACTORY_ANSWER));
    else if (request.url === "/registry/metadata/v1/info") send(response, INFO);
    else answerLater(response, PAGE);
  });
}

function send(response: ServerResponse, body: string): void {
  response.writeHead(200, ["content-type", "application/json", "content-length", String(Buffer.byteLength(body))]);
  response.end(body);
}

async function serverOf(options: NodeServer): Promise<Server> {
  if (options.kind === "bare") return bare(options.answer);
  return options.kind === "registry" ? registry(options.delay) : stockProxy(options.upstream);
}

const server = await serverOf(optionsOfParent() as NodeServer);
server.listen(0, "127.0.0.1", () => tellParent({ port: (server.address() as AddressInfo).port }));
