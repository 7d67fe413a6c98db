import type { RequestLine } from "./request-log.ts";

const MOST_KEPT = 500;

/** The requests that were logged last, or would have been at another level: a ring. */
export class RecentRequests {
  private readonly lines: RequestLine[] = [];
  private next = 0;

  add(line: RequestLine): void {
    this.lines[this.next] = line;
    this.next = (this.next + 1) % MOST_KEPT;
  }

  /** The latest first. */
  all(): RequestLine[] {
    return [...this.lines.slice(this.next), ...this.lines.slice(0, this.next)].toReversed();
  }
}
