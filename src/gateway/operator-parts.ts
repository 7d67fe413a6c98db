import type { FastifyInstance } from "fastify";
import { Discovery } from "../discovery/discovery.ts";
import { createDiscoveryObserver } from "../observe/discovery-observer.ts";
import { History } from "../observe/history.ts";
import { accessOf } from "../operations/access.ts";
import type { OperationsAccess } from "../operations/access.ts";
import type { AuditEntry } from "../operations/audit.ts";
import { HealthReport } from "../operations/conditions/health.ts";
import { createOperationsListener } from "../operations/listener.ts";
import { Readiness } from "../operations/readiness.ts";
import { ReplicaWatch } from "../operations/replicas.ts";
import { type Coordination, isRedisConnected } from "../sharing/coordination.ts";
import { BUILT_CONSOLE } from "../version.ts";
import type { PublicParts, ServerOptions } from "./public-parts.ts";
import type { Server } from "./server.ts";

/** What operators see and do, and what watches over the process for them. */
export interface OperatorParts {
  readonly listener: FastifyInstance;
  readonly discovery: Discovery;
  readonly history: History;
  readonly health: HealthReport;
  readonly access: OperationsAccess;
}

/** Builds what answers operators. */
export function createOperatorParts(
  options: ServerOptions,
  { server, inFlight }: Pick<PublicParts, "server" | "inFlight">,
): OperatorParts {
  const { config, version, files, log, clock, metrics, registry, coordination } = options;
  const discovery = createDiscovery(options, server);
  const readiness = new Readiness({
    clock,
    isDraining: () => inFlight.isDraining,
    upstreams: () => server.upstreams.status(),
    isRedisConnected: () => isRedisConnected(coordination.redisStatus()),
  });
  const history = new History(clock);
  const access = accessOf(config, { files, log, metrics });
  const replicas = new ReplicaWatch(coordination.coordinator.replicas, clock);
  const health = new HealthReport({
    clock,
    metrics,
    refresh: () => registry.refresh(),
    replicas,
    status: () => server.status(),
    discovery: () => discovery.report(),
    lastReload: () => options.lastReload?.(),
    operatorFaults: () => access.operators.faults,
  });
  const listener = createOperationsListener({
    clock,
    log,
    metrics,
    version,
    registry,
    readiness,
    explain: server.explain,
    clients: () => server.clients(),
    cache: (preview) => server.cache(preview),
    history: (since) => history.report(since),
    requests: (filter) => server.requests(filter),
    purge: (body) => server.purge(body),
    act: (request) => server.act(request),
    discovery,
    replicas,
    shared: coordination.coordinator,
    isWritten: (did) => isWritten(did, coordination, discovery),
    health: () => health.look(),
    status: () => server.status(),
    config: () => server.config,
    lastReload: options.lastReload,
    access,
    console: options.console ?? BUILT_CONSOLE,
  });
  return { listener, discovery, history, health, access };
}

function createDiscovery(
  { config, clock, files, random, metrics, log, coordination }: ServerOptions,
  server: Server,
): Discovery {
  return new Discovery(config, {
    clock,
    files,
    random,
    observer: createDiscoveryObserver(metrics, log, clock),
    shared: coordination.pins,
    written: () => server.config.upstreams,
    use: (found) => server.use(found),
  });
}

/** Whether what was done stands in Redis. */
function isWritten(did: AuditEntry["did"], coordination: Coordination, discovery: Discovery): boolean {
  const redis = coordination.redisStatus();
  if (!redis.configured || redis.state !== "up") return false;
  if (did === "discovery") return discovery.isShared();
  return (did === "purge" ? redis.pendingPurges : redis.pendingActions) === 0;
}
