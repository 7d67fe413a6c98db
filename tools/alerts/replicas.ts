import { BOUNDS } from "../../src/operations/conditions/condition.ts";
import type { REPLICA_CONDITIONS } from "../../src/operations/conditions/replicas.ts";
import { aggregate, ratio, sum } from "../promql.ts";
import { BUSY, INSTANCE, JOB, q, REPLICAS, REPLICAS_BEFORE, REPLICAS_OF_ALL_JOBS, TARGETS_DOWN } from "../recording.ts";
import { above0, type AlertsOf, atLeast } from "./alert.ts";

/** Of replicas, and what they share. */
export const REPLICA_ALERTS: AlertsOf<typeof REPLICA_CONDITIONS> = {
  RegistryGatewayAbsent: {
    conditions: [{ value: REPLICAS_OF_ALL_JOBS, is: "==", bound: 0 }],
    summary: "{{ $labels.job }}: no gateway is scraped",
    runbook: {
      means: "Either nothing runs, or Prometheus cannot reach the operations listener.",
      look: "Prometheus: Status, Targets. Then GET /livez and /readyz on the operations listener.",
      act: "Exit code 78: the configuration is bad; registry-gateway check --config FILE says where. Scrape refused: operations.host is loopback by default; let the network policy pass Prometheus. A job taken away on purpose: it ends by itself after an hour.",
    },
  },
  RegistryGatewayReplicaGone: {
    conditions: above0(`(${REPLICAS_BEFORE} - ${REPLICAS} + (${TARGETS_DOWN} or 0 * ${REPLICAS}))`),
    summary: "{{ $labels.job }}: a replica that was there is gone, or does not answer Prometheus",
    runbook: {
      means: "The other replicas answer its clients. With fewer of them an outage is nearer, and each has more to do.",
      look: "registry-gateway status names it where there is Redis. Prometheus: Status, Targets. The orchestrator's events of the replica; its last log lines and exit code.",
      act: "Exit code 78: the configuration is bad. Taken away on purpose, as by an autoscaler, which Prometheus cannot tell: it ends by itself half an hour after the replica is none of Prometheus's targets any more; status names only one that did not say that it stops.",
    },
  },
  RegistryGatewayRedisRefusesWrites: {
    conditions: [
      {
        value: ratio(INSTANCE, q.rate("redisCommands", { outcome: "error" }), q.rate("redisCommands")),
        is: ">",
        bound: BOUNDS.redisRefuses.share,
      },
      atLeast(BOUNDS.redisRefuses.least, sum(INSTANCE, q.over("10m").increase("redisCommands", { outcome: "error" }))),
    ],
    summary: "{{ $labels.instance }}: Redis refuses {{ $value | humanizePercentage }} of the commands",
    runbook: {
      means:
        "Redis answers and refuses: it is full (maxmemory with noeviction), a read-only replica, or its ACL forbids it. Each replica fetches for itself, for nothing is written; purges wait.",
      look: "Overview: Commands by outcome, Writes dropped. Redis: INFO memory, INFO replication, ACL LOG.",
      act: "Full: maxmemory-policy volatile-lru or more memory. Read-only: point redis.url at the primary. ACL: docs/operations/maintenance.md has the rights that are needed.",
    },
  },
  RegistryGatewayOperationsTokenUnusable: {
    conditions: above0(aggregate("max", INSTANCE, q.over("5m").highest("operationsTokenUnusable"))),
    summary: "{{ $labels.instance }}: the file of an operations token cannot be read, or is no good",
    runbook: {
      means: "Operators go on with the last good token. At its next start this replica will not come up.",
      look: 'The log: "operations token cannot be used" says whose and why.',
      act: "Look at the file's path, rights and contents: one line of ASCII. It is read again within seconds.",
    },
  },
  RegistryGatewayRedisAway: {
    conditions: above0(
      `${aggregate("max", INSTANCE, q.series("redisConfigured"))} - ${aggregate("min", INSTANCE, q.series("redisUp"))}`,
    ),
    summary: "{{ $labels.instance }} works without Redis",
    runbook: {
      means:
        "Clients notice little: each replica fetches for itself, purges reach one replica only and are written down for later, and each replica keeps to its share of the rate limits.",
      look: 'The log: "Redis state changed". GET /status: redis. Overview: Commands by outcome.',
      act: "Bring Redis back; replicas find it within seconds. A purge that must hold now: send it to every replica.",
    },
  },
  RegistryGatewayClocksApart: {
    conditions: [
      {
        value: aggregate("max", INSTANCE, `abs(${q.series("redisClockOffset")})`),
        is: ">",
        bound: BOUNDS.clocksApart.milliseconds / 1_000,
      },
    ],
    summary: "{{ $labels.instance }}: its clock and Redis's are {{ $value | humanizeDuration }} apart",
    runbook: {
      means:
        "Ages and lifetimes of shared entries are wrong by as much: entries are taken for older or younger than they are, and soft purges count from another time.",
      look: "Overview: Clock ahead of Redis's, by instance. One replica: its machine is wrong. All of them alike: Redis's machine is.",
      act: "Have the machine's time set by NTP: timedatectl or chronyc tracking says whether it is.",
    },
  },
  RegistryGatewayReplicasDiffer: {
    conditions: above0(aggregate("max", JOB, q.series("replicasDiffering"))),
    summary: "{{ $labels.job }}: replicas differ in {{ $value }} things that they should have in common",
    runbook: {
      means:
        "A client gets another answer, or a slower one, by which replica it meets: one has an earlier configuration or build, other keys of clients, has not taken an operator's action, or does not reach a node that the others reach.",
      look: "registry-gateway replicas, or the console's head: which replica differs, and in what.",
      act: "An upgrade or a change of the configuration that is under way ends it. Else: the replica's log says why it refused the file or the keys; of a node, look at the network between that replica and it.",
    },
  },
  RegistryGatewaySealsBroken: {
    conditions: [
      {
        value: aggregate("sum", ["job", "value"], q.increase("redisRejectedValues", { reason: "seal" })),
        is: ">",
        bound: BOUNDS.sealsBroken.count,
      },
    ],
    summary: "Values in Redis ({{ $labels.value }}) do not open with redis.sealKeyFile",
    runbook: {
      means:
        "Another party writes to Redis, or replicas have different seal keys. Values that do not open are not used: clients get right answers, and more of them from the registries.",
      look: "Overview: Values rejected, by value and reason. The key files of all replicas: sha256sum says whether they are the same. Redis: CLIENT LIST, ACL LOG.",
      act: "A change of the key that is under way: follow docs/operations/sealing.md, and it ends by itself. Else take the right to write to Redis from all but the gateways, and give them a new key.",
    },
  },
  RegistryGatewayOverloaded: {
    conditions: above0(aggregate("max", INSTANCE, q.series("shedding"))),
    summary: "{{ $labels.instance }} has more to do than it can: misses and calls are refused",
    runbook: {
      means: "The event loop is so late that only memory hits are answered; everything else gets 503 with Retry-After.",
      look: "Overview: Event loop delay, Event loop utilization, Requests shed, Requests by endpoint.",
      act: "As RegistryGatewayEventLoopBusy, now.",
    },
  },
  RegistryGatewayEventLoopBusy: {
    conditions: [{ value: BUSY, is: ">", bound: BOUNDS.eventLoopBusy.share }],
    summary: "{{ $labels.instance }}: the event loop is busy {{ $value | humanizePercentage }} of the time",
    runbook: {
      means: "The replica is at its limit: requests wait for each other and latencies grow.",
      look: "Overview: Event loop delay, CPU, Requests by endpoint.",
      act: "More replicas: on the same machine where cores are idle (listen.reusePort). If requests did not grow: large bodies or many misses; look at Answers by outcome.",
    },
  },
  RegistryGatewayReloadFailed: {
    conditions: [{ value: aggregate("min", INSTANCE, q.series("lastReloadGood")), is: "==", bound: 0 }],
    summary: "{{ $labels.instance }} refused the configuration file and goes on with the earlier one",
    runbook: {
      means: "Clients notice nothing, but at its next start this replica will not come up.",
      look: 'The log: "configuration refused: the one in use stays" lists every problem with line and key.',
      act: "registry-gateway check --config FILE, correct it, reload.",
    },
  },
  RegistryGatewayLogLinesDropped: {
    conditions: above0(sum(INSTANCE, q.over("15m").increase("logLinesDropped"))),
    summary: "{{ $labels.instance }} cannot write its log and drops lines",
    runbook: {
      means: "Clients notice nothing. Lines are lost: the disk of the log is full, or standard output is not read.",
      look: "One line on standard error each minute says why: ENOSPC, EPIPE, or that it is not read.",
      act: "Make room, or start what collects the log again. The gateway goes on by itself, with the lines that it kept.",
    },
  },
  RegistryGatewayClientKeysUnusable: {
    conditions: above0(aggregate("max", [...JOB, "source"], q.over("5m").highest("clientKeysUnusable"))),
    summary: "the keys of clients ({{ $labels.source }}) cannot be read, or are no good",
    runbook: {
      means:
        "The last good keys stay in use: clients that were added since are refused, and clients that were removed are still served. With a bad keys file a replica does not come up at its next start.",
      look: 'The log: "client keys cannot be used" says why, with the line of the file.',
      act: "registry-gateway clients check FILE names every mistake of a keys file. For an issuer: look whether its JWKS can be fetched from the gateway's machine. Either is read again within seconds.",
    },
  },
  RegistryGatewayListenerCertificateUnusable: {
    conditions: above0(aggregate("max", JOB, q.over("5m").highest("listenerTlsUnusable"))),
    summary: "A file of listen.tls cannot be read or is no good",
    runbook: {
      means:
        "Clients notice nothing while the last good certificate lasts. At its next start a replica will not come up.",
      look: 'The log: "listener certificate cannot be used" says why.',
      act: "Look at path, rights and contents of certFile, keyFile and clientCaFile; the key has to be the certificate's. registry-gateway check finds the same. They are read again within seconds.",
    },
  },
};
