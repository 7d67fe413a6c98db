import { ClusterMember } from "../coordinator/cluster-member.ts";
import { Peer, type Port } from "../coordinator/cluster-peer.ts";
import type { CancelTimer, Clock, Duration } from "../clock.ts";
import type { Config } from "../config/schema.ts";
import type { Logger } from "../log.ts";
import { createMetrics, type Metrics } from "../metrics.ts";
import type { LiveRegistry } from "../metrics/live-registry.ts";
import type { Serving } from "./serving.ts";
import { ShelfStore } from "./shelf-store.ts";
import type { Sharing } from "./sharing.ts";
import { BEAT_EVERY } from "./worker-process.ts";
import type { Boot, PrimaryTopics, WorkerState, WorkerTopics } from "./worker-topics.ts";

/** One that is told to begin later than this was not needed at once: a spare one. */
const IDLE_AFTER: Duration = 500;

/** What it has to say before it ends is heard at once, or never. */
const FAREWELL_TIMEOUT: Duration = 1_000;

export interface WorkerOptions {
  readonly port: Port;
  readonly clock: Clock;
  readonly createLogger: (config: Config, worker: number) => Logger;
  /** Builds what answers clients. `shared`: what the workers of this machine share, where there is no Redis. */
  readonly createServing: (parts: WorkerParts) => Promise<Serving>;
  /** Called when it has waited for a while to be told to begin: a spare one has time for what would hold up clients. */
  readonly whenIdle: () => void;
  /** Ends the process. */
  readonly exit: (how: "well" | "failed") => void;
}

export interface WorkerParts {
  readonly config: Config;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly registry: LiveRegistry;
  /** What the workers of this machine share among themselves. */
  readonly shareByCluster: () => Promise<Sharing>;
}

type PrimaryPeer = Peer<WorkerTopics, PrimaryTopics>;

/** One of several processes that answer clients on one port. It does what its primary says, and ends with it. */
export async function runWorker(options: WorkerOptions): Promise<void> {
  const { port, clock, createLogger, exit } = options;
  const primary: PrimaryPeer = new Peer(port, clock);
  // Asked for before it is there: a reload may come while this worker begins.
  let resolveServing: (serving: Serving) => void = () => {};
  const ready = new Promise<Serving>((resolve) => {
    resolveServing = resolve;
  });
  const { metrics, registry } = createMetrics();
  primary.answer("reload", async (config) => {
    await (await ready).reload(config);
    return undefined;
  });
  primary.answer("metrics", () => registry.getMetricsAsJSON());
  primary.answer("purgeAll", async (body) => (await ready).purge(body));
  primary.answer("explain", async (path) => (await ready).explain(path));
  primary.answer("announceDrain", async () => {
    (await ready).announceDrain();
    return undefined;
  });
  primary.answer("drain", async () => {
    await (await ready).drain();
    exit("well");
    return undefined;
  });

  const { config, id } = await waitToBegin(primary, options);
  const log = createLogger(config, id);
  try {
    const serving = await options.createServing({
      config,
      log,
      metrics,
      registry,
      shareByCluster: async () => ({
        coordinator: await ClusterMember.join(primary, clock),
        store: new ShelfStore(primary, clock),
        redisStatus: () => ({ configured: false }),
        whenReady: () => Promise.resolve(),
      }),
    });
    resolveServing(serving);
    primary.tell("listening", await serving.start());
    beat(primary, clock, () => serving.status());
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    // Not before it is heard.
    await primary.ask("failed", why, FAREWELL_TIMEOUT).catch(() => undefined);
    exit("failed");
  }
}

/** Waits for as long as it takes: a spare one may never be needed. */
async function waitToBegin(primary: PrimaryPeer, { clock, whenIdle }: WorkerOptions): Promise<Boot> {
  const told = new Promise<Boot>((resolve) => {
    primary.answer("begin", (boot) => {
      resolve(boot);
      return undefined;
    });
  });
  primary.tell("loaded", undefined);
  const stop = beat(primary, clock, () => undefined);
  const cancelIdle = clock.after(IDLE_AFTER, whenIdle);
  const boot = await told;
  cancelIdle();
  stop();
  return boot;
}

/** @returns what ends it */
function beat(primary: PrimaryPeer, clock: Clock, state: () => WorkerState | undefined): () => void {
  let cancel: CancelTimer;
  const next = (): void => {
    primary.tell("beat", state());
    cancel = clock.after(BEAT_EVERY, next);
  };
  next();
  return () => cancel();
}
