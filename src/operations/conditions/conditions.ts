import { sayCount } from "../../words/quantity.ts";
import { CERTIFICATE_CONDITIONS } from "./certificates.ts";
import { because, type Condition, ofAll, ofEach, type Remark } from "./condition.ts";
import { DISCOVERY_CONDITIONS } from "./discovered.ts";
import { REGISTRY_CONDITIONS } from "./registries.ts";
import { REPLICA_CONDITIONS } from "./replicas.ts";
import { TRAFFIC_CONDITIONS } from "./traffic.ts";

const ALL = [
  ...REGISTRY_CONDITIONS,
  ...REPLICA_CONDITIONS,
  ...CERTIFICATE_CONDITIONS,
  ...TRAFFIC_CONDITIONS,
  ...DISCOVERY_CONDITIONS,
];

export type AlertName = (typeof ALL)[number]["alert"];

/** Everything that an alert is for: pages first, and of those with the same severity causes first. */
export const CONDITIONS: readonly Condition<AlertName>[] = [
  ...ALL.filter(({ severity, isCause }) => severity === "page" && isCause),
  ...ALL.filter(({ severity, isCause }) => severity === "page" && !isCause),
  ...ALL.filter(({ severity, isCause }) => severity === "warning" && isCause),
  ...ALL.filter(({ severity, isCause }) => severity === "warning" && !isCause),
];

/** What is shown besides. */
export const REMARKS: readonly Remark[] = [
  {
    id: "nodes-failed-last",
    severity: "warning",
    subject: "registry",
    // The last node is never ejected, and a breaker opens after ten failures: at night that takes long.
    find: ofEach(({ name, state, nodes, lastError }) =>
      state === "up" && nodes.every((node) => node.lastError !== undefined)
        ? `every node of ${name} failed when it was asked last${because(lastError ?? nodes[0]?.lastError)}`
        : undefined,
    ),
  },
  {
    id: "cache-only",
    severity: "warning",
    subject: "registry",
    find: ofEach(({ name, mode }) =>
      mode === "cache-only" ? `${name} is in cache-only mode: nothing is asked of it` : undefined,
    ),
  },
  {
    id: "all-cordoned",
    severity: "warning",
    subject: "registry",
    find: ofEach(({ name, state, nodes }) =>
      state !== "disabled" && nodes.length > 0 && nodes.every(({ cordoned }) => cordoned)
        ? `every node of ${name} is cordoned: nothing is asked of it`
        : undefined,
    ),
  },
  {
    id: "purges-pending",
    severity: "warning",
    subject: "replica",
    find: ofAll(({ redis }) =>
      redis.configured && redis.state === "up" && redis.pendingPurges > 0
        ? `${sayCount(redis.pendingPurges, "purge is", "purges are")} not in Redis yet`
        : undefined,
    ),
  },
  {
    id: "no-memory-cache",
    severity: "warning",
    subject: "gateway",
    find: ofAll(({ cache }) =>
      cache.memory.maxBytes === 0 ? "the memory cache has no room: cache.memory.maxBytes is 0" : undefined,
    ),
  },
  {
    id: "disabled",
    severity: "info",
    subject: "registry",
    find: ofEach(({ name, state, isContested, lastError }) =>
      state === "disabled" && !isContested && lastError === undefined ? `${name} is disabled` : undefined,
    ),
  },
];
