import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Client, type Dispatcher } from "undici";
import { optionsOfParent, tellParent } from "./parent.ts";

// The least that a proxy on this platform can do whose answers are known to be JSON: it routes nothing, checks nothing
// of a request, has no deadline, counts nothing and logs nothing.
const { upstream } = optionsOfParent() as { upstream: string };
const idle: Client[] = [];

class Answer implements Dispatcher.DispatchHandler {
  private readonly client: Client;
  private readonly response: ServerResponse;
  private readonly chunks: Buffer[] = [];
  private status = 0;

  constructor(client: Client, response: ServerResponse) {
    this.client = client;
    this.response = response;
  }

  onRequestStart(): void {}

  onResponseStart(_controller: Dispatcher.DispatchController, status: number): void {
    this.status = status;
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.chunks.push(chunk);
  }

  onResponseEnd(): void {
    idle.push(this.client);
    const body = Buffer.concat(this.chunks);
    JSON.parse(body.toString("utf8"));
    const fields = ["content-type", "application/json", "content-length", String(body.length)];
    this.response.writeHead(this.status, fields).end(body);
  }

  onResponseError(): void {
    this.response.destroy();
  }
}

const server = createServer({ noDelay: true }, (request, response) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  const passOn = () => {
    const client = idle.pop() ?? new Client(upstream);
    const body = Buffer.concat(chunks);
    const headers = ["content-type", "application/json"];
    client.dispatch(
      { origin: upstream, method: "POST", path: request.url!, headers, body },
      new Answer(client, response),
    );
  };
  request.on("end", () => passOn());
});
server.listen(0, "127.0.0.1", () => tellParent({ port: (server.address() as AddressInfo).port }));
