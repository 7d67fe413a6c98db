import { sayDuration } from "../../words/quantity.ts";
import { because, BOUNDS, type Condition, ofAll } from "./condition.ts";

/** How a replica is, and what it shares with others; from the most to the least urgent. */
export const REPLICA_CONDITIONS = [
  {
    alert: "RegistryGatewayAbsent",
    severity: "page",
    subject: "replica",
    isCause: true,
    for: "5m",
    find: "outside",
  },
  {
    alert: "RegistryGatewayReplicaGone",
    severity: "warning",
    subject: "replica",
    isCause: true,
    for: "10m",
    find: ofAll(({ redis, replicasLost }) =>
      redis.configured && redis.state === "up"
        ? replicasLost.map((name) => `the replica ${name} is gone, and did not say that it stops`)
        : undefined,
    ),
  },
  {
    alert: "RegistryGatewayRedisRefusesWrites",
    severity: "warning",
    subject: "gateway",
    isCause: true,
    for: "2m",
    find: ofAll(({ redis, recent }) => {
      const [failed, all] = [recent.risen("redis refused"), recent.risen("redis commands")];
      if (!redis.configured || failed < BOUNDS.redisRefuses.least || failed / all <= BOUNDS.redisRefuses.share)
        return undefined;
      return `Redis refused ${failed} of ${all} commands${because(redis.lastError)}`;
    }),
  },
  {
    alert: "RegistryGatewayOperationsTokenUnusable",
    severity: "warning",
    subject: "replica",
    isCause: true,
    for: "0m",
    find: ofAll(({ operatorFaults }) =>
      [...operatorFaults].map(
        ([operator, fault]) => `the token of ${operator}${because(fault)}: the last good one stays`,
      ),
    ),
  },
  {
    alert: "RegistryGatewayRedisAway",
    severity: "warning",
    subject: "replica",
    isCause: true,
    for: "2m",
    find: ofAll(({ redis }) =>
      redis.configured && redis.state === "away"
        ? `Redis is away, this replica goes on by itself${because(redis.lastError)}`
        : undefined,
    ),
  },
  {
    alert: "RegistryGatewayClocksApart",
    severity: "warning",
    subject: "replica",
    isCause: true,
    for: "5m",
    find: ofAll(({ redis }) => {
      const ahead = (redis.configured ? redis.clockAheadMs : undefined) ?? 0;
      if (Math.abs(ahead) <= BOUNDS.clocksApart.milliseconds) return undefined;
      return `the clock of this replica is ${sayDuration(ahead)} ${ahead > 0 ? "ahead of" : "behind"} Redis's`;
    }),
  },
  {
    alert: "RegistryGatewayReplicasDiffer",
    severity: "warning",
    subject: "replica",
    isCause: false,
    for: "5m",
    find: ofAll(({ replicaDifferences }) => replicaDifferences),
  },
  {
    alert: "RegistryGatewaySealsBroken",
    severity: "warning",
    subject: "gateway",
    isCause: true,
    for: "1m",
    find: ofAll(({ recent }) => {
      const broken = recent.risen("seals broken");
      if (broken <= BOUNDS.sealsBroken.count) return undefined;
      return `${broken} values in Redis do not open with redis.sealKeyFile`;
    }),
  },
  {
    alert: "RegistryGatewayOverloaded",
    severity: "warning",
    subject: "replica",
    isCause: true,
    for: "1m",
    find: ofAll(({ gauges }) =>
      gauges.shedding.length > 0 ? "there is more to do than it can: misses and calls are refused" : undefined,
    ),
  },
  {
    alert: "RegistryGatewayEventLoopBusy",
    severity: "warning",
    subject: "replica",
    isCause: false,
    for: "5m",
    find: ofAll(({ recent }) => {
      const [active, idle] = [recent.risen("loop active"), recent.risen("loop idle")];
      const share = active / (active + idle);
      if (!(share > BOUNDS.eventLoopBusy.share)) return undefined;
      return `the event loop was busy ${Math.round(100 * share)} % of the time`;
    }),
  },
  {
    alert: "RegistryGatewayReloadFailed",
    severity: "warning",
    subject: "replica",
    isCause: true,
    for: "0m",
    find: ofAll(({ lastReload }) =>
      lastReload?.result === "refused"
        ? `the configuration file was refused, the earlier one is in use${because(lastReload.problems[0]?.message)}`
        : undefined,
    ),
  },
  {
    alert: "RegistryGatewayLogLinesDropped",
    severity: "warning",
    subject: "replica",
    isCause: true,
    for: "0m",
    find: ofAll(({ recent }) => {
      const dropped = recent.risen("log lines dropped");
      return dropped > 0 ? `standard output did not take ${dropped} log lines, which are lost` : undefined;
    }),
  },
  {
    alert: "RegistryGatewayClientKeysUnusable",
    severity: "warning",
    subject: "replica",
    isCause: true,
    for: "0m",
    find: ofAll(({ gauges }) =>
      gauges.clientKeysUnusable.map(
        ({ source }) => `the keys of clients (${source}) cannot be read, or are no good: the last good ones stay`,
      ),
    ),
  },
  {
    alert: "RegistryGatewayListenerCertificateUnusable",
    severity: "warning",
    subject: "replica",
    isCause: true,
    for: "0m",
    find: ofAll(({ gauges }) =>
      gauges.listenerTlsUnusable.length > 0
        ? "a file of listen.tls cannot be read or is no good: the last good ones stay"
        : undefined,
    ),
  },
] as const satisfies readonly Condition[];
