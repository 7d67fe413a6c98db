import type { Clock, Duration } from "../clock.ts";
import type { Config } from "../config/schema.ts";
import { coordinateWithoutRedis, type Coordination } from "../coordination/coordination.ts";
import type { Logger } from "../observe/log.ts";
import { createMetrics, type Metrics } from "../observe/metrics.ts";
import type { LiveRegistry } from "../observe/metrics/bound.ts";
import type { Server } from "../server.ts";
import type { PrimaryTopics, WorkerState, WorkerTopics } from "./protocol.ts";
import { type Channel, Peer } from "./rpc.ts";
import { SharedEntryStore } from "./shared-entries.ts";
import { WorkerCoordinator } from "./worker-coordinator.ts";
import { BEAT_EVERY } from "./worker-process.ts";

/** A primary that does not say what to begin with within this time is gone, or will be. */
const BEGIN_TIMEOUT: Duration = 10_000;

/** What it has to say before it ends is heard at once, or never. */
const FAREWELL_TIMEOUT: Duration = 1_000;

export interface WorkerOptions {
  readonly channel: Channel;
  readonly clock: Clock;
  readonly createLogger: (config: Config, worker: number) => Logger;
  /** Builds what answers clients. `shared`: what the workers of this machine share, where there is no Redis. */
  readonly createServer: (parts: WorkerParts) => Promise<Server>;
  /** Ends the process. */
  readonly exit: (how: "well" | "failed") => void;
}

export interface WorkerParts {
  readonly config: Config;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly registry: LiveRegistry;
  /** What the workers of this machine share among themselves. */
  readonly shareByPrimary: () => Promise<Coordination>;
}

type PrimaryPeer = Peer<WorkerTopics, PrimaryTopics>;

/** One of several processes that answer clients on one port. It does what its primary says, and ends with it. */
export async function runWorker(options: WorkerOptions): Promise<void> {
  const { channel, clock, createLogger, exit } = options;
  const primary: PrimaryPeer = new Peer(channel, clock);
  // Asked for before it is there: a reload may come while this worker begins.
  const { promise: ready, resolve: resolveServer } = Promise.withResolvers<Server>();
  const { metrics, registry } = createMetrics();
  primary.answer("reload", async (next) => {
    await (await ready).reload(next.config, next.found);
    return undefined;
  });
  primary.answer("metrics", () => registry.getMetricsAsJSON());
  primary.answer("cache", async (preview) => (await ready).cache(preview));
  primary.answer("sample", async () => (await ready).sample());
  primary.answer("operatorPurge", async (body) => (await ready).purge(body));
  primary.answer("operatorAct", async (request) => (await ready).act(request));
  primary.answer("explain", async (path) => (await ready).explain(path));
  primary.answer("requests", async (filter) => (await ready).requests(filter));
  primary.answer("clients", async () => (await ready).clients());
  primary.answer("announceDrain", async () => {
    (await ready).announceDrain();
    return undefined;
  });
  primary.answer("drain", async () => {
    await (await ready).drain();
    exit("well");
    return undefined;
  });

  const { config, found, id } = await primary.ask("begin", undefined, BEGIN_TIMEOUT);
  const log = createLogger(config, id);
  try {
    const server = await options.createServer({
      config,
      log,
      metrics,
      registry,
      shareByPrimary: async () =>
        coordinateWithoutRedis(await WorkerCoordinator.join(primary, clock), new SharedEntryStore(primary, clock)),
    });
    await server.use(found);
    resolveServer(server);
    primary.tell("listening", await server.start());
    beat(primary, clock, () => server.status());
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    // Not before it is heard.
    await primary.ask("failed", why, FAREWELL_TIMEOUT).catch(() => undefined);
    exit("failed");
  }
}

/** For as long as the process lives. */
function beat(primary: PrimaryPeer, clock: Clock, state: () => WorkerState): void {
  primary.tell("beat", state());
  clock.after(BEAT_EVERY, () => beat(primary, clock, state));
}
