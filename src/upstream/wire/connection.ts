import { connect as connectTcp } from "node:net";
import type { LookupFunction, Socket } from "node:net";
import { connect as connectTls, type PeerCertificate, TLSSocket } from "node:tls";
import { Client, ProxyAgent } from "undici";
import type { Dispatcher, buildConnector } from "undici";
import type { Clock, Duration, Instant } from "../../clock.ts";
import type { TlsMaterial } from "../../config/tls-files.ts";
import type { MaybePromise } from "../../sharing/ports.ts";
import { GatewayError } from "../../errors.ts";
import { ConnectionGone, ConnectTimeout } from "./connection-failure.ts";
import { isPrivateHost, lookUpPublic, PrivateAddress } from "./public-address.ts";
import { RecentAnswers, type StepFault, type StepRecord } from "./step-record.ts";

/** Where connections lead and how. */
export interface ConnectionTarget {
  /** Scheme, host and port. */
  readonly origin: string;
  /** For establishing a connection, name resolution and TLS handshake included. */
  readonly connectTimeout: Duration;
  readonly httpProxy?: string | undefined;
  /** True: to addresses of the public internet alone; not together with a proxy, which looks names up itself. */
  readonly publicOnly?: boolean;
  /** Asked for each new connection; an error where none may be made. */
  readonly tls: () => MaybePromise<TlsMaterial | GatewayError>;
}

/** The same with what is known of the node there. */
export interface KnownTarget extends ConnectionTarget {
  readonly steps: StepRecord;
}

// undici's own timers are coarse: deadlines are kept by whoever waits.
const CLIENT_OPTIONS = {
  pipelining: 1,
  headersTimeout: 0,
  bodyTimeout: 0,
  connectTimeout: 0,
  maxHeaderSize: 32 * 1024,
  keepAliveTimeout: 15_000,
  keepAliveMaxTimeout: 60_000,
  keepAliveTimeoutThreshold: 2_000,
  allowH2: false,
} as const;

/** After so much silence TCP asks whether the other side is there, and again as often. */
const KEEP_ALIVE: Duration = 1_000;

/** What a server says on a connection on which it waited in vain: it is no answer (RFC 9110 §15.5.9). */
const TIMEOUT_NOTICE = "HTTP/1.1 408 ";

/** Says that the connection is there, to the request that had it opened: that one is never sent. */
const OPENED = new Error("the connection is open");

/**
 * One connection to a node: opened once, never again, and at the service of one request at a time. A request that finds
 * it closed fails with {@link ConnectionGone}: undici would open another, which nobody has asked whose it is.
 */
export class Connection {
  readonly dispatcher: Dispatcher;
  /** It may carry requests; see `Connections`. */
  isProved = false;
  /** Whom it leads to, once open: the remote address and port and, with TLS, the certificate that was shown. */
  peer = "";
  /** When the certificate ends that was shown (RFC 3339); undefined without TLS. */
  certificateEnd: string | undefined;
  /** When it was opened. */
  openedAt: Instant;
  /** When the node proved itself over it, or over the one that vouched for it. */
  provedAt: Instant = -Infinity;
  /** It has carried a call. */
  isUsed = false;
  readonly recentAnswers: RecentAnswers;
  private readonly target: KnownTarget;
  private readonly clock: Clock;
  private readonly onClose: (connection: Connection) => void;
  private pending: Socket | undefined;
  private socket: Socket | undefined;
  private isOver = false;
  /** When the request was sent that is not answered yet; undefined: nothing is asked. */
  private askedAt: Instant | undefined;
  private hasAnswered = false;
  /** It was ended, by whichever side, and not for what came over it. */
  private isEnded = false;
  private isOutOfStep = false;

  /** `onClose` is called once, as soon as no request can be sent on it any more. */
  constructor(target: KnownTarget, clock: Clock, onClose: (connection: Connection) => void) {
    this.target = target;
    this.clock = clock;
    this.onClose = onClose;
    this.openedAt = clock.now();
    this.recentAnswers = new RecentAnswers(clock);
    this.dispatcher = target.httpProxy === undefined ? this.createDirect() : this.createProxied(target.httpProxy);
  }

  /** It is open as far as this process has heard. */
  get isOpen(): boolean {
    return !this.isOver && this.socket?.destroyed === false;
  }

  /** Opens it. Rejects with what the socket, TLS or the proxy says. */
  open(): Promise<void> {
    return new Promise((resolve, reject) => {
      const never = (): void => undefined;
      this.dispatcher.dispatch(
        { origin: this.target.origin, method: "GET", path: "/" },
        {
          onRequestStart: never,
          onResponseStart: never,
          onResponseData: never,
          onResponseEnd: never,
          onResponseError: (_controller, error) => (error === OPENED ? resolve() : reject(error)),
        },
      );
    });
  }

