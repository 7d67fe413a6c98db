import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { optionsOfParent, tellParent } from "../bench/parent.ts";
import { faultAt, type Day, type Fault, type Registry } from "./plan.ts";
import { type Question, questionOf, rightBody, TTL, versionAt } from "./truth.ts";

/** What one registry was asked. */
export interface RegistryCount {
  readonly calls: number;
  /** Those calls by what was asked; `other` is no question of a wallet. */
  readonly asked: Readonly<Partial<Record<Question["kind"] | "other", number>>>;
  /** Connections that were opened to its nodes. */
  readonly connections: number;
  /** Calls that it refused because they were beyond its limit. */
  readonly beyondLimit: number;
  /** How often the page that was read most often was read in the first seconds, when no entry is due to be refreshed. */
  readonly coldReadings: number;
}

export interface RegistriesOptions {
  readonly day: Day;
}

/** Ports of the nodes of each registry. */
export interface RegistriesPorts {
  readonly ports: readonly (readonly number[])[];
}

export interface RegistriesCounts {
  readonly counts: readonly RegistryCount[];
}

export type RegistriesCommand =
  | { readonly do: "begin"; readonly begin: number }
  | { readonly do: "ports" }
  | { readonly do: "count" };

/** Before a page may be refreshed, where its registry says nothing of its lifetime. */
const COLD = 20_000;
const ADDRESSES = 10_000;

const { day } = optionsOfParent() as RegistriesOptions;
let begin = Number.POSITIVE_INFINITY;
const now = () => Math.max(0, Date.now() - begin);

/** One registry: its nodes are listeners of this process, its limit is that of all nodes together. */
class RegistryServer {
  ports: readonly number[] = [];
  private readonly registry: Registry;
  private readonly nodes: readonly Server[];
  /** When the calls of the last window came, by client address. */
  private readonly recent = new Map<string, number[]>();
  private readonly cold = new Map<string, number>();
  private calls = 0;
  private readonly asked: Partial<Record<Question["kind"] | "other", number>> = {};
  private connections = 0;
  private beyondLimit = 0;

  constructor(registry: Registry) {
    this.registry = registry;
    this.nodes = Array.from({ length: registry.nodes }, () =>
      createServer({ keepAliveTimeout: 65_000 }, (request, response) => this.receive(request, response)).on(
        "connection",
        () => void (this.connections += 1),
      ),
    );
  }

  async listen(): Promise<void> {
    this.ports = await Promise.all(this.nodes.map((node) => listen(node, 0)));
  }

  /** Plays the faults in which nothing listens. */
  play({ name, from, to }: Fault): void {
    const failing = name === "node dead" ? [3] : name === "registry down" ? [0] : [];
    for (const at of failing) {
      setTimeout(() => close(this.nodes[at]!), from);
      setTimeout(() => void listen(this.nodes[at]!, this.ports[at]!), to);
    }
    // Who waits for a registry that hung gets no answer from it any more.
    if (name === "registry hangs") setTimeout(() => this.nodes[0]!.closeAllConnections(), to);
  }

  count(): RegistryCount {
    const { calls, asked, connections, beyondLimit, cold } = this;
    return { calls, asked, connections, beyondLimit, coldReadings: Math.max(0, ...cold.values()) };
  }

  private receive(request: IncomingMessage, response: ServerResponse): void {
    const at = now();
    const fault = faultAt(day, this.registry.number, at);
    this.calls += 1;
    const kind = questionOf(request.url!)?.kind ?? "other";
    this.asked[kind] = (this.asked[kind] ?? 0) + 1;
    if (fault === "registry hangs") return void request.resume();
    // As servers behind an ingress take it; only who asks without a proxy is told apart by it here.
    const address = String(request.headers["x-envoy-external-address"] ?? request.socket.remoteAddress);
    const isRefused = !this.isWithinLimit(address, at) || fault === "registry limits";
    const url = request.url!;
    const isCold = at < Math.min(COLD, 900 * (this.registry.maxAge ?? TTL.page));
    if (isCold && url.includes("/instruments")) this.cold.set(url, (this.cold.get(url) ?? 0) + 1);
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.once("end", () => {
      const body = Buffer.concat(chunks).toString();
      setTimeout(() => {
        if (isRefused) return send(response, { status: 429, type: "text/plain", body: "Too Many Requests" });
        if (fault === "registry sends HTML") return send(response, { status: 200, type: "text/html", body: "<html>" });
        this.answer(request, response, body);
      }, this.registry.latency);
    });
  }

  private answer(request: IncomingMessage, response: ServerResponse, body: string): void {
    const { registry } = this;
    const question = questionOf(request.url!);
    if (question === undefined) return send(response, { status: 404, body: '{"error":"no such path"}' });
    if (question.kind === "factory" || question.kind === "context") {
      const nonce = question.nonce === "" ? (/"nonce":"([0-9a-f]+)"/.exec(body)?.[1] ?? "") : question.nonce;
      return send(response, { body: rightBody(registry, { ...question, nonce }, 0) });
    }
    const version = versionAt(registry, now());
    if (registry.hasValidators) {
      const etag = `"${version}"`;
      response.setHeader("etag", etag);
      if (request.headers["if-none-match"] === etag) return void response.writeHead(304).end();
    }
    if (registry.maxAge !== undefined) response.setHeader("cache-control", `max-age=${registry.maxAge}`);
    send(response, { body: rightBody(registry, question, version) });
  }

  /** Whether one more call of this address is within the limit, in any window. */
  private isWithinLimit(address: string, at: number): boolean {
    const { requests, per } = this.registry.limit;
    if (this.recent.size === ADDRESSES) this.recent.clear();
    const times = (this.recent.get(address) ?? []).filter((time) => time > at - per);
    const isWithin = times.length < requests;
    if (isWithin) times.push(at);
    else this.beyondLimit += 1;
    this.recent.set(address, times);
    return isWithin;
  }
}

interface Sent {
  readonly status?: number;
  readonly type?: string;
  readonly body: string;
}

function send(response: ServerResponse, { status = 200, type = "application/json", body }: Sent): void {
  response.writeHead(status, { "content-type": type, "content-length": Buffer.byteLength(body) });
  response.end(body);
}

function listen(server: Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", () => resolve((server.address() as { port: number }).port));
  });
}

function close(server: Server): void {
  server.close();
  server.closeAllConnections();
}

const servers = day.registries.map((registry) => new RegistryServer(registry));
process.on("message", (command: RegistriesCommand) => {
  if (command.do === "count") {
    return tellParent({ counts: servers.map((server) => server.count()) } satisfies RegistriesCounts);
  }
  if (command.do === "ports") return tellParent({ ports: servers.map(({ ports }) => ports) } satisfies RegistriesPorts);
  begin = command.begin;
  setTimeout(() => {
    for (const fault of day.faults) if (fault.registry !== undefined) servers[fault.registry]!.play(fault);
  }, begin - Date.now());
});
await Promise.all(servers.map((server) => server.listen()));
tellParent({ port: 0 });
