import type { Clock } from "../clock.ts";

/** Of the latest requests so many are kept, some 300 kB of them. */
const MAX_RECENT = 500;

/** A request as its log line tells it: no query, no address, no credential, ids as hashes. */
export interface RecentRequest {
  /** When it was over. */
  readonly at: string;
  readonly requestId: string;
  readonly operation: string;
  readonly upstream: string;
  readonly status: number;
  readonly outcome: string;
  readonly client?: string;
  readonly code?: string;
}

type Line = Omit<RecentRequest, "at">;

/** Which requests are meant: those that are as every key says; at most `limit`. */
export interface RequestFilter {
  readonly limit: number;
  readonly outcome?: string;
  readonly code?: string;
  readonly upstream?: string;
  readonly client?: string;
}

/** The latest requests that were logged, or would have been at another level: a ring. */
export class RecentRequests {
  private readonly clock: Clock;
  private readonly lines: { readonly at: number; readonly line: Line }[] = [];
  private next = 0;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  note(line: Line): void {
    this.lines[this.next] = { at: this.clock.wallNow(), line };
    this.next = (this.next + 1) % MAX_RECENT;
  }

  /** The latest first. */
  latest({ limit, ...wanted }: RequestFilter): RecentRequest[] {
    const found: RecentRequest[] = [];
    for (let i = 1; i <= this.lines.length && found.length < limit; i++) {
      const { at, line } = this.lines.at((this.next - i) % MAX_RECENT)!;
      if (isWanted(line, wanted)) found.push({ at: new Date(at).toISOString(), ...line });
    }
    return found;
  }
}

function isWanted(line: Line, wanted: Omit<RequestFilter, "limit">): boolean {
  return Object.entries(wanted).every(([key, value]) => line[key as keyof typeof wanted] === value);
}