  /** Closes it, or what is on the way to become it, at once. A request on it fails. */
  destroy(): void {
    // Undici, which closes it for what it cannot read, says so a moment later.
    if (this.socket?.destroyed !== true) this.isEnded = true;
    this.end();
    this.pending?.destroy();
    void this.dispatcher.destroy(new ConnectionGone());
    this.socket?.destroy();
  }

  /** As {@link destroy}, when undici, which may be in the middle of reporting a failure, is done with it. */
  destroySoon(): void {
    queueMicrotask(() => this.destroy());
  }

  /** A request is on its way. */
  asked(): void {
    this.askedAt = this.clock.now();
    this.socket?.off("readable", this.onStray);
  }

  /** All of the answer is here: what comes now was not asked for. */
  answered(): void {
    this.askedAt = undefined;
    this.hasAnswered = true;
    // Before undici's own listener, which reads it.
    this.socket?.prependListener("readable", this.onStray);
  }

  /** An answer begins sooner than one could be here. */
  get isTooEarly(): boolean {
    return this.askedAt !== undefined && this.clock.now() - this.askedAt < this.target.steps.leastAnswerTime;
  }

  /** It carries no other request. */
  close(): void {
    this.destroySoon();
  }

  /** It was not in step: it is closed, and what came over it a moment ago is forgotten. */
  leaveStep(fault: StepFault): void {
    if (this.isOutOfStep) return;
    this.isOutOfStep = true;
    this.destroySoon();
    this.recentAnswers.forgetAll();
    this.target.steps.note(fault);
  }

  private readonly onStray = (): void => {
    const { socket } = this;
    if (socket === undefined || socket.readableLength === 0) return;
    const stray = socket.read() as Buffer;
    this.destroy();
    if (stray.toString("latin1", 0, TIMEOUT_NOTICE.length) !== TIMEOUT_NOTICE) this.leaveStep("unasked");
  };

  /** Bytes behind an answer, in the same read, are seen by undici's parser alone, which closes the connection. */
  private readonly onDisconnect = (_origin: URL, _clients: readonly unknown[], error: Error): void => {
    if (this.askedAt !== undefined || !this.hasAnswered || this.isEnded) return;
    if (isParserError(error)) this.leaveStep("unasked");
  };

  private createDirect(): Dispatcher {
    const connect = (options: buildConnector.Options, callback: buildConnector.Callback) =>
      this.connect(options, callback);
    return this.createClient(this.target.origin, connect);
  }

  private createClient(origin: string | URL, connect: buildConnector.connector): Client {
    const client = new Client(origin, { ...CLIENT_OPTIONS, connect: this.openOnce(connect) });
    return client.on("disconnect", this.onDisconnect);
  }

  private createProxied(proxy: string): Dispatcher {
    const material = this.target.tls();
    if (material instanceof GatewayError) {
      return new Client(this.target.origin, { connect: (_options, callback) => callback(material, null) });
    }
    return new ProxyAgent({
      ...CLIENT_OPTIONS,
      uri: new URL(proxy).href,
      connections: 1,
      connectTimeout: this.target.connectTimeout,
      requestTls: { ...(material instanceof Promise ? {} : material), rejectUnauthorized: true },
      proxyTls: { rejectUnauthorized: true },
      factory: (origin, { connect }: { connect: buildConnector.connector }) => this.createClient(origin, connect),
    });
  }

  /** Undici asks for a connection whenever it has a request and none: the first time it is opened and kept, the second time handed over, and after that there is none. */
  private openOnce(connect: buildConnector.connector): buildConnector.connector {
    let isHandedOver = false;
    return (options, callback) => {
      const { socket } = this;
      if (socket === undefined) {
        connect(options, (...[error, opened]) => {
          if (error === null) this.keep(opened);
          callback(error ?? OPENED, null);
        });
        return;
      }
      const isFirst = !isHandedOver;
      isHandedOver = true;
      // What has arrived by now is read first: nothing that came unasked is to be taken for the answer.
      setImmediate(() => {
        if (!isFirst || !this.isOpen) return callback(new ConnectionGone(), null);
        socket.off("readable", this.onUnasked);
        callback(null, socket);
      });
    };
  }

