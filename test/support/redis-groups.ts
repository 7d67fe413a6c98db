import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { atEnd } from "./closing.ts";
import { findFreePort } from "./ports.ts";
import { type RedisServer, startRedis } from "./redis.ts";
import { until } from "./until.ts";

/** A master with a replica, and a sentinel that promotes the replica about a second after the master's death. */
export interface SentinelGroup {
  readonly name: string;
  /** host:port of the sentinel. */
  readonly nodes: readonly string[];
  readonly master: RedisServer;
  readonly replica: RedisServer;
}

/** @param passwords what clients have to log in with */
export async function startSentinel(passwords: { server: string; sentinel: string }): Promise<SentinelGroup> {
  const { server: password } = passwords;
  const settings = { "repl-diskless-sync-delay": "0" };
  const master = await startRedis({ settings, password });
  const replicaof = ["127.0.0.1", String(master.port)];
  const replica = await startRedis({ settings: { ...settings, replicaof }, password });
  await until(async () => (await master.client.info("replication")).includes("state=online"));
  const folder = mkdtempSync(join(tmpdir(), "registry-gateway-sentinel-"));
  atEnd(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "sentinel.conf");
  const lines = [
    "bind 127.0.0.1",
    `sentinel monitor main 127.0.0.1 ${master.port} 1`,
    "sentinel down-after-milliseconds main 500",
    "sentinel failover-timeout main 2000",
    `sentinel auth-pass main "${password}"`,
    `requirepass "${passwords.sentinel}"`,
  ];
  writeFileSync(file, `${lines.join("\n")}\n`);
  const sentinel = await startRedis({ file, password: passwords.sentinel });
  const replicas = async (): Promise<string> =>
    JSON.stringify(await sentinel.client.call("sentinel", "replicas", "main"));
  await until(async () => (await replicas()).includes("127.0.0.1"));
  return { name: "main", nodes: [`127.0.0.1:${sentinel.port}`], master, replica };
}

const SLOTS = 16_384;

/** Three masters, and a replica of each, which takes over when its master dies. */
export interface ClusterGroup {
  readonly masters: readonly RedisServer[];
  readonly replicas: readonly RedisServer[];
  readonly urls: readonly string[];
  /** The master that a key belongs to at first. */
  masterOf(key: string): Promise<RedisServer>;
  /** Moves a key's slot, with all keys in it, to another master, and has nobody told of it before `meanwhile` is over. */
  moveSlotOf(key: string, meanwhile?: () => Promise<unknown>): Promise<{ from: RedisServer; to: RedisServer }>;
}

export async function startCluster(): Promise<ClusterGroup> {
  const busPorts = await Promise.all(Array.from({ length: 6 }, () => findFreePort()));
  const servers = await Promise.all(busPorts.map((port) => startRedis({ settings: clusterSettings(port) })));
  const [masters, replicas] = [servers.slice(0, 3), servers.slice(3)];
  const cluster = (server: RedisServer, ...args: (string | number)[]) => server.client.call("cluster", ...args);
  for (const [i, server] of servers.entries()) {
    await cluster(server, "SET-CONFIG-EPOCH", i + 1);
    if (i > 0) await cluster(server, "MEET", "127.0.0.1", servers[0]!.port, busPorts[0]!);
  }
  for (const [i, master] of masters.entries()) {
    await cluster(master, "ADDSLOTSRANGE", Math.floor((i * SLOTS) / 3), Math.floor(((i + 1) * SLOTS) / 3) - 1);
  }
  const isKnown = async (server: RedisServer): Promise<boolean> => {
    const lines = String(await cluster(server, "NODES"))
      .trim()
      .split("\n");
    return lines.filter((line) => line.includes(" connected") && !line.includes("handshake")).length === 6;
  };
  for (const server of servers) await until(() => isKnown(server));
  for (const [i, replica] of replicas.entries()) {
    await cluster(replica, "REPLICATE", String(await cluster(masters[i]!, "MYID")));
  }
  for (const server of servers) {
    await until(async () => String(await cluster(server, "INFO")).includes("cluster_state:ok"));
  }
  for (const master of masters) {
    await until(async () => (await master.client.info("replication")).includes("state=online"));
  }
  const slotOf = async (key: string): Promise<number> => Number(await cluster(masters[0]!, "KEYSLOT", key));
  const masterOf = async (key: string) => masters[Math.floor(((await slotOf(key)) * 3) / SLOTS)]!;
  const moveSlotOf: ClusterGroup["moveSlotOf"] = async (key, meanwhile) => {
    const [slot, from] = [await slotOf(key), await masterOf(key)];
    const to = masters.find((each) => each !== from)!;
    const idOf = async (server: RedisServer): Promise<string> => String(await cluster(server, "MYID"));
    await cluster(to, "SETSLOT", slot, "IMPORTING", await idOf(from));
    await cluster(from, "SETSLOT", slot, "MIGRATING", await idOf(to));
    for (;;) {
      const [name] = (await cluster(from, "GETKEYSINSLOT", slot, 1)) as string[];
      if (name === undefined) break;
      await from.client.call("migrate", "127.0.0.1", to.port, name, 0, 1_000);
    }
    await meanwhile?.();
    for (const server of [to, from]) await cluster(server, "SETSLOT", slot, "NODE", await idOf(to));
    return { from, to };
  };
  return { masters, replicas, urls: masters.map(({ url }) => url), masterOf, moveSlotOf };
}

function clusterSettings(busPort: number): Record<string, string> {
  return {
    "cluster-enabled": "yes",
    "cluster-port": String(busPort),
    "cluster-config-file": `nodes-${busPort}.conf`,
    "cluster-node-timeout": "1000",
    "cluster-require-full-coverage": "no",
    "cluster-replica-validity-factor": "0",
    "repl-diskless-sync-delay": "0",
  };
}
