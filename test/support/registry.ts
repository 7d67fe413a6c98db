import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { atEnd } from "./closing.ts";
import { operationOf } from "./endpoints.ts";
import { until } from "./until.ts";

/** A request as a node got it. */
export interface Call {
  readonly node: number;
  readonly method: string;
  /** The target as it came. */
  readonly url: string;
  readonly operation: string;
  readonly headers: IncomingMessage["headers"];
  readonly rawHeaders: readonly string[];
  readonly body: Buffer;
  /** Counts the connections of its node, from 1. */
  readonly connection: number;
  /** Set when the client went away before the answer's end. */
  isAborted: boolean;
  isOpen: boolean;
}

/** An answer as data. Nothing is added to `fields` but the length, the type where there is none, and Node's `Date`. */
export interface Canned {
  readonly status?: number;
  /** Name, value, name, value, …; sent in this order and case. */
  readonly fields?: readonly string[];
  /** What is no text or bytes is sent as JSON. */
  readonly body?: unknown;
  /** `false`: no `Date`. */
  readonly date?: boolean;
}

/** What is done in place of an answer: these bytes and then the connection's end; a reset; nothing, ever. */
export type Misdeed = { readonly raw: string } | "reset" | "hang";

type Scripted = Canned | Misdeed | undefined;

/** Answers a call, or leaves it to the registry with undefined. A promise holds the call until it is resolved. */
export type Script = Canned | Misdeed | ((call: Call, response: ServerResponse) => Scripted | Promise<Scripted> | void);

/** Does this to the first call, and leaves the others to the registry or to `then`. */
export function atFirst(script: Canned | Misdeed, then?: Canned | Misdeed): Script {
  let isFirst = true;
  return () => {
    if (!isFirst) return then;
    isFirst = false;
    return script;
  };
}

export interface Instrument {
  readonly id: string;
  readonly [key: string]: unknown;
}

export interface RegistryOptions {
  readonly admin?: string;
  readonly nodes?: number;
  readonly instruments?: readonly Instrument[];
  readonly supportedApis?: Readonly<Record<string, number>>;
  /** Registries refuse larger pages with 400. */
  readonly maxPageSize?: number;
  /** A path before `/registry`. */
  readonly basePath?: string;
  readonly tls?: { readonly cert: Buffer; readonly key: Buffer };
  /** The host that `url` names; the server listens on all addresses of loopback. */
  readonly host?: string;
}

export function instrument(id: string, more: object = {}): Instrument {
  return { id, name: `Name of ${id}`, symbol: "SYM", decimals: 10, supportedApis: {}, ...more };
}

/** `A-00000`, `A-00001`, … */
export function instruments(prefix: string, count: number): Instrument[] {
  return Array.from({ length: count }, (_none, at) => instrument(`${prefix}-${String(at).padStart(5, "0")}`));
}

/** A party id that belongs to a name. */
export function partyOf(name: string): string {
  return `${name}::1220${createHash("sha256").update(name).digest("hex")}`;
}

/** Nobody's admin. */
export const STRANGER = partyOf("stranger");

/**
 * A registry that behaves as versions 1 and 2 say, with small bodies, unless a test scripts it. One object for all its nodes,
 * each a server of its own.
 */
export class Registry {
  readonly name: string;
  readonly admin: string;
  readonly calls: Call[] = [];
  readonly nodes: Node[] = [];
  /** The catalogue; a test may change it. */
  instruments: Instrument[];
  supportedApis: Readonly<Record<string, number>>;
  private readonly options: RegistryOptions;
  private readonly scripts = new Map<string, Script>();

  constructor(name: string, options: RegistryOptions) {
    this.name = name;
    this.options = options;
    this.admin = options.admin ?? partyOf(name);
    this.instruments = [...(options.instruments ?? instruments(name.toUpperCase(), 3))];
    this.supportedApis = options.supportedApis ?? { "splice-api-token-metadata-v1": 1 };
  }

  get url(): string {
    return this.urls[0]!;
  }

  get urls(): string[] {
    const { tls, host = "127.0.0.1", basePath = "" } = this.options;
    return this.nodes.map(({ port }) => `${tls === undefined ? "http" : "https"}://${host}:${port}${basePath}`);
  }

