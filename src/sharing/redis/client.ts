import { Cluster, Redis, type RedisOptions } from "ioredis";
import type { Clock } from "../../clock.ts";
import type { RedisConfig } from "../../config/schema.ts";
import { readSecret } from "../../config/secret.ts";
import { readTls } from "../../config/certificates.ts";
import { lookUp } from "../../host-names.ts";
import { connectorTelling, type OnSocket, sentinelConnectorTelling } from "./connector.ts";

export type RedisClient = Redis | Cluster;

/** A connection whose handshake or command takes longer is given up; it lies far above every wait of a request. */
const GIVE_UP_AFTER = 2_000;

/** A server that was restarted is found again this soon. */
const MAX_RECONNECT_DELAY = 500;

/** At most one reconnection in this time because a server turned read-only: the name may lead to a new master. */
const READ_ONLY_RECONNECT_INTERVAL = 5_000;

/**
 * A client for a single server, a cluster, or the master that sentinels name. It fails fast: nothing waits for a
 * connection, nothing is sent twice. Not connected until `connect`.
 * @throws when a file of the configuration cannot be read.
 */
export function createClient(config: RedisConfig, clock: Clock): RedisClient {
  if (config.cluster === undefined) return createServerClient(config, clock);
  return createClusterClient(config.cluster.nodes, { ...commonOptions(config, clock), ...loginOf(config) });
}

/**
 * A client for messages alone. In a cluster each node passes them on to all others: it is one of those that are configured,
 * another one after each failure.
 */
export function createSubscriber(config: RedisConfig, clock: Clock, onSocket: OnSocket): Redis {
  if (config.cluster === undefined) return createServerClient(config, clock, onSocket);
  const nodes = config.cluster.nodes.map((node) => new URL(node));
  const { tls, ...options } = clusterNodeOptions(nodes, { ...commonOptions(config, clock), ...loginOf(config) });
  let next = Math.floor(Math.random() * nodes.length);
  const Connector = connectorTelling(onSocket, () => {
    const { host, port } = placeOf(nodes[next++ % nodes.length]!);
    return { host, port, ...(tls !== undefined && { tls }) };
  });
  // What says that the connection is there is another event with TLS.
  const { host, port } = placeOf(nodes[0]!);
  return new Redis({
    ...options,
    ...(tls !== undefined && { tls }),
    host,
    port,
    enableOfflineQueue: false,
    retryStrategy: reconnectDelay,
    Connector,
  });
}

function createServerClient(config: RedisConfig, clock: Clock, onSocket?: OnSocket): Redis {
  const common = commonOptions(config, clock);
  const login = loginOf(config);
  const options = { ...common, enableOfflineQueue: false, retryStrategy: reconnectDelay };
  if (config.sentinel !== undefined) {
    const { username, password } = loginOf(config.sentinel.sentinelAuth ?? {});
    return new Redis({
      ...options,
      ...login,
      ...(username !== undefined && { sentinelUsername: username }),
      ...(password !== undefined && { sentinelPassword: password }),
      ...(onSocket !== undefined && { Connector: sentinelConnectorTelling(onSocket) }),
      name: config.sentinel.name,
      sentinels: config.sentinel.nodes.map(parseHostPort),
      sentinelCommandTimeout: GIVE_UP_AFTER,
      sentinelRetryStrategy: reconnectDelay,
      sentinelReconnectStrategy: () => GIVE_UP_AFTER,
      failoverDetector: true,
      ...(options.tls !== undefined && { enableTLSForSentinelMode: true, sentinelTLS: options.tls }),
    });
  }
  const url = config.urlFile === undefined ? config.url! : readSecret(config.urlFile);
  return new Redis(url, { ...options, ...login, Connector: connectorTelling(onSocket) });
}

/** What all connections have, those to the nodes of a cluster included. */
function commonOptions(config: RedisConfig, clock: Clock) {
  const tls = tlsOptions(config);
  let reconnectedAt = -Infinity;
  return {
    lazyConnect: true,
    connectionName: "registry-gateway",
    autoResubscribe: false,
    autoResendUnfulfilledCommands: false,
    // 0 rejects what is under way as soon as the connection is lost; another value keeps it waiting.
    maxRetriesPerRequest: 0,
    connectTimeout: GIVE_UP_AFTER,
    // Notices a connection that swallows everything: without it such a one is kept until the kernel gives up. Commands
    // need no timer of their own: they are answered in order, or fail with their connection.
    socketTimeout: GIVE_UP_AFTER,
    keepAlive: 10_000,
    reconnectOnError: (error: Error) => {
      if (!error.message.startsWith("READONLY")) return false;
      if (clock.now() - reconnectedAt < READ_ONLY_RECONNECT_INTERVAL) return false;
      reconnectedAt = clock.now();
      return true;
    },
    ...(tls !== undefined && { tls }),
  } satisfies RedisOptions;
}

/** For each node: those of the first URL hold for all. */
function clusterNodeOptions(nodes: readonly URL[], options: ReturnType<typeof commonOptions> & Login) {
  const { username, password } = nodes[0]!;
  // For nodes that the cluster announces as well: no login leaves without TLS where one URL asks for it.
  const tls = options.tls ?? (nodes.some(({ protocol }) => protocol === "rediss:") ? {} : undefined);
  return {
    ...options,
    ...(tls !== undefined && { tls }),
    ...(username !== "" && { username: decodeURIComponent(username) }),
    ...(password !== "" && { password: decodeURIComponent(password) }),
  };
}

