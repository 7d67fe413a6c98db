import type { AddressInfo, Socket } from "node:net";
import type { FastifyInstance, FastifyListenOptions } from "fastify";
import type { DestinationStream } from "pino";
import { Cache } from "../cache/cache.ts";
import { type Clock, type Duration, settledWithin, systemClock } from "../clock.ts";
import type { LoadedConfig } from "../config/loaded.ts";
import { printable } from "../json.ts";
import { createLog, type Logger } from "../observe/log.ts";
import { Metrics } from "../observe/metrics.ts";
import { RecentRequests } from "../observe/recent-requests.ts";
import { RequestLog } from "../observe/request-log.ts";
import { readState, type ReloadState } from "../observe/state.ts";
import { createOperations } from "../operations/listener.ts";
import { Readiness } from "../operations/readiness.ts";
import { createApp } from "../requests/app.ts";
import { renewCertificate } from "../requests/server.ts";
import type { Snapshot } from "../requests/snapshot.ts";
import { createSharing } from "../sharing/sharing.ts";
import { consoleFolder, version } from "../version.ts";
import { drain } from "./drain.ts";
import { keepUntilRestart } from "./restart-keys.ts";
import { Snapshots } from "./snapshots.ts";

/** Each part that is left when the gateway stops may take this long to close. */
const CLOSE_TIMEOUT: Duration = 2_000;

interface GatewayOptions {
  readonly clock?: Clock;
  /** Stream of log lines, in place of standard output. */
  readonly logTo?: DestinationStream;
}

/** A gateway that listens. */
export interface Gateway {
  readonly url: string;
  readonly operationsUrl: string;
  readonly log: Logger;
  snapshot(): Snapshot;
  /** Puts a configuration to use, but for the keys that wait for the next start. */
  reload(loaded: LoadedConfig): void;
  /** Notes that a configuration was refused, and why: what runs stays. */
  reloadRefused(problem: string): void;
  /** Drains and closes everything; with `grace` it goes on accepting for `shutdown.grace` before. */
  stop(options: { readonly grace: boolean }): Promise<void>;
}

/** Builds a gateway from top to bottom and listens. @throws where a port cannot be had */
export async function createGateway(loaded: LoadedConfig, options: GatewayOptions = {}): Promise<Gateway> {
  const { clock = systemClock(), logTo } = options;
  const { config } = loaded;
  await using building = new AsyncDisposableStack();
  const close = (part: () => Promise<unknown>): void =>
    building.defer(async () => {
      await settledWithin(part(), CLOSE_TIMEOUT, clock);
    });

  const output = createLog(config.log, logTo, clock);
  const { log } = output;
  close(() => output.flush());
  const metrics = new Metrics();

  const sharing = createSharing(config.redis, loaded.texts, { clock, log, observer: metrics.sharing });
  close(() => sharing.close());
  const cache = new Cache({ memory: config.cache.memory, clock, sharing, observer: metrics.cache });

  const onWrongAdmin = (party: string): void => {
    log.warn({ party }, "what was stored of a registry is purged: calls went to another one in its place");
    void sharing.purges.purge(party).then((outcome) => metrics.purged(outcome));
  };
  const upstream = { clock, log, observer: metrics.upstream, sharing, onWrongAdmin };
  const snapshots = new Snapshots(loaded, { upstream, cache, clock, log });
  building.defer(() => snapshots.close());
  const snapshot = (): Snapshot => snapshots.latest;

  let reload: ReloadState = { takenAt: clock.wallNow() };
  let isDraining = false;
  const recent = new RecentRequests();
  const settings = (): LoadedConfig["config"]["log"] => snapshot().loaded.config.log;
  const requestLog = new RequestLog({ log, recent, settings, random: Math.random });

  const app = await createApp({
    loaded,
    snapshot,
    clock,
    onRequestEnd: (record) => {
      metrics.requestEnded(record);
      requestLog.ended(record);
    },
  });
  close(() => app.close());

  const readiness = new Readiness({ clock, upstreams: () => snapshot().upstreams, isDraining: () => isDraining });
  const sockets = socketsOf(app);
  const connections = (): number => sockets.size;
  const droppedLines = (): number => output.droppedLines();
  const sources = { snapshot, reload: () => reload, connections, droppedLines, sharing, cache, clock };
  const operations = await createOperations({
    snapshot,
    state: () => readState(sources),
    readiness,
    isDraining: () => isDraining,
    sharing,
    metrics,
    recent,
    log,
    clock,
    console: consoleFolder,
  });
  close(() => operations.close());

  snapshots.latest.upstreams.start();
  await operations.listen({ host: config.operations.host, port: config.operations.port });
  const { host, port, reusePort } = config.listen;
  // Fastify hands all of it to `server.listen`; its types have not heard of `reusePort` yet.
  const place: FastifyListenOptions & { readonly reusePort: boolean } = { host, port, reusePort };
  await app.listen(place);
  const addresses = { url: urlOf(app, config.listen.tls !== undefined), operationsUrl: urlOf(operations, false) };
  log.info({ ...addresses, version, digest: loaded.digest, upstreams: config.upstreams.length }, "listening");

  const parts = building.move();
  return {
    ...addresses,
    log,
    snapshot,
    reload(next) {
      const { loaded: taken, waiting } = keepUntilRestart(next, snapshot().loaded);
      snapshots.replace(taken);
      log.level = taken.config.log.level;
      cache.resize(taken.config.cache.memory);
      sharing.takeLogin(taken.config.redis);
      const stays = renewCertificate(app.server, taken, clock);
      if (stays !== undefined) log.warn({ cause: stays }, "listener certificate not taken");
      reload = { takenAt: clock.wallNow() };
      if (waiting.length > 0) log.warn({ keys: waiting }, "some keys take effect at the next start");
    },
    reloadRefused(problem) {
      reload = { ...reload, refused: { at: clock.wallNow(), problem: printable(problem) } };
    },
    async stop({ grace }) {
      const { shutdown } = snapshot().loaded.config;
      isDraining = true;
      await drain(app, sockets, { grace: grace ? shutdown.grace : 0, timeout: shutdown.timeout, clock });
      await parts.disposeAsync();
    },
  };
}

/** @returns the open connections of clients, as they come and go */
function socketsOf({ server }: FastifyInstance): ReadonlySet<Socket> {
  const open = new Set<Socket>();
  server.on("connection", (socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
  });
  return open;
}

function urlOf({ server }: FastifyInstance, isSecure: boolean): string {
  const { address, port, family } = server.address() as AddressInfo;
  const host = family === "IPv6" ? `[${address}]` : address;
  return `${isSecure ? "https" : "http"}://${host}:${port}`;
}