  /** The upstream's keys in a configuration. */
  upstream(keys: object = {}): Record<string, unknown> {
    return { name: this.name, admin: this.admin, urls: this.urls, ...keys };
  }

  /**
   * Scripts an operation (`instruments`), a path (`/registry/drafts/v1/x`), or `*`, which is all but the info; the more exact
   * one counts. Undefined ends it.
   */
  on(what: string, script: Script | undefined, node?: number): this {
    const key = node === undefined ? what : `${node} ${what}`;
    if (script === undefined) this.scripts.delete(key);
    else this.scripts.set(key, script);
    return this;
  }

  /** Holds all calls of an operation until the returned function is called. */
  hold(what: string): () => void {
    const { promise, resolve } = Promise.withResolvers<undefined>();
    this.on(what, () => promise);
    return () => {
      this.on(what, undefined);
      resolve(undefined);
    };
  }

  /** Ends all scripts and forgets all calls. */
  reset(): this {
    this.scripts.clear();
    this.calls.length = 0;
    return this;
  }

  /** How many calls of an operation, or of any but infos, have come. */
  count(operation?: string): number {
    return this.of(operation).length;
  }

  /** The calls of an operation, or all but infos. */
  of(operation?: string): Call[] {
    return this.calls.filter((call) =>
      operation === undefined ? call.operation !== "info" : call.operation === operation,
    );
  }

  /** The operations that it was asked for, without infos. */
  get asked(): string[] {
    return this.of().map(({ operation }) => operation);
  }

  get last(): Call {
    const last = this.of().at(-1);
    if (last === undefined) throw new Error(`${this.name} was asked for nothing`);
    return last;
  }

  /** Waits until so many calls of an operation (or of any but infos) have come. */
  async reached(count: number, operation?: string): Promise<void> {
    await until(() => this.count(operation) >= count);
  }

  /** All nodes listen no more, and their connections are cut. */
  async close(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.close()));
  }

  /** All nodes listen again, on their ports. */
  async restart(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.listen()));
  }

  async addNode(): Promise<Node> {
    const at = this.nodes.length;
    const node = new Node((request, response) => void this.serve(at, request, response), this.options);
    this.nodes.push(node);
    await node.listen();
    return node;
  }

  private async serve(node: number, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("error", () => undefined);
    await once(request, "end").catch(() => undefined);
    const { method = "", headers, rawHeaders, socket } = request;
    const full = request.url ?? "";
    const { basePath = "" } = this.options;
    const url = full.startsWith(basePath) ? full.slice(basePath.length) : full;
    const operation = operationOf(method, url);
    const connection = this.nodes[node]!.numberOf(socket);
    const body = Buffer.concat(chunks);
    const call = {
      node,
      method,
      url,
      operation,
      headers,
      rawHeaders,
      body,
      connection,
      isAborted: false,
      isOpen: true,
    };
    this.calls.push(call);
    response.on("close", () => {
      call.isOpen = false;
      call.isAborted = !response.writableFinished;
    });
    const scripted = await this.script(call, response);
    if (response.headersSent || response.writableEnded || response.destroyed) return;
    answer(response, scripted ?? this.usual(call));
  }

  private async script(call: Call, response: ServerResponse): Promise<Scripted> {
    const [path = ""] = call.url.split("?", 1);
    const names = [path, call.operation, ...(call.operation === "info" ? [] : ["*"])];
    for (const name of names.flatMap((each) => [`${call.node} ${each}`, each])) {
      const script = this.scripts.get(name);
      if (script === undefined) continue;
      const given = typeof script === "function" ? await script(call, response) : script;
      if (given !== undefined || response.headersSent) return given as Scripted;
    }
    return undefined;
  }

  private usual(call: Call): Canned {
    const { operation, url } = call;
    const query = new URL(url, "http://registry").searchParams;
    const id = decodeURIComponent(/instruments\/([^/?]+)/.exec(url)?.[1] ?? "");
    const context = { choiceContextData: { registry: this.name }, disclosedContracts: [] };
    if (operation === "info") return { body: { adminId: this.admin, supportedApis: this.supportedApis } };
    if (operation === "instruments") return this.page(query);
    if (operation === "instrument") {
      const found = this.instruments.find((each) => each.id === id);
      return found === undefined
        ? { status: 404, body: { error: `No instrument with id ${id} found` } }
        : { body: found };
    }
    if (operation.startsWith("transfer_factory")) {
      return { body: { factoryId: `factory of ${this.name}`, transferKind: "self", choiceContext: context } };
    }
    if (operation.includes("factory")) {
      return { body: { factoryId: `factory of ${this.name}`, choiceContext: context } };
    }
    if (operation !== "pass_through") return { body: context };
    return { body: { registry: this.name, method: call.method, url, body: call.body.toString("latin1") } };
  }

  /** Keyset paging: a token is the last id of the page before. */
  private page(query: URLSearchParams): Canned {
    const size = Number(query.get("pageSize") ?? 25);
    const { maxPageSize = 10_000 } = this.options;
    if (size > maxPageSize) return { status: 400, body: { error: `pageSize must be at most ${maxPageSize}` } };
    const token = query.get("pageToken");
    const from = token === null ? 0 : this.instruments.findIndex(({ id }) => id === token) + 1;
    if (token !== null && from === 0) return { status: 400, body: { error: "bad page token" } };
    const page = this.instruments.slice(from, from + size);
    const isLast = from + size >= this.instruments.length;
    return { body: { instruments: page, ...(isLast ? {} : { nextPageToken: page.at(-1)!.id }) } };
  }
}