function placeOf(url: URL): { host: string; port: number } {
  return { host: hostOf(url), port: Number(url.port || 6379) };
}

function createClusterClient(urls: readonly string[], options: ReturnType<typeof commonOptions> & Login): Cluster {
  const nodes = urls.map((url) => new URL(url));
  const redisOptions = clusterNodeOptions(nodes, options);
  const { tls } = redisOptions;
  const cluster = new Cluster(nodes.map(placeOf), {
    lazyConnect: true,
    // Off, what is sent to a node while its connection is being made would be tried again only after a pause.
    enableOfflineQueue: true,
    clusterRetryStrategy: reconnectDelay,
    retryDelayOnFailover: 50,
    retryDelayOnClusterDown: 50,
    slotsRefreshTimeout: GIVE_UP_AFTER,
    // Moves and failovers are also noticed when no command runs into them.
    slotsRefreshInterval: 5_000,
    // A certificate names hosts, not the addresses behind them.
    dnsLookup:
      tls === undefined
        ? (host, done) => lookUp(host, {}, (error, address) => done(error, address as string))
        : (host, done) => done(null, host),
    // Where they may wait in a queue.
    redisOptions: {
      ...redisOptions,
      commandTimeout: GIVE_UP_AFTER,
      Connector: connectorTelling(),
    },
  });
  cluster.on("+node", (node: Redis) => {
    watchAsking(node);
    // Else the first request to each node would wait for its connection.
    if (node.status === "wait") node.connect().catch(() => {});
  });
  return cluster;
}

/**
 * The client sends ASKING ahead of a command that is redirected, and drops its promise: a rejection would end the
 * process. The command itself says what went wrong.
 */
function watchAsking(node: Redis): void {
  const asking = node.asking.bind(node);
  node.asking = () => {
    const sent = asking();
    sent.catch(() => {});
    return sent;
  };
}

type Login = Pick<RedisOptions, "username" | "password">;

function loginOf({ username, password, passwordFile }: Login & { readonly passwordFile?: string }): Login {
  const secret = passwordFile === undefined ? password : readSecret(passwordFile);
  return { ...(username !== undefined && { username }), ...(secret !== undefined && { password: secret }) };
}

function tlsOptions(config: RedisConfig): RedisOptions["tls"] {
  const tls = config.tls;
  if (tls === undefined) return undefined;
  return {
    ...readTls(tls),
    ...(tls.servername !== undefined && { servername: tls.servername }),
  };
}

function parseHostPort(node: string): { host: string; port: number } {
  const url = new URL(`redis://${node}`);
  return { host: hostOf(url), port: Number(url.port || 26_379) };
}

function hostOf(url: URL): string {
  return url.hostname.replace(/^\[(.*)\]$/, "$1");
}

function reconnectDelay(attempt: number): number {
  return Math.min(25 * 2 ** Math.min(attempt, 10), MAX_RECONNECT_DELAY);
}

/** Why Redis cannot be used, for people. */
export interface RedisFault {
  /** The rest of a sentence that begins with "Redis"; holds no secret and, but for a library's own text, no address. */
  readonly text: string;
  /** It does not go away by itself: the configuration or the server has to change. */
  readonly isPermanent: boolean;
}

const PERMANENT: readonly (readonly [RegExp, string])[] = [
  [/WRONGPASS|invalid password|invalid username-password/i, "refuses the login: user or password is wrong"],
  [/NOAUTH|Authentication required/i, "wants a login and none is configured"],
  [/NOPERM/, "does not let this user do what is needed (NOPERM)"],
  [/No such master/i, "has sentinels that know no master of this name: look at redis.sentinel.name"],
  [/ENOTFOUND|EAI_/, "has a name that does not resolve"],
  [/ERR_TLS_CERT_ALTNAME_INVALID|does not match certificate's altnames/, "shows the certificate of another name"],
  [
    /SELF_SIGNED|UNABLE_TO_|DEPTH_ZERO_|CERT_|self-signed|unable to (get|verify)|certificate (has expired|is not yet valid)/,
    "shows a certificate that is not trusted: look at redis.tls.caFile",
  ],
  [/cluster support disabled/i, "is no cluster: use redis.url"],
  [/ERR_SSL_|EPROTO|wrong version number|packet length too long/, "does not speak TLS there, or not as configured"],
];

const TRANSIENT: readonly (readonly [RegExp, string])[] = [
  [/ECONNREFUSED/, "refuses the connection"],
  [
    /ECONNRESET|Connection is closed|connection closed/i,
    "breaks off the connection; where it wants TLS, use rediss://",
  ],
  [/ETIMEDOUT|timed? ?out/i, "does not answer in time"],
];

/** What an error of the client means. It is read from the text, because the client wraps errors of nodes and sentinels. */
export function readFault(error: unknown): RedisFault {
  const text = textOf(error);
  const find = (table: typeof PERMANENT) => table.find(([pattern]) => pattern.test(text))?.[1];
  const permanent = find(PERMANENT);
  return { text: permanent ?? find(TRANSIENT) ?? `cannot be used: ${text}`, isPermanent: permanent !== undefined };
}

/** The client says of a cluster only that all nodes failed; why, says the last of them. */
function textOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code, lastNodeError } = error as NodeJS.ErrnoException & { lastNodeError?: unknown };
  return lastNodeError === undefined ? `${code ?? ""} ${error.message}`.trim() : textOf(lastNodeError);
}
