import type { Fault } from "../../src/sandbox/faults.ts";
import { BONDS, type Needs, type Scene } from "./scene.ts";

/** Something that goes wrong in production, provoked: what an operator sees of it, and how it ends. */
export interface Drill extends Needs {
  /** What is broken. */
  readonly breaks: string;
  /** The alert that names the cause: its section of the runbooks, and its line in `status` and the console. */
  readonly alert: string;
  readonly provoke: (scene: Scene) => Promise<void> | void;
  readonly mend: (scene: Scene) => Promise<void> | void;
}

/** A registry that answers, and wrongly. */
function faulty(breaks: string, alert: string, fault: Fault): Drill {
  return {
    breaks,
    alert,
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
    provoke: ({ amulet }) => amulet[1].kill(),
    mend: ({ amulet }) => amulet[1].revive(),
  },
  registry: {
    breaks: "the only node of bonds is dead",
    alert: "RegistryGatewayAllNodesDown",
    provoke: ({ bonds }) => bonds.kill(),
    mend: ({ bonds }) => bonds.revive(),
  },
  slow: faulty("bonds takes 3 s for an answer", "RegistryGatewayRegistrySlow", { kind: "slow", delay: 3_000 }),
  hanging: faulty("bonds takes calls and answers none", "RegistryGatewayAllNodesDown", { kind: "hang" }),
  "429": faulty("bonds answers every call with 429", "RegistryGatewayCallsFail", { kind: "429", retryAfter: "1" }),
  html: faulty("a proxy before bonds answers with a page, 502", "RegistryGatewayAllNodesDown", { kind: "html-502" }),
  "500": faulty("bonds answers every call with 500", "RegistryGatewayCallsFail", { kind: "status", status: 500 }),
  identity: faulty(`what answers at bonds is not ${BONDS.slice(0, 18)}…`, "RegistryGatewayAdminMismatch", {
    kind: "wrong-admin",
  }),
  redis: {
    breaks: "Redis is dead",
    alert: "RegistryGatewayRedisAway",
    redis: true,
    provoke: ({ redis }) => redis.kill(),
    mend: ({ redis }) => redis.start(),
  },
  "redis-hanging": {
    breaks: "Redis takes commands and answers none",
    alert: "RegistryGatewayRedisAway",
    redis: true,
    provoke: ({ redis }) => redis.pause(),
    mend: ({ redis }) => redis.resume(),
  },
  "redis-full": {
    breaks: "Redis has no memory left, and refuses writes",
    alert: REFUSES_WRITES,
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
    redis: true,
    provoke: async ({ redis }) => void (await redis.client.replicaof("127.0.0.1", "1")),
    mend: async ({ redis }) => void (await redis.client.replicaof("NO", "ONE")),
  },
  certificates: {
    breaks: "the listener's certificate ends in two days",
    alert: "RegistryGatewayCertificateEnds",
    tls: true,
    provoke: (scene) => scene.certify(2),
    mend: (scene) => scene.certify(90),
  },
  secret: {
    breaks: "the file of the token for bonds is empty",
    alert: "RegistryGatewayCredentialUnusable",
    provoke: (scene) => scene.writeToken(""),
    mend: (scene) => scene.writeToken("another-token-of-bonds\n"),
  },
  configuration: {
    breaks: "the configuration file has a key that is none",
    alert: "RegistryGatewayReloadFailed",
    provoke: (scene) => scene.writeConfig(`${scene.config}lissten: { port: 80 }\n`),
    mend: (scene) => scene.writeConfig(scene.config),
  },
  "log-disk": {
    breaks: "the disk of the log is full",
    alert: "RegistryGatewayLogLinesDropped",
    fullDisk: true,
    // It is from the start; what the gateway keeps for the disk is full after some seconds of requests.
    provoke: () => undefined,
    mend: () => undefined,
  },
};
