import { type Clock, type Duration, withReply } from "../clock.ts";
import type { RedisConfig } from "../config/schema.ts";
import { createClient, readFault, type RedisClient, type RedisFault } from "../coordination/redis/client.ts";
import { defineScript, runScript } from "../coordination/redis/protocol.ts";

/** A server that is well answers in a fraction of it; a client tries a dozen times in it. */
const DEADLINE: Duration = 4_000;

/** As the gateway's own scripts: Redis 7 at least, a master, and a user that may run scripts and write. */
const PROBE = defineScript("check", "allow-oom", 'return redis.call("SET", KEYS[1], "1", "PX", "1000")');

export interface RedisReport {
  readonly isWell: boolean;
  /** For people, without addresses and secrets. */
  readonly line: string;
}

/** Connects to Redis as a gateway would, logs in, and writes a key that is gone a second later. */
export async function checkRedis(config: RedisConfig, clock: Clock): Promise<RedisReport> {
  let client: RedisClient | undefined;
  let fault: RedisFault | undefined;
  try {
    client = createClient(config, clock);
    const startedAt = clock.now();
    await withReply(
      whenReady(client, (next) => (fault = next)),
      DEADLINE,
      clock,
    );
    await withReply(
      runScript(client, { script: PROBE, keys: [`${config.keyPrefix}check`], args: [] }),
      DEADLINE,
      clock,
    );
    return { isWell: true, line: `redis: answers, ${Math.round(clock.now() - startedAt)} ms with the login` };
  } catch (error) {
    const { text } = fault ?? readFault(error);
    return { isWell: false, line: `redis: ${text}` };
  } finally {
    client?.disconnect();
  }
}

/** Rejects at once with what will not pass; of what may, `onFault` hears while the client goes on trying. */
function whenReady(client: RedisClient, onFault: (fault: RedisFault) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    client.once("ready", resolve);
    client.on("error", (error: Error) => {
      const fault = readFault(error);
      onFault(fault);
      if (fault.isLasting) reject(error);
    });
    // Its event says why.
    client.connect().catch(() => undefined);
  });
}
