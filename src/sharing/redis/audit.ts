import { DAY, type CancelTimer, type Duration, valueWithin } from "../../clock.ts";
import { type AuditPort, type FoundRecords, LONGEST_RECORD, type RecordPage } from "../ports.ts";
import { clearForeign, defineScript } from "./scripts.ts";
import type { TableParts } from "./shared-table.ts";

/** A month, and at most so many: some 10 MB. */
const KEPT_FOR: Duration = 31 * DAY;
const MOST_KEPT = 20_000;

/** In bytes, with id and seal; what is longer is foreign. */
const LONGEST_MEMBER = 4 * LONGEST_RECORD;

/** Records that may wait for a Redis that is away. */
const MOST_UNWRITTEN = 500;

const AGAIN_AFTER: Duration = 1_000;
const READ_TIMEOUT: Duration = 500;

/** What is still to be written when the process ends gets so long. */
const CLOSE_TIMEOUT: Duration = 400;

/** A record is a member `<id> <text>` of a set that has no order but that of its members: all scores are 0. */
const FORM = /^(\S{1,64}) (.*)$/s;

/** KEYS: the set. ARGV: id, member, the first id that is young enough, how many may stay. */
const write = defineScript(
  "audit_write",
  "allow-oom",
  `
${clearForeign("zset")}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(0')
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(0', '+inf')
redis.call('ZREMRANGEBYLEX', KEYS[1], '[' .. ARGV[1] .. ' ', '(' .. ARGV[1] .. '!')
redis.call('ZADD', KEYS[1], 0, ARGV[2])
redis.call('ZREMRANGEBYLEX', KEYS[1], '-', '(' .. ARGV[3])
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - ARGV[4])`,
);

/** KEYS: the set. ARGV: before which id, how many at most. Returns the members, the latest first; of one too long its beginning. */
const read = defineScript(
  "audit_read",
  "no-writes",
  `
local found = redis.pcall('ZREVRANGEBYLEX', KEYS[1], ARGV[1], '-', 'LIMIT', 0, ARGV[2])
if found.err then return {} end
for i, member in ipairs(found) do
  if #member > ${LONGEST_MEMBER} then found[i] = string.sub(member, 1, 64) end
end
return found`,
);

type SharedAuditOptions = Pick<TableParts, "connection" | "clock">;

/** What operators did, in Redis: each record once, read in pages. */
export class SharedAudit implements AuditPort {
  private readonly options: SharedAuditOptions;
  private readonly unwritten = new Map<string, string>();
  private writing: Promise<void> | undefined;
  private cancelTimer: CancelTimer | undefined;

  constructor(options: SharedAuditOptions) {
    this.options = options;
  }

  record(id: string, text: string): void {
    if (text.length > LONGEST_RECORD) return;
    // Last in the map, so that it is still to come when an earlier text of it is being written.
    this.unwritten.delete(id);
    this.unwritten.set(id, text);
    for (const oldest of this.unwritten.keys()) {
      if (this.unwritten.size <= MOST_UNWRITTEN) break;
      this.unwritten.delete(oldest);
    }
    void this.writeAll();
  }

  async records({ before, limit }: RecordPage): Promise<FoundRecords | undefined> {
    const { connection } = this.options;
    const args = [before === undefined ? "+" : `(${before}`, limit];
    try {
      const call = { script: read, keys: [connection.keys.audit], args };
      const members = (await connection.run(call, READ_TIMEOUT)) as readonly string[];
      const records = members.map((member) => this.open(member)).filter((record) => record !== undefined);
      const last = members.length < limit ? undefined : /^\S{1,64}/.exec(members.at(-1)!)?.[0];
      return { records, unreadable: members.length - records.length, last };
    } catch {
      return undefined;
    }
  }

  /** There is a connection, new or again. */
  connected(): void {
    void this.writeAll();
  }

  async close(): Promise<void> {
    await valueWithin(this.writing ?? Promise.resolve(), CLOSE_TIMEOUT, this.options.clock);
    this.cancelTimer?.();
  }

  /** Resolves when nothing is left to be written, or Redis did not take it. */
  private writeAll(): Promise<void> {
    this.cancelTimer?.();
    this.writing ??= this.writeEach().then(
      () => {
        this.writing = undefined;
        return this.unwritten.size > 0 ? this.writeAll() : undefined;
      },
      () => {
        this.writing = undefined;
        this.cancelTimer = this.options.clock.after(AGAIN_AFTER, () => void this.writeAll());
      },
    );
    return this.writing;
  }

  private async writeEach(): Promise<void> {
    const { connection, clock } = this.options;
    const key = connection.keys.audit;
    for (const [id, text] of this.unwritten) {
      const member = `${id} ${connection.seals.seal({ kind: "audit", key, field: id }, text)}`;
      const first = String(Math.floor(clock.wallNow() - KEPT_FOR));
      await connection.run({ script: write, keys: [key], args: [id, member, first, MOST_KEPT] });
      if (this.unwritten.get(id) === text) this.unwritten.delete(id);
    }
  }

  /** Undefined: it is not the gateway's, or sealed with a key that is gone. */
  private open(member: string): string | undefined {
    const { keys, seals } = this.options.connection;
    const [, id, sealed] = FORM.exec(member) ?? [];
    return id === undefined ? undefined : seals.open({ kind: "audit", key: keys.audit, field: id }, sealed!)?.text;
  }
}
