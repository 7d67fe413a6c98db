import { connect as connectTcp, type NetConnectOpts, type Socket } from "node:net";
import { connect as connectTls, type ConnectionOptions } from "node:tls";
import { AbstractConnector, type RedisOptions, SentinelConnector } from "ioredis";
import { lookUp } from "../../host-names.ts";

/** Is notified of each socket to Redis as it is made. */
export type OnSocket = (socket: Socket) => void;

type Connector = NonNullable<RedisOptions["Connector"]>;

/** Where to connect to; each time anew. */
type Target = Pick<RedisOptions, "host" | "port" | "family" | "path" | "tls">;

/** How long the other side may take to end a connection that the client ends (as ioredis has it). */
const DISCONNECT_TIMEOUT = 2_000;

/**
 * Connects as the client does by itself, but looks names up as all of this process does, and says which sockets it made.
 *
 * @param targetOf what to connect to, where it is not what the client's options say
 */
export function connectorTelling(onSocket?: OnSocket, targetOf: (options: Target) => Target = (options) => options) {
  return class extends AbstractConnector {
    private readonly options: Target;

    constructor(options: unknown) {
      super(DISCONNECT_TIMEOUT);
      this.options = options as Target;
    }

    override connect(): Promise<Socket> {
      this.connecting = true;
      const { host, port, family, path, tls } = targetOf(this.options);
      const place = path === undefined || path === null ? { host, port, family, lookup: lookUp } : { path };
      const socket =
        tls === undefined ? connectTcp(place as NetConnectOpts) : connectTls({ ...place, ...tls } as ConnectionOptions);
      socket.once("error", (error: Error) => (this.firstError = error));
      this.stream = socket;
      onSocket?.(socket);
      return Promise.resolve(socket);
    }
  } satisfies Connector;
}

/** The same for the master that sentinels name. */
export function sentinelConnectorTelling(onSocket: OnSocket): Connector {
  class Telling extends SentinelConnector {
    override async connect(emit: Parameters<SentinelConnector["connect"]>[0]) {
      const socket = await super.connect(emit);
      onSocket(socket);
      return socket;
    }
  }
  return Telling as Connector;
}
