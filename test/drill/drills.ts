import type { AlertName } from "../../src/operations/conditions/conditions.ts";
import type { Fault } from "../../src/sandbox/faults.ts";
import { BONDS, type Needs, type Place, type Scene } from "./scene.ts";

/** Something that goes wrong in production, provoked: what an operator sees of it, and how it ends. */
export interface Drill extends Needs {
  /** What is broken. */
  readonly breaks: string;
  /** The alert that names the cause: its section of the runbooks, and its line in `status` and the console. */
  readonly alert: AlertName;
  /** Seconds until `status` and the console name it, at most; an alert holds for its own time besides. */
  readonly within: number;
  /** Where the runbook sends an operator first, and what stands there then. */
  readonly firstStep: FirstStep;
  readonly provoke: (scene: Scene) => Promise<void> | void;
  readonly mend: (scene: Scene) => Promise<void> | void;
}

export interface FirstStep {
  readonly at: Place;
  readonly shows: RegExp;
}

/** Names of alerts without what all begin with. */
type Short = "AllNodesDown" | "AdminMismatch" | "CallsFail" | "RegistrySlow";

/** The dashboard's panel "Failed calls by reason". */
function failsBy(reason: string): FirstStep {
  const labels = `(?=.*upstream="bonds")(?=.*reason="${reason}")`;
  return {
    at: "metrics",
    shows: new RegExp(`^registry_gateway_upstream_attempt_failures_total\\{${labels}.* [1-9]`, "m"),
  };
}

