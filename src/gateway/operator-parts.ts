import type { FastifyInstance } from "fastify";
import { Discovery } from "../discovery/discovery.ts";
import { createDiscoveryObserver } from "../observe/discovery-observer.ts";
import { History } from "../observe/history.ts";
import { act } from "../operations/actions.ts";
import { accessOf } from "../operations/access.ts";
import type { OperationsAccess } from "../operations/access.ts";
import type { AuditEntry } from "../operations/audit.ts";
import { reportCache } from "../operations/cache-report.ts";
import { reportClients } from "../operations/clients-report.ts";
import { HealthReport } from "../operations/conditions/health.ts";
import { createExplain } from "../operations/explain.ts";
import { createOperationsListener, type OperationsOptions } from "../operations/listener.ts";
import { purge } from "../operations/purge.ts";
import { Readiness } from "../operations/readiness.ts";
import { ReplicaWatch } from "../operations/replicas.ts";
import { type ProcessStatus, statusOf } from "../operations/status.ts";
import { type Coordination, isRedisConnected } from "../sharing/coordination.ts";
import { BUILT_CONSOLE } from "../version.ts";
import type { PublicParts, ServerOptions } from "./public-parts.ts";
import type { Snapshots } from "./snapshots.ts";

/** What operators see and do, and what watches over the process for them. */
export interface OperatorParts {
  readonly listener: FastifyInstance;
  readonly discovery: Discovery;
  readonly history: History;
  readonly health: HealthReport;
  readonly access: OperationsAccess;
}

/** What operators look into and change: of what answers clients. */
type Operated = Pick<PublicParts, "snapshots" | "services" | "memory" | "certificates" | "inFlight">;

/** Builds what answers operators. */
export function createOperatorParts(options: ServerOptions, open: Operated): OperatorParts {
  const { config, version, files, log, clock, metrics, registry, coordination } = options;
  const { snapshots, inFlight } = open;
  const discovery = createDiscovery(options, snapshots);
  const readiness = new Readiness({
    clock,
    isDraining: () => inFlight.isDraining,
    upstreams: () => snapshots.latest.upstreams.status(),
    isRedisConnected: () => isRedisConnected(coordination.redisStatus()),
  });
  const history = new History(clock);
  const access = accessOf(config, { files, log, metrics });
  const replicas = new ReplicaWatch(coordination.coordinator.replicas, clock);
  const answers = createAnswers(options, open);
  const health = new HealthReport({
    clock,
    metrics,
    refresh: () => registry.refresh(),
    replicas,
    status: answers.status,
    discovery: () => discovery.report(),
    lastReload: () => options.lastReload?.(),
    operatorFaults: () => access.operators.faults,
  });
  const listener = createOperationsListener({
    ...answers,
    clock,
    log,
    metrics,
    version,
    registry,
    readiness,
    history: (since) => history.report(since),
    discovery,
    replicas,
    shared: coordination.coordinator,
    isWritten: (did) => isWritten(did, coordination, discovery),
    health: () => health.look(),
    lastReload: options.lastReload,
    access,
    console: options.console ?? BUILT_CONSOLE,
  });
  return { listener, discovery, history, health, access };
}

/** What is asked and done about what answers clients, as it is at that moment. */
function createAnswers(
  { clock, coordination }: ServerOptions,
  { snapshots, services, memory, certificates }: Operated,
): { readonly status: () => ProcessStatus } & Pick<
  OperationsOptions,
  "config" | "explain" | "clients" | "requests" | "cache" | "purge" | "act"
> {
  const { actions, epochs } = coordination.coordinator;
  const { clients, recent } = services.observers;
  const upstreams = () => snapshots.latest.upstreams;
  const redis = () => coordination.redisStatus();
  return {
    status() {
      const { config } = snapshots.latest;
      return statusOf({
        memory,
        config,
        redis: redis(),
        actions,
        upstreams: upstreams(),
        clock,
        certificates: certificates(),
      });
    },
    config: () => snapshots.latest.config,
    explain: createExplain(services),
    clients: () => reportClients(snapshots.latest.clients, clients.uses(), clock),
    requests: (filter) => recent.latest(filter),
    cache(preview) {
      const behind = redis().configured ? "redis" : null;
      return reportCache({ memory, epochs, upstreams: upstreams(), clock, behind }, preview);
    },
    purge: (body) => purge({ epochs, upstreams: upstreams(), clock, hasRedis: redis().configured }, body),
    act: (request) => act({ actions, upstreams: upstreams(), clock }, request),
  };
}

function createDiscovery(
  { config, clock, files, random, metrics, log, coordination }: ServerOptions,
  snapshots: Snapshots,
): Discovery {
  return new Discovery(config, {
    clock,
    files,
    random,
    observer: createDiscoveryObserver(metrics, log, clock),
    shared: coordination.pins,
    written: () => snapshots.latest.config.upstreams,
    use: (found) => snapshots.use(found),
  });
}

/** Whether what was done stands in Redis. */
function isWritten(did: AuditEntry["did"], coordination: Coordination, discovery: Discovery): boolean {
  const redis = coordination.redisStatus();
  if (!redis.configured || redis.state !== "up") return false;
  if (did === "discovery") return discovery.isShared();
  return (did === "purge" ? redis.pendingPurges : redis.pendingActions) === 0;
}