  private keep(socket: Socket): void {
    this.socket = socket;
    this.openedAt = this.clock.now();
    const certificate = socket instanceof TLSSocket ? socket.getPeerCertificate() : undefined;
    this.peer = peerOf(socket, certificate);
    this.certificateEnd = endOf(certificate);
    // What has taken the address of a machine that is gone says so to a probe: none may vouch for it for long.
    socket.setKeepAlive(true, KEEP_ALIVE);
    // Heard here as well as by undici, which has it only when something is sent.
    socket
      .on("error", () => undefined)
      .once("end", () => {
        this.isEnded = true;
        this.end();
      })
      .once("close", this.end)
      .on("readable", this.onUnasked);
    if (this.isOver) socket.destroy();
  }

  private readonly end = (): void => {
    if (this.isOver) return;
    this.isOver = true;
    this.onClose(this);
  };

  /** It ended, or something came although nothing was sent: a 408, or the answer to what is not asked yet. */
  private readonly onUnasked = (): void => void this.socket?.destroy();

  private connect(options: buildConnector.Options, callback: buildConnector.Callback): void {
    const tls = this.target.origin.startsWith("https:") ? this.target.tls() : undefined;
    if (tls instanceof Promise) void tls.then((material) => this.openSocket(options, material, callback));
    else this.openSocket(options, tls, callback);
  }

  /** How long the TCP handshake takes; on loopback it says more about this process than about the way. */
  private measureTrip(socket: Socket): void {
    let beganAt: Instant | undefined;
    socket.on("connectionAttempt", () => {
      beganAt = this.clock.now();
    });
    socket.once("connect", () => {
      if (beganAt !== undefined && !isLoopback(socket.remoteAddress))
        this.target.steps.noteTrip(this.clock.now() - beganAt);
    });
  }

  private openSocket(
    options: buildConnector.Options,
    tls: TlsMaterial | GatewayError | undefined,
    callback: buildConnector.Callback,
  ): void {
    if (tls instanceof GatewayError) return callback(tls, null);
    const { publicOnly } = this.target;
    // An address is connected to without being looked up.
    if (publicOnly === true && isPrivateHost(options.hostname)) return callback(new PrivateAddress(), null);
    const place = { host: options.hostname, ...(publicOnly === true && { lookup: lookUpPublic }) };
    let socket: Socket;
    try {
      socket = tls === undefined ? connectPlainly(place, options) : connectSecurely(place, options, tls);
    } catch (error) {
      // What the handshake cannot even begin with would else leave the call to its deadline.
      return callback(error instanceof Error ? error : new Error(String(error)), null);
    }
    this.pending = socket;
    this.measureTrip(socket);
    socket.setNoDelay(true);
    const cancelTimer = this.clock.after(this.target.connectTimeout, () => socket.destroy(new ConnectTimeout()));
    const settle = (error: Error | null) => {
      cancelTimer();
      socket.off("error", settle).off("close", onClose);
      this.pending = undefined;
      if (error === null) callback(null, socket);
      else callback(error, null);
    };
    const onClose = () => settle(new ConnectTimeout());
    socket.once(tls === undefined ? "connect" : "secureConnect", () => settle(null));
    socket.once("error", settle).once("close", onClose);
    if (this.isOver) socket.destroy();
  }
}

/** Whether undici could not read what came: it was no answer, or nobody had asked. */
function isParserError(error: Error): boolean {
  return error.name === "HTTPParserError" || ("code" in error && error.code === "UND_ERR_SOCKET");
}

function isLoopback(address = ""): boolean {
  return address === "::1" || address.startsWith("127.") || address.startsWith("::ffff:127.");
}

function peerOf(socket: Socket, certificate: PeerCertificate | undefined): string {
  const address = `${socket.remoteAddress} ${socket.remotePort}`;
  return certificate === undefined ? address : `${address} ${certificate.fingerprint256}`;
}

function endOf(certificate: PeerCertificate | undefined): string | undefined {
  const end = Date.parse(certificate?.valid_to ?? "");
  return Number.isNaN(end) ? undefined : new Date(end).toISOString();
}

interface Place {
  readonly host: string;
  readonly lookup?: LookupFunction;
}

function connectPlainly(place: Place, { port }: buildConnector.Options): Socket {
  return connectTcp({ ...place, port: Number(port || 80) });
}

function connectSecurely(place: Place, { port, servername }: buildConnector.Options, tls: TlsMaterial): Socket {
  return connectTls({
    ...place,
    port: Number(port || 443),
    ...(servername ? { servername } : {}),
    ...tls,
    ALPNProtocols: ["http/1.1"],
    rejectUnauthorized: true,
    minVersion: "TLSv1.2",
  });
}
