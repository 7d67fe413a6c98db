import { pino } from "pino";
import { expect } from "vitest";
import type { RedisConfig } from "../../src/config/schema.ts";
import type { Sharing, SharingObserver } from "../../src/sharing/ports.ts";
import { createSharing } from "../../src/sharing/sharing.ts";
import { TestClock } from "./clock.ts";
import { atEnd } from "./closing.ts";
import { until } from "./until.ts";

/** What one replica shares, with its log and what it has sent to Redis. */
export interface Replica extends Sharing {
  readonly clock: TestClock;
  readonly lines: readonly string[];
  /** How many commands ended so: `get ok`, `set skipped`. */
  readonly commands: Readonly<Record<string, number>>;
  isUp(): boolean;
  whenUp(): Promise<unknown>;
  whenAway(): Promise<unknown>;
}

/** A replica over this Redis, which ends with the test. */
export function startReplica(config: Partial<RedisConfig>, texts: ReadonlyMap<string, string> = new Map()): Replica {
  const clock = TestClock.running();
  const lines: string[] = [];
  const commands: Record<string, number> = {};
  const log = pino(
    { level: "info" },
    { write: (line: string) => void lines.push((JSON.parse(line) as { msg: string }).msg) },
  );
  const observer: SharingObserver = {
    commandEnded(command, outcome) {
      const key = `${command} ${outcome}`;
      commands[key] = (commands[key] ?? 0) + 1;
    },
  };
  const sharing = createSharing({ keyPrefix: "rg:", ...config }, texts, { clock, log, observer });
  atEnd(() => sharing.close());
  const isUp = (): boolean => sharing.status().redis === "up";
  return { ...sharing, clock, lines, commands, isUp, whenUp: () => until(isUp), whenAway: () => until(() => !isUp()) };
}

const key = { party: "a", name: "info" };
const entry = { head: "x", body: Buffer.from("body"), remaining: 60_000 };
const wide = [{ requests: 1_000, per: 60_000 }];

/** One call of each method, all at once: what they answered, and how long the slowest took. */
export async function callAll({ entries, leases, limiter, purges, replicas }: Replica) {
  const start = performance.now();
  entries.set(key, entry);
  entries.delete({ ...key, name: "other" });
  const [found, lease, grant, purge] = await Promise.all([
    entries.get(key),
    leases.acquire(key),
    limiter.take("a", wide),
    purges.purge("p"),
  ]);
  if (typeof lease === "object") lease.release();
  return { found, lease, grant, purge, replicas: replicas.count(), took: performance.now() - start };
}

/** Where Redis is away. */
export const WITHOUT = { found: undefined, lease: "none", grant: { granted: true }, purge: "pending" };
/** Where it is up. */
export const WITH = { lease: { release: expect.any(Function) as unknown }, grant: { granted: true }, purge: "done" };

/** Away: every method answers at once as without Redis, and the cause is told once. */
export async function expectAway(replica: Replica, cause: string): Promise<void> {
  await until(() => !replica.isUp() && replica.status().cause?.includes(cause));
  const answers = [await callAll(replica), await callAll(replica)];
  for (const answer of answers) expect(answer).toMatchObject(WITHOUT);
  expect(Math.min(...answers.map(({ took }) => took))).toBeLessThan(50);
}
