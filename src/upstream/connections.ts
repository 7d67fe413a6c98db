import type { Clock, Duration } from "../clock.ts";
import { openLink } from "./link.ts";
import type { Link, LinkTarget } from "./link.ts";

/** A connection older than this is replaced, so that names are resolved and certificates are read anew. */
const LINK_TTL: Duration = 60_000;

/**
 * The connections to one node. Each serves one call at a time, so that nothing ever waits in a queue where its
 * deadline could not reach it; how many there may be is the caller's to bound.
 */
export class Connections {
  private readonly target: LinkTarget;
  private readonly clock: Clock;
  /** The most recently used last. */
  private readonly idle: Link[] = [];
  private readonly busy = new Set<Link>();
  private isClosed = false;

  constructor(target: LinkTarget, clock: Clock) {
    this.target = target;
    this.clock = clock;
  }

  get origin(): string {
    return this.target.origin;
  }

  /** A connection for one call. Give it back with {@link release} or {@link discard}. */
  take(): Link {
    const oldest = this.clock.now() - LINK_TTL;
    let link = this.idle.pop();
    while (link !== undefined && link.openedAt < oldest) {
      link.destroy();
      link = this.idle.pop();
    }
    link ??= openLink(this.target, this.clock);
    this.busy.add(link);
    return link;
  }

  /** The call on `link` is over; the connection may serve another. */
  release(link: Link): void {
    if (!this.busy.delete(link)) return;
    if (this.isClosed) link.destroy();
    else this.idle.push(link);
  }

  /**
   * The call on `link` failed; the connection may be opened again for another, but not before undici, which is still in
   * the middle of telling us, is done with it.
   */
  releaseAfterError(link: Link): void {
    queueMicrotask(() => this.release(link));
  }

  /** The call on `link` was given up before it was sent: nothing else can be done with the connection. */
  discard(link: Link): void {
    this.busy.delete(link);
    link.destroy();
  }

  /** Closes idle connections now and the others when their calls are over. */
  close(): void {
    this.isClosed = true;
    for (const link of this.idle.splice(0)) link.destroy();
  }
}
