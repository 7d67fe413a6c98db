/** So many of the largest body that is accepted may be in memory at once, where that is more. */
const LEAST_BODIES = 4;

export interface HeldBodiesOptions {
  /** Bytes in all. */
  readonly most: number;
  /** A body of no more bytes is not counted. */
  readonly free?: number;
}

/** What is known of a body before it comes. */
export interface HeldBodyTerms {
  /** Bytes of the largest that is accepted. */
  readonly largest: number;
  /** Called, once at most, when others need its room. */
  readonly giveUp: () => void;
}

/** One body that takes memory. */
export interface HeldBody {
  /** So many bytes of it are here now. */
  readonly note: (bytes: number) => void;
  /** All of it is here: it is not given up any more. */
  readonly complete: () => void;
  /** There is no room for it, and nothing on its way that could be given up for it. */
  readonly isTooMuch: () => boolean;
  /** It takes no memory any more, whatever still comes. */
  readonly release: () => void;
}

/** A body that may be given up. */
interface Coming {
  readonly held: () => number;
  readonly release: () => void;
}

/**
 * Bodies that are kept until they are complete, and from then on until nobody needs them, bounded by what they take of memory in
 * all. Beyond it the one that has been on its way longest is given up; one that is complete never is.
 */
export class HeldBodies {
  private readonly most: number;
  private readonly free: number;
  /** Of those that are on their way, the one that has been longest first, by how each is given up. */
  private readonly coming = new Map<() => void, Coming>();
  private bytes = 0;

  constructor({ most, free = 0 }: HeldBodiesOptions) {
    this.most = most;
    this.free = free;
  }

  begin({ largest, giveUp }: HeldBodyTerms): HeldBody {
    let held = 0;
    let isListed = false;
    let isReleased = false;
    const list = (): void => {
      if (!isListed) this.coming.set(giveUp, { held: () => held, release });
      isListed = true;
    };
    const complete = (): void => {
      this.coming.delete(giveUp);
      isListed = true;
    };
    const note = (bytes: number): void => {
      if (isReleased || (bytes <= this.free && held === 0)) return;
      list();
      const more = bytes - held;
      held = bytes;
      this.bytes += more;
      if (more > 0) this.makeRoom(largest);
    };
    const release = (): void => {
      note(0);
      complete();
      isReleased = true;
    };
    return { note, complete, isTooMuch: () => this.isFull(largest), release };
  }

  /** There is no room for more, where a body may have so many bytes. */
  private isFull(largest: number): boolean {
    return this.bytes > Math.max(this.most, LEAST_BODIES * largest);
  }

  private makeRoom(largest: number): void {
    for (const [giveUp, { held, release }] of this.coming) {
      if (!this.isFull(largest)) return;
      // What flows on holds nothing: to give it up makes no room.
      if (held() === 0) continue;
      // Takes it out of the list, too.
      release();
      giveUp();
    }
  }
}