function answer(response: ServerResponse, scripted: Canned | Misdeed): void {
  if (scripted === "hang") return;
  if (scripted === "reset") return response.socket?.resetAndDestroy() as undefined;
  if ("raw" in scripted) {
    response.socket?.end(Buffer.from(scripted.raw, "latin1"));
    return;
  }
  const { status = 200, fields = [], date = true } = scripted;
  const { body = "" } = scripted;
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
  const has = (pattern: RegExp): boolean => fields.some((name, at) => at % 2 === 0 && pattern.test(name));
  const all = [...fields];
  const isBodiless = status === 304 || status === 204;
  if (!isBodiless && !has(/^content-type$/i)) all.push("Content-Type", "application/json");
  if (!isBodiless && !has(/^(content-length|transfer-encoding)$/i)) all.push("Content-Length", String(bytes.length));
  response.sendDate = date && !has(/^date$/i);
  response.writeHead(status, all);
  response.end(isBodiless ? undefined : bytes);
}

/** One server of a registry. Its port stays its own. */
export class Node {
  port = 0;
  /** Connections accepted so far. */
  accepted = 0;
  /** Told the number of each. */
  onAccepted: ((connection: number) => void) | undefined;
  private readonly handler: RequestListener;
  private readonly tls: RegistryOptions["tls"];
  private readonly numbers = new WeakMap<Socket, number>();
  private server: Server | undefined;

  constructor(handler: RequestListener, { tls }: RegistryOptions) {
    this.handler = handler;
    this.tls = tls;
  }

  /** Which of its connections a request came over. */
  numberOf(socket: Socket): number {
    return this.numbers.get(socket) ?? 0;
  }

  async listen(): Promise<void> {
    const server = this.tls === undefined ? createServer(this.handler) : createTlsServer(this.tls, this.handler);
    this.server = server;
    // What the gateway keeps open stays open.
    server.keepAliveTimeout = 60_000;
    server.on(this.tls === undefined ? "connection" : "secureConnection", (socket: Socket) => {
      this.accepted += 1;
      this.numbers.set(socket, this.accepted);
      this.onAccepted?.(this.accepted);
    });
    server.listen(this.port, "127.0.0.1");
    await once(server, "listening");
    this.port = (server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    const { server } = this;
    this.server = undefined;
    if (server === undefined) return;
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeAllConnections();
    await closed;
  }
}

/** Starts a registry, which ends with the test or, outside one, with the file. */
export async function startRegistry(name = "amulet", options: RegistryOptions = {}): Promise<Registry> {
  const registry = new Registry(name, options);
  for (let at = 0; at < (options.nodes ?? 1); at += 1) await registry.addNode();
  atEnd(() => registry.close());
  return registry;
}
