import { connect as connectTcp } from "node:net";
import type { Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { Client, ProxyAgent } from "undici";
import type { Dispatcher, buildConnector } from "undici";
import type { Clock, Duration, Instant } from "../clock.ts";
import type { TlsMaterial } from "../config/tls-files.ts";
import type { MaybePromise } from "../coordinator/coordinator.ts";
import { GatewayError } from "../errors.ts";
import { ConnectTimeout } from "./failure.ts";

/** Where links lead and how. */
export interface LinkTarget {
  /** Scheme, host and port. */
  readonly origin: string;
  /** For establishing a connection, name resolution and TLS handshake included. */
  readonly connectTimeout: Duration;
  readonly httpProxy?: string | undefined;
  /** Asked for each new connection; an error where none may be made. */
  readonly tls: () => MaybePromise<TlsMaterial | GatewayError>;
}

/** One connection to a node that serves one request at a time and is opened when it is first used. */
export interface Link {
  readonly dispatcher: Dispatcher;
  /** When the connection was last opened. */
  openedAt: Instant;
  /** Closes the connection, or what is on the way to become one, at once. */
  destroy(): void;
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

/** A new link. */
export function openLink(target: LinkTarget, clock: Clock): Link {
  return target.httpProxy === undefined ? openDirectLink(target, clock) : openProxiedLink(target, clock);
}

function openDirectLink(target: LinkTarget, clock: Clock): Link {
  let pending: Socket | undefined;
  let destroyed = false;
  const secure = target.origin.startsWith("https:");

  function connect(options: buildConnector.Options, callback: buildConnector.Callback): void {
    const material = secure ? target.tls() : {};
    if (material instanceof Promise) {
      void material.then((tls) => openSocket(options, tls, callback));
    } else {
      openSocket(options, material, callback);
    }
  }

  function openSocket(
    options: buildConnector.Options,
    tls: TlsMaterial | GatewayError,
    callback: buildConnector.Callback,
  ): void {
    if (tls instanceof GatewayError) return callback(tls, null);
    const socket = secure ? connectSecurely(options, tls) : connectPlainly(options);
    pending = socket;
    socket.setNoDelay(true);
    socket.setKeepAlive(true, 60_000);
    const cancelTimer = clock.after(target.connectTimeout, () => socket.destroy(new ConnectTimeout()));
    const settle = (error: Error | null) => {
      cancelTimer();
      socket.off("error", settle).off("close", onClose);
      pending = undefined;
      if (error === null) {
        link.openedAt = clock.now();
        callback(null, socket);
      } else {
        callback(error, null);
      }
    };
    const onClose = () => settle(new ConnectTimeout());
    socket.once(secure ? "secureConnect" : "connect", () => settle(null));
    socket.once("error", settle).once("close", onClose);
    if (destroyed) socket.destroy();
  }

  const dispatcher = new Client(target.origin, { ...CLIENT_OPTIONS, connect });
  const link: Link = {
    dispatcher,
    openedAt: clock.now(),
    destroy() {
      destroyed = true;
      pending?.destroy();
      void dispatcher.destroy();
    },
  };
  return link;
}

function connectPlainly({ hostname, port }: buildConnector.Options): Socket {
  return connectTcp({ host: hostname, port: Number(port || 80) });
}

function connectSecurely({ hostname, port, servername }: buildConnector.Options, tls: TlsMaterial): Socket {
  return connectTls({
    host: hostname,
    port: Number(port || 443),
    ...(servername ? { servername } : {}),
    ...tls,
    ALPNProtocols: ["http/1.1"],
    rejectUnauthorized: true,
    minVersion: "TLSv1.2",
  });
}

function openProxiedLink(target: LinkTarget, clock: Clock): Link {
  const material = target.tls();
  if (material instanceof GatewayError) return openNothing(target, clock, material);
  const uri = new URL(target.httpProxy!);
  const dispatcher = new ProxyAgent({
    ...CLIENT_OPTIONS,
    uri: uri.href,
    connections: 1,
    connectTimeout: target.connectTimeout,
    requestTls: { ...(material instanceof Promise ? {} : material), rejectUnauthorized: true },
    proxyTls: { rejectUnauthorized: true },
  });
  return { dispatcher, openedAt: clock.now(), destroy: () => void dispatcher.destroy() };
}

/** A link on which every request fails. */
function openNothing(target: LinkTarget, clock: Clock, error: GatewayError): Link {
  const dispatcher = new Client(target.origin, { connect: (_options, callback) => callback(error, null) });
  return { dispatcher, openedAt: clock.now(), destroy: () => void dispatcher.destroy() };
}
