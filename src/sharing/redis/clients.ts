import { isIP } from "node:net";
import type { ConnectionOptions } from "node:tls";
import { Cluster, Redis, type RedisOptions } from "ioredis";
import type { Duration } from "../../clock.ts";
import type { RedisConfig, TlsFiles } from "../../config/schema.ts";
import { SCRIPTS } from "./scripts.ts";

/** Time after which a handshake, or a write that nobody waits for, is given up. Those who wait have a deadline of their own. */
export const GIVE_UP_AFTER: Duration = 2_000;

export type Commands = Redis | Cluster;

/** Clients of one session, not connected yet. In a cluster both are the same one. */
export interface Clients {
  readonly commands: Commands;
  readonly subscriber: Commands;
}

/** Users and passwords, which may change while the gateway runs. */
export interface Login {
  readonly username?: string;
  readonly password?: string;
  readonly sentinelUsername?: string;
  readonly sentinelPassword?: string;
}

/** Reads the login of a configuration: from its keys, else from its URL (of a cluster from the first one). */
export function loginOf({ url, cluster, sentinel, username, password }: RedisConfig): Login {
  const inUrl = url ?? cluster?.[0];
  const { username: user = "", password: secret = "" } = inUrl === undefined ? {} : new URL(inUrl);
  const login = {
    username: username ?? decodeURIComponent(user),
    password: password ?? decodeURIComponent(secret),
    sentinelUsername: sentinel?.username ?? "",
    sentinelPassword: sentinel?.password ?? "",
  };
  return Object.fromEntries(Object.entries(login).filter(([, text]) => text !== ""));
}

/**
 * Makes the clients of a single server, a cluster, or the master that sentinels name. None of them reconnects: another session
 * follows, with the login of then.
 *
 * @param texts of the files that `tls` names, by path
 */
export function createClients(config: RedisConfig, login: Login, texts: ReadonlyMap<string, string>): Clients {
  const urls = (config.cluster ?? [config.url ?? ""]).filter((url) => url !== "").map((url) => new URL(url));
  const isSecure = config.tls !== undefined || urls.some(({ protocol }) => protocol === "rediss:");
  const tls = isSecure ? materialOf(config.tls ?? {}, texts) : undefined;
  const options = { ...COMMON, ...login, ...(tls !== undefined && { tls }) };
  if (config.cluster !== undefined) {
    const cluster = createCluster(urls, options);
    return { commands: cluster, subscriber: cluster };
  }
  const single = {
    ...options,
    ...(config.sentinel === undefined ? singleOptions(urls[0]!, tls) : sentinelOptions(config, tls)),
  };
  return {
    commands: new Redis({ ...single, scripts: SCRIPTS, enableAutoPipelining: true }),
    subscriber: new Redis(single),
  };
}

/** Ends a client. One that is connecting connects first: a TLS handshake that is cut off may emit an error to nobody. */
export function disconnect(client: Commands): void {
  if (client.status === "connecting") client.once("connect", () => client.disconnect());
  else client.disconnect();
}

/** Options of all clients. Their type is inferred: one of them forbids what the type of all options allows. */
const COMMON = {
  lazyConnect: true,
  connectionName: "registry-gateway",
  disableClientInfo: true,
  connectTimeout: GIVE_UP_AFTER,
  commandTimeout: GIVE_UP_AFTER,
  keepAlive: 10_000,
  enableOfflineQueue: false,
  // The first commands of a session say whether the server is ready.
  enableReadyCheck: false,
  maxRetriesPerRequest: 0,
  autoResubscribe: false,
  autoResendUnfulfilledCommands: false,
  retryStrategy: () => null,
} satisfies RedisOptions;

/** Servers behind a proxy that tells them apart by name are told it: Node does not do so by itself. */
function singleOptions(url: URL, tls: ConnectionOptions | undefined) {
  const place = placeOf(url);
  return { ...place, ...(tls !== undefined && isIP(place.host) === 0 && { tls: { ...tls, servername: place.host } }) };
}

function sentinelOptions({ sentinel }: RedisConfig, tls: ConnectionOptions | undefined) {
  return {
    name: sentinel!.name,
    sentinels: sentinel!.nodes.map((node) => placeOf(new URL(`redis://${node}`), 26_379)),
    sentinelCommandTimeout: GIVE_UP_AFTER,
    sentinelRetryStrategy: () => null,
    sentinelReconnectStrategy: () => GIVE_UP_AFTER,
    failoverDetector: true,
    // By it the client sees whether the server is (still) a master.
    enableReadyCheck: true,
    ...(tls !== undefined && { enableTLSForSentinelMode: true, sentinelTLS: tls }),
  } satisfies RedisOptions;
}

function createCluster(urls: readonly URL[], options: typeof COMMON & { tls?: ConnectionOptions }): Cluster {
  const { retryStrategy: _never, enableOfflineQueue: _none, ...redisOptions } = options;
  const startupNodes = urls.map((url) => ({ host: placeOf(url).host, port: placeOf(url).port }));
  return new Cluster(startupNodes, {
    lazyConnect: true,
    scripts: SCRIPTS,
    enableAutoPipelining: true,
    clusterRetryStrategy: () => null,
    slotsRefreshTimeout: GIVE_UP_AFTER,
    retryDelayOnFailover: 50,
    retryDelayOnClusterDown: 50,
    // A certificate names hosts, not the addresses behind them.
    ...(options.tls !== undefined && { dnsLookup: (host, done) => done(null, host) }),
    redisOptions,
  });
}

function placeOf({ hostname, port, pathname }: URL, usual = 6379): { host: string; port: number; db: number } {
  const host = hostname.startsWith("[") ? hostname.slice(1, -1) : hostname;
  return { host, port: Number(port || usual), db: Number(pathname.slice(1)) };
}

function materialOf({ caFile, certFile, keyFile }: TlsFiles, texts: ReadonlyMap<string, string>): ConnectionOptions {
  const files = { ca: caFile, cert: certFile, key: keyFile };
  const named = Object.entries(files).filter(([, file]) => file !== undefined);
  return Object.fromEntries(named.map(([name, file]) => [name, texts.get(file!)]));
}
