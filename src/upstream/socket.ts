import dns, { type LookupAddress } from "node:dns";
import type { LookupFunction, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { buildConnector, Client } from "undici";
import type { Duration } from "../clock.ts";

/** Where connections to a node lead, and how. */
export interface Target {
  /** Scheme, host and port. */
  readonly origin: string;
  /** PEM texts. */
  readonly tls: { readonly ca?: string; readonly cert?: string; readonly key?: string };
  readonly httpProxy?: string | undefined;
}

/** Puts the addresses of a name in the order in which they are tried. */
type AddressOrder = (addresses: readonly LookupAddress[]) => readonly LookupAddress[];

/** For name resolution, TCP and TLS. Whoever waits has a deadline of its own, and leaves sooner. */
const CONNECT_TIMEOUT: Duration = 10_000;
/** For TCP to each address of a name but the last. Node's 250 ms are too short for a registry on another continent. */
const ADDRESS_TIMEOUT: Duration = 1_000;

/** The proxy does not lead to the node. */
class ProxyError extends Error {
  readonly code = "PROXY";
}

/** Opens sockets on which requests to a node can be sent. Each one asks DNS, or joins a lookup that runs. */
export class Dialer {
  private readonly url: URL;
  private readonly proxy: URL | undefined;
  private readonly connect: buildConnector.connector;
  private readonly connectProxy: buildConnector.connector;

  constructor({ origin, tls, httpProxy }: Target, order: AddressOrder) {
    const common = {
      timeout: CONNECT_TIMEOUT,
      autoSelectFamilyAttemptTimeout: ADDRESS_TIMEOUT,
      allowH2: false,
      lookup: lookUpIn(order),
    };
    this.url = new URL(origin);
    this.proxy = httpProxy === undefined ? undefined : new URL(httpProxy);
    this.connect = buildConnector({ ...common, ...tls });
    this.connectProxy = buildConnector(common);
  }

  /** Opens a socket. Rejects with what the socket, DNS, TLS or the proxy says. */
  async open(): Promise<Socket> {
    const { proxy, url } = this;
    if (proxy === undefined) return opened(this.connect, placeOf(url));
    // A forwarding proxy gets the whole of a request (RFC 9112 §3.2.2); through a tunnel it must not see what is said.
    if (url.protocol === "http:") return opened(this.connectProxy, placeOf(proxy)).catch(asProxyError);
    const httpSocket = (await this.openTunnel(proxy).catch(asProxyError)) as Socket;
    return opened(this.connect, { ...placeOf(url), httpSocket });
  }

  /** Precedes the path of each request: nothing, or the origin for a forwarding proxy. */
  get pathPrefix(): string {
    return this.isForwarded ? this.url.origin : "";
  }

  /** Fields that each request carries besides: the proxy's credentials. */
  get fields(): readonly string[] {
    const credentials = this.isForwarded ? credentialsOf(this.proxy!) : undefined;
    return credentials === undefined ? [] : ["proxy-authorization", credentials];
  }

  private get isForwarded(): boolean {
    return this.proxy !== undefined && this.url.protocol === "http:";
  }

  private async openTunnel(proxy: URL): Promise<Duplex> {
    const { hostname, port } = this.url;
    const credentials = credentialsOf(proxy);
    const client = new Client(proxy.origin, {
      connect: this.connectProxy,
      headersTimeout: CONNECT_TIMEOUT,
      pipelining: 1,
    });
    const { statusCode, socket } = await client.connect({
      path: `${hostname}:${port === "" ? "443" : port}`,
      headers: { host: this.url.host, ...(credentials !== undefined && { "proxy-authorization": credentials }) },
    });
    if (statusCode >= 200 && statusCode < 300) return socket;
    socket.destroy();
    throw new ProxyError(`the proxy answered ${statusCode}`);
  }
}

type Found = (error: NodeJS.ErrnoException | null, found: readonly LookupAddress[]) => void;

/**
 * Connections that wait for a lookup that runs, by name. A lookup takes one of Node's few threads: a name server that hangs
 * takes one for each name, however many wait.
 */
const lookups = new Map<string, Found[]>();

function lookUp(hostname: string, hints: number | undefined, done: Found): void {
  const waiting = lookups.get(hostname);
  if (waiting !== undefined) return void waiting.push(done);
  const all = [done];
  lookups.set(hostname, all);
  dns.lookup(hostname, { hints, all: true }, (error, found) => {
    lookups.delete(hostname);
    for (const each of all) each(error, found);
  });
}

function lookUpIn(order: AddressOrder): LookupFunction {
  return (hostname, options, done) => {
    lookUp(hostname, options.hints, (error, found) => {
      if (error !== null) return done(error, [], 0);
      const addresses = [...order(found)];
      if (options.all === true) done(null, addresses);
      else done(null, addresses[0]!.address, addresses[0]!.family);
    });
  };
}

function placeOf({ hostname, host, protocol, port }: URL): buildConnector.Options {
  return { hostname: hostname.replace(/^\[|\]$/g, ""), host, protocol, port };
}

function opened(connect: buildConnector.connector, place: buildConnector.Options): Promise<Socket> {
  return new Promise((resolve, reject) => {
    connect(place, (...[error, socket]) => (error === null ? resolve(socket) : reject(error)));
  });
}

function asProxyError(cause: unknown): never {
  throw cause instanceof ProxyError ? cause : new ProxyError("the proxy cannot be reached", { cause });
}

function credentialsOf({ username, password }: URL): string | undefined {
  if (username === "") return undefined;
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return `Basic ${Buffer.from(pair).toString("base64")}`;
}