/** The panel "Calls by kind and what came of them". */
const CALLS_FAIL: FirstStep = {
  at: "metrics",
  shows:
    /^registry_gateway_upstream_calls_total\{(?=.*upstream="bonds")(?=.*kind="other")(?=.*outcome="failed").* [1-9]/m,
};

function logged(message: string, more = ""): FirstStep {
  return { at: "log", shows: new RegExp(`^(?=.*"msg":"${message}").*${more}`, "m") };
}

/** A registry that answers, and wrongly; its alert, and within how many seconds. */
function faulty(
  breaks: string,
  { alert, within, firstStep }: { readonly alert: Short; readonly within: number; readonly firstStep: FirstStep },
  fault: Fault,
): Drill {
  return {
    breaks,
    alert: `RegistryGateway${alert}`,
    within,
    firstStep,
    provoke: ({ bonds }) => bonds.faults.set(fault),
    mend: ({ bonds }) => bonds.faults.clear(),
  };
}

/** The panel "Latency of calls": some took more than 2.5 s. */
const SLOW: FirstStep = {
  at: "metrics",
  shows:
    /^registry_gateway_upstream_attempt_duration_seconds_sum\{(?=.*upstream="bonds")(?=.*kind="other").* ([3-9]|\d\d)/m,
};

const REFUSED: FirstStep = {
  at: "metrics",
  shows: /^registry_gateway_redis_commands_total\{outcome="error"\} [1-9]/m,
};

const REFUSES_WRITES = "RegistryGatewayRedisRefusesWrites";

/** By name, as `npm run drill -- NAME` takes them. */
export const DRILLS: Readonly<Record<string, Drill>> = {
  node: {
    breaks: "one of the two nodes of amulet is dead",
    alert: "RegistryGatewayNodeDown",
    within: 60,
    firstStep: { at: "nodes", shows: /amulet +1 +ejected[^]*amulet, node 1: .*refused/ },
    provoke: ({ amulet }) => amulet[1].kill(),
    mend: ({ amulet }) => amulet[1].revive(),
  },
  registry: {
    breaks: "the only node of bonds is dead",
    alert: "RegistryGatewayAllNodesDown",
    within: 60,
    firstStep: failsBy("refused"),
    provoke: ({ bonds }) => bonds.kill(),
    mend: ({ bonds }) => bonds.revive(),
  },
  slow: faulty(
    "bonds takes 3 s for an answer",
    { alert: "RegistrySlow", within: 240, firstStep: SLOW },
    { kind: "slow", delay: 3_000 },
  ),
  hanging: faulty(
    "bonds takes calls and answers none",
    { alert: "AllNodesDown", within: 240, firstStep: failsBy("timeout") },
    { kind: "hang" },
  ),
  "429": faulty(
    "bonds answers every call with 429",
    { alert: "CallsFail", within: 120, firstStep: CALLS_FAIL },
    { kind: "429", retryAfter: "1" },
  ),
  html: faulty(
    "a proxy before bonds answers with a page, 502",
    { alert: "AllNodesDown", within: 120, firstStep: failsBy("http-502") },
    { kind: "html-502" },
  ),
  "500": faulty(
    "bonds answers every call with 500",
    { alert: "CallsFail", within: 120, firstStep: CALLS_FAIL },
    { kind: "status", status: 500 },
  ),
  identity: faulty(
    `what answers at bonds is not ${BONDS.slice(0, 18)}…`,
    {
      alert: "AdminMismatch",
      within: 120,
      firstStep: { at: "status", shows: new RegExp(String.raw`"lastError":"(?:[^"\\]|\\.)*${BONDS}`) },
    },
    { kind: "wrong-admin" },
  ),
  redis: {
    breaks: "Redis is dead",
    alert: "RegistryGatewayRedisAway",
    within: 30,
    firstStep: logged("Redis state changed", '"to":"away"'),
    redis: true,
    provoke: ({ redis }) => redis.kill(),
    mend: ({ redis }) => redis.start(),
  },
  "redis-hanging": {
    breaks: "Redis takes commands and answers none",
    alert: "RegistryGatewayRedisAway",
    within: 60,
    firstStep: logged("Redis state changed", '"to":"away"'),
    redis: true,
    provoke: ({ redis }) => redis.pause(),
    mend: ({ redis }) => redis.resume(),
  },
  "redis-full": {
    breaks: "Redis has no memory left, and refuses writes",
    alert: REFUSES_WRITES,
    within: 120,
    firstStep: REFUSED,
    redis: true,
    provoke: async ({ redis }) => {
      await redis.client.config("SET", "maxmemory-policy", "noeviction");
      await redis.client.config("SET", "maxmemory", "1mb");
    },
    mend: async ({ redis }) => void (await redis.client.config("SET", "maxmemory", "0")),
  },
  "redis-read-only": {
    breaks: "Redis has become a replica, and refuses writes",
    alert: REFUSES_WRITES,
    within: 120,
    firstStep: REFUSED,
    redis: true,
    provoke: async ({ redis }) => void (await redis.client.replicaof("127.0.0.1", "1")),
    mend: async ({ redis }) => void (await redis.client.replicaof("NO", "ONE")),
  },
  certificates: {
    breaks: "the listener's certificate ends in two days",
    alert: "RegistryGatewayCertificateEnds",
    within: 60,
    firstStep: { at: "status", shows: /"certificates":\[\{"role":"listener"/ },
    tls: true,
    provoke: (scene) => scene.certify(2),
    mend: (scene) => scene.certify(90),
  },
  secret: {
    breaks: "the file of the token for bonds is empty",
    alert: "RegistryGatewayCredentialUnusable",
    within: 30,
    firstStep: logged("credential cannot be used", '"upstream":"bonds".*"reason":"[^"]+'),
    provoke: (scene) => scene.writeToken(""),
    mend: (scene) => scene.writeToken("another-token-of-bonds\n"),
  },
  certificate: {
    breaks: "the file of the listener's certificate is no certificate",
    alert: "RegistryGatewayListenerCertificateUnusable",
    within: 30,
    firstStep: logged("listener certificate cannot be used", '"reason":"[^"]+'),
    tls: true,
    provoke: (scene) => scene.writeCertificate("nothing\n"),
    mend: (scene) => scene.certify(90),
  },
  keys: {
    breaks: "the file with the keys of clients has a line that is cut off",
    alert: "RegistryGatewayClientKeysUnusable",
    within: 30,
    firstStep: logged("client keys cannot be used", "line 1"),
    clients: true,
    provoke: (scene) => scene.writeKeys('{"name": "wallet-on'),
    mend: (scene) => scene.writeKeys("\n"),
  },
  list: {
    breaks: "the published list has another URL for a registry that was found",
    alert: "RegistryGatewayRegistryWaitsForApproval",
    within: 60,
    firstStep: { at: "discovery", shows: /waiting/ },
    list: true,
    provoke: (scene) => scene.list(scene.amulet[1].url),
    mend: (scene) => scene.list(scene.found.url),
  },
  replica: {
    breaks: "one of two replicas is gone, and did not say so",
    alert: "RegistryGatewayReplicaGone",
    within: 60,
    firstStep: { at: "status command", shows: /is gone, and did not say/ },
    redis: true,
    replica: true,
    provoke: (scene) => scene.killReplica(),
    mend: (scene) => scene.startReplica(),
  },
  configuration: {
    breaks: "the configuration file has a key that is none",
    alert: "RegistryGatewayReloadFailed",
    within: 60,
    firstStep: logged("configuration refused: the one in use stays", '"path":"lissten"'),
    provoke: (scene) => scene.writeConfig(`${scene.config}lissten: { port: 80 }\n`),
    mend: (scene) => scene.writeConfig(scene.config),
  },
  "log-disk": {
    breaks: "the disk of the log is full",
    alert: "RegistryGatewayLogLinesDropped",
    within: 240,
    firstStep: { at: "standard error", shows: /ENOSPC/ },
    fullDisk: true,
    // It is from the start; what the gateway keeps for the disk is full after some seconds of requests.
    provoke: () => undefined,
    mend: () => undefined,
  },
};
