import type { Fault } from "../../src/sandbox/faults.ts";
import { BONDS, type Needs, type Scene } from "./scene.ts";

/** Something that goes wrong in production, provoked: what an operator sees of it, and how it ends. */
export interface Drill extends Needs {
  /** What is broken. */
  readonly breaks: string;
  /** The alert that names the cause: its section of the runbooks, and its line in `status` and the console. */
  readonly alert: string;
  /** Seconds until `status` and the console name it, at most; an alert holds for its own time besides. */
  readonly within: number;
  readonly provoke: (scene: Scene) => Promise<void> | void;
  readonly mend: (scene: Scene) => Promise<void> | void;
}

/** Names of alerts without what all begin with. */
type Short = "AllNodesDown" | "AdminMismatch" | "CallsFail" | "RegistrySlow";

/** A registry that answers, and wrongly; its alert, and within how many seconds. */
function faulty(breaks: string, [alert, within]: readonly [Short, number], fault: Fault): Drill {
  return {
    breaks,
    alert: `RegistryGateway${alert}`,
    within,
    provoke: ({ bonds }) => bonds.faults.set(fault),
    mend: ({ bonds }) => bonds.faults.clear(),
  };
}

const REFUSES_WRITES = "RegistryGatewayRedisRefusesWrites";

/** By name, as `npm run drill -- NAME` takes them. */
export const DRILLS: Readonly<Record<string, Drill>> = {
  node: {
    breaks: "one of the two nodes of amulet is dead",
    alert: "RegistryGatewayNodeDown",
    within: 60,
    provoke: ({ amulet }) => amulet[1].kill(),
    mend: ({ amulet }) => amulet[1].revive(),
  },
  registry: {
    breaks: "the only node of bonds is dead",
    alert: "RegistryGatewayAllNodesDown",
    within: 60,
    provoke: ({ bonds }) => bonds.kill(),
    mend: ({ bonds }) => bonds.revive(),
  },
  slow: faulty("bonds takes 3 s for an answer", ["RegistrySlow", 240], { kind: "slow", delay: 3_000 }),
  hanging: faulty("bonds takes calls and answers none", ["AllNodesDown", 240], { kind: "hang" }),
  "429": faulty("bonds answers every call with 429", ["CallsFail", 120], { kind: "429", retryAfter: "1" }),
  html: faulty("a proxy before bonds answers with a page, 502", ["AllNodesDown", 120], { kind: "html-502" }),
  "500": faulty("bonds answers every call with 500", ["CallsFail", 120], { kind: "status", status: 500 }),
  identity: faulty(`what answers at bonds is not ${BONDS.slice(0, 18)}…`, ["AdminMismatch", 120], {
    kind: "wrong-admin",
  }),
  redis: {
    breaks: "Redis is dead",
    alert: "RegistryGatewayRedisAway",
    within: 30,
    redis: true,
    provoke: ({ redis }) => redis.kill(),
    mend: ({ redis }) => redis.start(),
  },
  "redis-hanging": {
    breaks: "Redis takes commands and answers none",
    alert: "RegistryGatewayRedisAway",
    within: 60,
    redis: true,
    provoke: ({ redis }) => redis.pause(),
    mend: ({ redis }) => redis.resume(),
  },
  "redis-full": {
    breaks: "Redis has no memory left, and refuses writes",
    alert: REFUSES_WRITES,
    within: 120,
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
    redis: true,
    provoke: async ({ redis }) => void (await redis.client.replicaof("127.0.0.1", "1")),
    mend: async ({ redis }) => void (await redis.client.replicaof("NO", "ONE")),
  },
  certificates: {
    breaks: "the listener's certificate ends in two days",
    alert: "RegistryGatewayCertificateEnds",
    within: 60,
    tls: true,
    provoke: (scene) => scene.certify(2),
    mend: (scene) => scene.certify(90),
  },
  secret: {
    breaks: "the file of the token for bonds is empty",
    alert: "RegistryGatewayCredentialUnusable",
    within: 30,
    provoke: (scene) => scene.writeToken(""),
    mend: (scene) => scene.writeToken("another-token-of-bonds\n"),
  },
  certificate: {
    breaks: "the file of the listener's certificate is no certificate",
    alert: "RegistryGatewayListenerCertificateUnusable",
    within: 30,
    tls: true,
    provoke: (scene) => scene.writeCertificate("nothing\n"),
    mend: (scene) => scene.certify(90),
  },
  keys: {
    breaks: "the file with the keys of clients has a line that is cut off",
    alert: "RegistryGatewayClientKeysUnusable",
    within: 30,
    clients: true,
    provoke: (scene) => scene.writeKeys('{"name": "wallet-on'),
    mend: (scene) => scene.writeKeys("\n"),
  },
  list: {
    breaks: "the published list has another URL for a registry that was found",
    alert: "RegistryGatewayRegistryWaitsForApproval",
    within: 60,
    list: true,
    provoke: (scene) => scene.list(scene.amulet[1].url),
    mend: (scene) => scene.list(scene.found.url),
  },
  replica: {
    breaks: "one of two replicas is gone, and did not say so",
    alert: "RegistryGatewayReplicaGone",
    within: 60,
    redis: true,
    replica: true,
    provoke: (scene) => scene.killReplica(),
    mend: (scene) => scene.startReplica(),
  },
  configuration: {
    breaks: "the configuration file has a key that is none",
    alert: "RegistryGatewayReloadFailed",
    within: 60,
    provoke: (scene) => scene.writeConfig(`${scene.config}lissten: { port: 80 }\n`),
    mend: (scene) => scene.writeConfig(scene.config),
  },
  "log-disk": {
    breaks: "the disk of the log is full",
    alert: "RegistryGatewayLogLinesDropped",
    within: 240,
    fullDisk: true,
    // It is from the start; what the gateway keeps for the disk is full after some seconds of requests.
    provoke: () => undefined,
    mend: () => undefined,
  },
};
