import type { Clock } from "../clock.ts";
import type { Logger } from "./log.ts";

/** The latest requests that are kept, some 300 kB of them. */
const MAX_RECENT = 500;

/** A request as its log line shows it: no query, no address, no credential, ids as hashes. */
export interface RecentRequest {
  /** When it was over. */
  readonly at: string;
  readonly requestId: string;
  readonly traceId?: string;
  readonly method: string;
  readonly operation: string;
  /** The alias; `none` where no upstream was found. */
  readonly upstream: string;
  readonly status: number;
  readonly outcome: string;
  /** It got the answer of another request's call. */
  readonly collapsed?: boolean;
  /** Both absent of hits in memory. */
  readonly durationMs?: number;
  /** Of the answer's body. */
  readonly bytes?: number;
  /** Absent where `clients` is not configured. */
  readonly client?: string;
  /** Hashes of the ids that the path named. */
  readonly instrument?: string;
  readonly contract?: string;
  /** Of an error of the gateway's own: its code, its reason in `Proxy-Status`, and what was behind it. */
  readonly code?: string;
  readonly reason?: string | undefined;
  readonly cause?: string | undefined;
}

/** What a request's log line says of it. */
export type RequestLine = Omit<RecentRequest, "at">;

/** Which requests are meant: those that are as every key says; at most `limit`. */
export interface RequestFilter {
  readonly limit: number;
  /** The {@link RequestsReport.cursor} of an earlier answer: only what came after it. */
  readonly since?: string;
  readonly outcome?: string;
  readonly code?: string;
  readonly upstream?: string;
  readonly client?: string;
}

/** What `GET /requests` answers. */
export interface RequestsReport {
  /** The latest first. */
  readonly requests: readonly RecentRequest[];
  /** Names the end of this answer: `since` of the next question. */
  readonly cursor: string;
  /** Requests after `since` that are kept no more: there were too many between two questions. 0 without `since`. */
  readonly missed: number;
}

/** The latest requests that were logged, or would have been at another level: a ring. */
export class RecentRequests {
  private readonly clock: Clock;
  private readonly times = new Float64Array(MAX_RECENT);
  private readonly lines: RequestLine[] = [];
  /** Distinguishes the cursors of this process from those of one that began earlier. */
  private readonly origin: string;
  private count = 0;

  constructor(clock: Clock) {
    this.clock = clock;
    this.origin = Math.floor(clock.wallNow()).toString(36);
  }

  /** Keeps a request's line, which changes no more. */
  note(line: RequestLine): void {
    const place = this.count % MAX_RECENT;
    this.times[place] = this.clock.wallNow();
    this.lines[place] = line;
    this.count += 1;
  }

  /** The latest first. A `since` of another process counts as absent. */
  latest({ limit, since, ...wanted }: RequestFilter): RequestsReport {
    const after = since === undefined ? 0 : this.countAt(since);
    const oldest = Math.max(0, this.count - MAX_RECENT);
    const found: RecentRequest[] = [];
    for (let i = this.count - 1; i >= Math.max(oldest, after) && found.length < limit; i--) {
      const place = i % MAX_RECENT;
      const line = this.lines[place]!;
      if (isWanted(line, wanted)) found.push({ at: new Date(this.times[place]!).toISOString(), ...line });
    }
    const missed = since === undefined ? 0 : Math.max(0, oldest - after);
    return { requests: found, cursor: `${this.origin}.${this.count.toString(36)}`, missed };
  }

  private countAt(cursor: string): number {
    const [origin, count] = cursor.split(".", 2);
    const noted = origin === this.origin ? Number.parseInt(count ?? "", 36) : 0;
    return noted <= this.count ? noted : 0;
  }
}

function isWanted(line: RequestLine, wanted: Omit<RequestFilter, "limit" | "since">): boolean {
  return Object.entries(wanted).every(([key, value]) => line[key as keyof typeof wanted] === value);
}

/** The lines of requests: each goes into the log, and is one of the latest for a while. */
export class RequestLog {
  private readonly log: Logger;
  private readonly recent: RecentRequests;

  constructor(log: Logger, recent: RecentRequests) {
    this.log = log;
    this.recent = recent;
  }

  write(line: RequestLine): void {
    this.recent.note(line);
    this.log.info(line, "request");
  }

  /** The line of a request that a fault of the gateway ended. */
  writeFault(line: RequestLine, fault: unknown): void {
    this.recent.note(line);
    this.log.error({ ...line, err: fault }, "request");
  }
}
