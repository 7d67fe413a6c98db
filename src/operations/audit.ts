import type { IncomingMessage } from "node:http";
import { BlockList, isIP } from "node:net";
import type { CancelTimer, Clock, Duration } from "../clock.ts";
import type { PurgeReach } from "../sharing/ports.ts";
import type { ReplicasReached } from "../sharing/replicas.ts";
import type { Logger } from "../observe/log.ts";
import type { Credential } from "./access.ts";
import type { ActionReport, Operator } from "./actions.ts";

const KEPT = 500;

const REMIND_EVERY: Duration = 600_000;

/** What an operator did, as `GET /audit` shows it. */
export interface AuditEntry extends Operator {
  readonly at: string;
  readonly did: "purge" | "node" | "upstream" | "discovery";
  /** As it was asked for. */
  readonly what: unknown;
  readonly scope: PurgeReach;
  /** Which replicas took it, as its answer said; null: that was not asked, or is not known yet. */
  readonly replicas: ReplicasReached | null;
}

interface Noted extends Pick<AuditEntry, "what" | "scope"> {
  /** Never rejects; undefined: it has not left this replica yet. */
  readonly replicas: Promise<ReplicasReached> | undefined;
}

/** What was done through this listener, the latest first, and what the operator is reminded of while it is in force. */
export class Audit {
  private readonly clock: Clock;
  private readonly log: Logger;
  private readonly entries: AuditEntry[] = [];
  private cancelTimer: CancelTimer | undefined;

  constructor(clock: Clock, log: Logger) {
    this.clock = clock;
    this.log = log;
  }

  /** Notes what was done: one entry, and one line in the log. Who took it is added once it is known. */
  note(did: AuditEntry["did"], operator: Operator, { what, scope, replicas }: Noted): void {
    const at = new Date(this.clock.wallNow()).toISOString();
    const entry = { at, did, ...operator, what, scope, replicas: null };
    this.entries.unshift(entry);
    void replicas?.then((reached) => {
      const index = this.entries.indexOf(entry);
      if (index !== -1) this.entries[index] = { ...entry, replicas: reached };
    });
    this.entries.length = Math.min(this.entries.length, KEPT);
    // Ids stay out of the log; an admin has its alias there.
    const { instrument: _, contract: __, admin: ___, ...shown } = what as Readonly<Record<string, unknown>>;
    this.log.info({ did, ...shown, ...operator, reach: scope }, "operator action");
  }

  /** @param isWritten nothing of what was done so waits for Redis any more: what was pending has reached all */
  latest(isWritten: (did: AuditEntry["did"]) => boolean): readonly AuditEntry[] {
    for (const [i, entry] of this.entries.entries()) {
      if (entry.scope === "pending" && isWritten(entry.did)) this.entries[i] = { ...entry, scope: "fleet" };
    }
    return this.entries;
  }

  /** From now on, a line in the log for each action in force, every ten minutes. */
  remind(inForce: () => readonly ActionReport[]): void {
    this.cancelTimer = this.clock.after(REMIND_EVERY, () => {
      for (const action of inForce()) this.log.warn({ ...action }, "operator action in force");
      this.remind(inForce);
    });
  }

  close(): void {
    this.cancelTimer?.();
  }
}

const PRIVATE = new BlockList();
for (const [network, length] of [
  ["10.0.0.0", 8],
  ["172.16.0.0", 12],
  ["192.168.0.0", 16],
  ["169.254.0.0", 16],
  ["100.64.0.0", 10],
] as const) {
  PRIVATE.addSubnet(network, length, "ipv4");
}
PRIVATE.addSubnet("fc00::", 7, "ipv6");
PRIVATE.addSubnet("fe80::", 10, "ipv6");

/** Who sends a request that was let in, by name where there is one: no address and no secret, but which kind of either. */
export function operatorOf({ socket }: IncomingMessage, { shown, identity }: Credential): Operator {
  const by = identity?.name === undefined ? shown : `${identity.name} (${shown})`;
  return { by, from: kindOf(socket.remoteAddress ?? "") };
}

function kindOf(remote: string): string {
  const address = remote.replace(/^::ffff:(?=\d+\.)/, "");
  if (address === "::1" || address.startsWith("127.")) return "loopback";
  const family = isIP(address);
  if (family === 0) return "unknown address";
  return PRIVATE.check(address, family === 4 ? "ipv4" : "ipv6") ? "private address" : "public address";
}
