import { findFreePort } from "./ports.ts";
import { startRedis, type RedisServer } from "./redis.ts";
import { until } from "./until.ts";

/** A Redis Cluster of real servers: masters first, then one replica of each where asked for. */
export interface RedisCluster {
  readonly masters: readonly RedisServer[];
  readonly replicas: readonly RedisServer[];
  readonly urls: string[];
  /** The master that serves `key`. */
  masterOf(key: string): Promise<RedisServer>;
  stop(): Promise<void>;
}

export interface RedisClusterOptions {
  masters?: number;
  /** Give every master a replica, which takes over when it dies. */
  replicas?: boolean;
}

const SLOTS = 16_384;

export async function startCluster(options: RedisClusterOptions = {}): Promise<RedisCluster> {
  const count = options.masters ?? 3;
  const busPorts: number[] = [];
  const start = async (): Promise<RedisServer> => {
    const busPort = await findFreePort();
    const server = await startRedis({
      settings: {
        "cluster-enabled": "yes",
        "cluster-port": String(busPort),
        "cluster-node-timeout": "1000",
        "cluster-config-file": `nodes-${busPort}.conf`,
        "cluster-require-full-coverage": "no",
        "cluster-replica-validity-factor": "0",
        "repl-diskless-sync-delay": "0",
      },
    });
    busPorts.push(busPort);
    return server;
  };
  const servers: RedisServer[] = [];
  for (let i = 0; i < (options.replicas === true ? 2 * count : count); i += 1) servers.push(await start());
  const masters = servers.slice(0, count);
  const replicas = servers.slice(count);

  for (const [i, master] of masters.entries()) {
    const first = Math.floor((i * SLOTS) / count);
    const last = Math.floor(((i + 1) * SLOTS) / count) - 1;
    await master.client.call("cluster", "ADDSLOTSRANGE", String(first), String(last));
  }
  for (const [i, server] of servers.entries()) {
    await server.client.call("cluster", "SET-CONFIG-EPOCH", String(i + 1));
    if (i === 0) continue;
    await server.client.call("cluster", "MEET", "127.0.0.1", String(servers[0]!.port), String(busPorts[0]!));
  }
  for (const server of servers) await until(() => knowsNodes(server, servers.length));
  for (const [i, replica] of replicas.entries()) {
    const id = String(await masters[i]!.client.call("cluster", "MYID"));
    await replica.client.call("cluster", "REPLICATE", id);
  }
  for (const server of servers) await until(() => isClusterUp(server));
  for (const master of replicas.length === 0 ? [] : masters) {
    await until(async () => (await master.client.info("replication")).includes("state=online"));
  }
  return {
    masters,
    replicas,
    urls: masters.map((server) => server.url),
    masterOf: async (key) => {
      const slot = Number(await masters[0]!.client.call("cluster", "KEYSLOT", key));
      return masters[Math.floor((slot * count) / SLOTS)]!;
    },
    stop: async () => {
      await Promise.all(servers.map((server) => server.stop()));
    },
  };
}

async function knowsNodes(server: RedisServer, count: number): Promise<boolean> {
  const nodes = String(await server.client.call("cluster", "NODES"));
  return (
    nodes
      .trim()
      .split("\n")
      .filter((line) => line.includes("connected") && !line.includes("handshake")).length === count
  );
}

async function isClusterUp(server: RedisServer): Promise<boolean> {
  const info = String(await server.client.call("cluster", "INFO"));
  return info.includes("cluster_state:ok") && info.includes(`cluster_slots_ok:${SLOTS}`);
}
