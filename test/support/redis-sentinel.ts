import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startRedis, type RedisServer } from "./redis.ts";
import { until } from "./until.ts";

/** A master with a replica, watched by a sentinel that promotes the replica about a second after the master's death. */
export interface RedisSentinel {
  readonly name: string;
  /** host:port of the sentinel. */
  readonly nodes: string[];
  readonly master: RedisServer;
  readonly replica: RedisServer;
  stop(): Promise<void>;
}

/** What clients have to log in with, to the servers and to the sentinel. */
export interface SentinelPasswords {
  readonly server: string;
  readonly sentinel: string;
}

export async function startSentinel(passwords?: SentinelPasswords): Promise<RedisSentinel> {
  const settings = { "repl-diskless-sync-delay": "0" };
  const password = passwords?.server;
  const master = await startRedis({ settings, password });
  const replica = await startRedis({
    settings: { ...settings, replicaof: ["127.0.0.1", String(master.port)] },
    password,
  });
  await until(async () => (await master.client.info("replication")).includes("state=online"));
  const folder = mkdtempSync(join(tmpdir(), "registry-gateway-sentinel-"));
  const file = join(folder, "sentinel.conf");
  writeFileSync(
    file,
    [
      "bind 127.0.0.1",
      `sentinel monitor main 127.0.0.1 ${master.port} 1`,
      "sentinel down-after-milliseconds main 500",
      "sentinel failover-timeout main 2000",
      ...(passwords === undefined
        ? []
        : [`sentinel auth-pass main "${passwords.server}"`, `requirepass "${passwords.sentinel}"`]),
      "",
    ].join("\n"),
  );
  const sentinel = await startRedis({ file, readyLine: "+monitor master main", password: passwords?.sentinel });
  await until(async () =>
    JSON.stringify(await sentinel.client.call("sentinel", "replicas", "main")).includes("127.0.0.1"),
  );
  return {
    name: "main",
    nodes: [`127.0.0.1:${sentinel.port}`],
    master,
    replica,
    stop: async () => {
      await Promise.all([sentinel.stop(), replica.stop(), master.stop()]);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
