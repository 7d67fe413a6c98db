import { CERTIFICATE_ROLES } from "../../config/certificates.ts";
import { COMMAND_OUTCOMES, REDIS_VALUES, REJECTIONS } from "../../sharing/redis/observer.ts";
import { counter, gauge, histogram } from "./definition.ts";
import { ALIAS, ALIAS_OR_NONE, RELOAD_RESULT } from "./labels.ts";

/** What replicas share. */
export const REDIS = {
  redisConfigured: gauge("redis_configured", {
    help: "1 where a Redis is configured.",
  }),
  redisUp: gauge("redis_up", {
    help: "1 while Redis may be read and written.",
  }),
  redisClockOffset: gauge("redis_clock_offset_seconds", {
    help: "How far the wall clock of this process is ahead of Redis's; negative: behind.",
  }),
  replicasDiffering: gauge("replicas_differing", {
    help: "In how many things that replicas should have in common they have differed for half a minute or longer, as this one sees them.",
  }),
  redisCommands: counter("redis_commands", {
    help: "Commands to Redis, by how they ended.",
    labels: { outcome: COMMAND_OUTCOMES },
  }),
  redisDuration: histogram("redis_command_duration", {
    help: "From sending a command to its reply or its end.",
  }),
  redisDroppedWrites: counter("redis_dropped_writes", {
    help: "Values not written to Redis because too many were waiting.",
  }),
  redisRejectedValues: counter("redis_rejected_values", {
    help: "Values in Redis that were damaged or not the gateway's, by what they were to be and by what showed it (form, or redis.sealKeyFile: seal), and were taken for absent.",
    labels: { value: REDIS_VALUES, reason: REJECTIONS },
  }),
} as const;

/** The process itself, beside the client library's own metrics. */
export const PROCESS = {
  reloads: counter("config_reloads", {
    help: "Reloads of the configuration, by result.",
    labels: { result: RELOAD_RESULT },
  }),
  lastReloadGood: gauge("config_last_reload_successful", {
    help: "1 while the configuration file, as last read, is the one in use.",
  }),
  logLinesDropped: counter("log_lines_dropped", {
    help: "Log lines that standard output did not take: a full disk, or a reader that stalls.",
  }),
  eventLoopActive: counter("event_loop_active_seconds", {
    help: "Time in which the event loop was busy.",
  }),
  eventLoopIdle: counter("event_loop_idle_seconds", {
    help: "Time in which the event loop waited.",
  }),
  eventLoopDelay: gauge("event_loop_delay_seconds", {
    resetBy: "reading",
    help: "How late the event loop was in the last half second, the 99th percentile.",
  }),
  shedding: gauge("shedding", {
    resetBy: "reading",
    help: "1 while misses and calls are refused because the event loop is too late.",
  }),
  shedRequests: counter("shed_requests", {
    help: "Requests refused because the event loop was too late: metadata that was not cached, and calls passed on.",
    labels: { kind: ["metadata", "call"] },
  }),
  certificateExpiry: gauge("certificate_expiry_seconds", {
    resetBy: "reading",
    help: "Seconds until the first certificate of a role ends, negative once it has: listener and client_authority of listen.tls; client, authority and node of an upstream; redis and redis_authority.",
    labels: { upstream: ALIAS_OR_NONE, role: CERTIFICATE_ROLES },
  }),
  listenerTlsUnusable: gauge("listener_tls_unusable", {
    help: "1 while a file of listen.tls is no good: the last good ones are used.",
  }),
  operationsTokenUnusable: gauge("operations_token_unusable", {
    help: "1 while the file of an operations token is no good: the last good token is used.",
  }),
  buildInfo: gauge("build_info", {
    help: "Always 1; the labels say which build runs.",
    labels: { version: ALIAS, revision: ALIAS },
  }),
} as const;
