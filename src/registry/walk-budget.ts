import type { Clock, Duration, Instant } from "../clock.ts";

/** Bounds of one walk: beyond them a listing is too long to be kept. */
const MAX_PAGES = 2_000;
const MAX_BYTES = 32 * 1024 * 1024;
const MAX_TIME: Duration = 300_000;

/** Bytes that all walks together hold at once. */
const MAX_BYTES_OF_ALL = 64 * 1024 * 1024;

/** What all walks of a process may read: the pages of a registry are its own affair, the memory for them is not. */
export class WalkBudget {
  private readonly clock: Clock;
  private held = 0;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** Begins a walk; to be ended when what it read has been let go of. */
  begin(): WalkShare {
    return new WalkShare(this.clock, {
      hold: (bytes) => (this.held += bytes) < MAX_BYTES_OF_ALL,
      release: (bytes) => void (this.held -= bytes),
    });
  }
}

/** What one walk may read. */
export class WalkShare {
  private readonly clock: Clock;
  private readonly all: { hold: (bytes: number) => boolean; release: (bytes: number) => void };
  private readonly endsAt: Instant;
  private pages = 0;
  private bytes = 0;

  constructor(clock: Clock, all: WalkShare["all"]) {
    this.clock = clock;
    this.all = all;
    this.endsAt = clock.now() + MAX_TIME;
  }

  /** Notes a page that was read. False: it has to be the last one. */
  take(bytes: number): boolean {
    this.pages += 1;
    this.bytes += bytes;
    const hasRoom = this.all.hold(bytes);
    return hasRoom && this.pages < MAX_PAGES && this.bytes < MAX_BYTES && this.clock.now() < this.endsAt;
  }

  end(): void {
    this.all.release(this.bytes);
    this.bytes = 0;
  }
}
