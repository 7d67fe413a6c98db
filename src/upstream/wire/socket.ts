import { request as requestHttp } from "node:http";
import { connect as connectTcp, isIP, type LookupFunction, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import type { AbortSignalLike, Clock, Duration, Instant } from "../../clock.ts";
import type { TlsMaterial } from "../../config/certificates.ts";
import { GatewayError } from "../../errors.ts";
import { ConnectionGone, ConnectTimeout, proxyRefused } from "./connection-failure.ts";
import { lookUp, lookUpForStranger } from "../../host-names.ts";
import { isPrivateHost, PrivateAddress, publicOnly } from "./public-address.ts";

/** Where connections lead and how. */
export interface ConnectionTarget {
  /** Scheme, host and port. */
  readonly origin: string;
  /** For establishing a connection, name resolution, proxy and TLS handshake included. */
  readonly connectTimeout: Duration;
  readonly httpProxy?: string | undefined;
  /** True: to addresses of the public internet alone; not together with a proxy, which looks names up itself. */
  readonly publicOnly?: boolean;
  /** A stranger named it, and nobody has decided to use it: its name must not hold up others. */
  readonly isStranger?: boolean;
  /** HTTP/2 is spoken where the node offers it (ALPN). */
  readonly http2?: boolean;
  /** Asked for each new connection; an error where none may be made. */
  readonly tls: () => TlsMaterial | GatewayError;
}

/** What ends the wait for a socket, and what hears how long a TCP handshake took. */
export interface SocketWait {
  readonly clock: Clock;
  readonly signal: AbortSignalLike;
  readonly onTrip: (trip: Duration) => void;
}

/** After so much silence TCP asks whether the other side is there, and again as often. */
const KEEP_ALIVE: Duration = 1_000;

/** A socket that requests to the target can be sent on. Rejects with what the socket, TLS or the proxy says. */
export async function openSocket(target: ConnectionTarget, wait: SocketWait): Promise<Socket> {
  const { clock, signal } = wait;
  const url = new URL(target.origin);
  const tls = url.protocol === "https:" ? target.tls() : undefined;
  if (tls instanceof GatewayError) throw tls;
  if (signal.aborted) throw new ConnectionGone();
  const until = { ...wait, deadline: clock.now() + target.connectTimeout };
  const way = target.httpProxy === undefined ? undefined : await openTunnel(new URL(target.httpProxy), url, until);
  if (way === undefined && target.publicOnly === true && isPrivateHost(url.hostname)) throw new PrivateAddress();
  const place = way === undefined ? placeOf(url, target) : { socket: way };
  const socket = await (tls === undefined
    ? (way ?? connected(connectTcp(placeOf(url, target)), "connect", until))
    : connected(connectTls({ ...place, ...handshakeOf(url, target.http2), ...tls }), "secureConnect", until));
  // What has taken the address of a machine that is gone says so to a probe: none may vouch for it for long.
  return socket.setKeepAlive(true, KEEP_ALIVE).setNoDelay(true);
}

/** How requests to the origin name their target on such a socket: a forwarding proxy gets all of it (RFC 9112 §3.2.2). */
export function targetPrefix({ origin, httpProxy }: ConnectionTarget): string {
  return httpProxy !== undefined && origin.startsWith("http:") ? origin : "";
}

/** What such a proxy gets to know who asks. */
export function proxyFields({ origin, httpProxy }: ConnectionTarget): readonly string[] {
  const credentials =
    httpProxy === undefined || origin.startsWith("https:") ? undefined : authorizationOf(new URL(httpProxy));
  return credentials === undefined ? [] : ["proxy-authorization", credentials];
}

interface Until extends SocketWait {
  readonly deadline: Instant;
}

interface Place {
  readonly host: string;
  readonly port: number;
  readonly lookup: LookupFunction;
}

function placeOf({ hostname, port, protocol }: URL, target?: ConnectionTarget): Place {
  const lookup = target?.isStranger === true ? lookUpForStranger : lookUp;
  return {
    host: hostname.replace(/^\[|\]$/g, ""),
    port: Number(port || (protocol === "https:" ? 443 : 80)),
    lookup: target?.publicOnly === true ? publicOnly(lookup) : lookup,
  };
}

function handshakeOf(url: URL, http2 = false) {
  const { host } = placeOf(url);
  return {
    ...(isIP(host) === 0 && { servername: host }),
    host,
    ALPNProtocols: http2 ? ["h2", "http/1.1"] : ["http/1.1"],
    rejectUnauthorized: true,
    minVersion: "TLSv1.2",
  } as const;
}

/** To the proxy, and through it where it must not see what is said. */
async function openTunnel(proxy: URL, target: URL, until: Until): Promise<Socket> {
  try {
    const socket = await (proxy.protocol === "https:"
      ? connected(connectTls({ ...placeOf(proxy), ...handshakeOf(proxy) }), "secureConnect", until)
      : connected(connectTcp(placeOf(proxy)), "connect", until));
    return target.protocol === "http:" ? socket : await throughProxy(socket, proxy, target, until);
  } catch (error) {
    throw error instanceof ConnectTimeout || error instanceof ConnectionGone ? error : proxyRefused(error);
  }
}

function throughProxy(socket: Socket, proxy: URL, target: URL, until: Until): Promise<Socket> {
  const { host, port } = placeOf(target);
  const place = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  const credentials = authorizationOf(proxy);
  const headers = { host: place, ...(credentials !== undefined && { "proxy-authorization": credentials }) };
  const request = requestHttp({ method: "CONNECT", path: place, headers, createConnection: () => socket });
  const tunnel = new Promise<Socket>((resolve, reject) => {
    request.once("connect", ({ statusCode = 0 }) => {
      // Any success is a tunnel (RFC 9110 §9.3.6).
      if (statusCode >= 200 && statusCode < 300) resolve(socket);
      else reject(new Error(`the proxy answered ${statusCode}`));
    });
    request.once("response", ({ statusCode }) => reject(new Error(`the proxy answered ${statusCode}`)));
    request.once("error", reject);
  });
  request.end();
  return whileOpen(socket, tunnel, until);
}

function authorizationOf({ username, password }: URL): string | undefined {
  if (username === "") return undefined;
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return `Basic ${Buffer.from(pair).toString("base64")}`;
}

function connected(socket: Socket, event: "connect" | "secureConnect", until: Until): Promise<Socket> {
  measureTrip(socket, until);
  const opened = new Promise<Socket>((resolve, reject) => {
    socket.once(event, () => resolve(socket)).once("error", reject);
    socket.once("close", () => reject(new ConnectTimeout()));
  });
  return whileOpen(socket, opened, until);
}

/** What `opened` becomes, while the wait lasts; else the socket is closed. */
async function whileOpen(socket: Socket, opened: Promise<Socket>, { clock, signal, deadline }: Until): Promise<Socket> {
  socket.on("error", ignore);
  const onAbort = () => socket.destroy(new ConnectionGone());
  const cancelTimer = clock.after(deadline - clock.now(), () => socket.destroy(new ConnectTimeout()));
  signal.addEventListener("abort", onAbort);
  try {
    return await opened;
  } catch (error) {
    socket.destroy();
    throw error;
  } finally {
    cancelTimer();
    signal.removeEventListener("abort", onAbort);
  }
}

/** How long the TCP handshake takes; on loopback it says more about this process than about the way. */
function measureTrip(socket: Socket, { clock, onTrip }: Until): void {
  let beganAt: Instant | undefined;
  socket.on("connectionAttempt", () => {
    beganAt = clock.now();
  });
  socket.once("connect", () => {
    if (beganAt !== undefined && !isLoopback(socket.remoteAddress)) onTrip(clock.now() - beganAt);
  });
}

function isLoopback(address = ""): boolean {
  return address === "::1" || address.startsWith("127.") || address.startsWith("::ffff:127.");
}

function ignore(): void {
  // Anybody who waits for the socket has learned of it.
}
