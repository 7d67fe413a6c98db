import { clientGone } from "./errors.ts";

/** Milliseconds on one of the gateway's own clocks ({@link Clock.now} where none is named); only differences have meaning. */
export type Instant = number;

/** Milliseconds. */
export type Duration = number;

export const DAY: Duration = 86_400_000;

/** Cancels a timer; calling it again, or after the timer fired, does nothing. */
export type CancelTimer = () => void;

/** A value at once where it is there, without a turn of the event loop. */
export type MaybePromise<T> = T | Promise<T>;

/**
 * The only source of time. Everything takes it as a parameter, so that tests can move it by hand.
 */
export interface Clock {
  /**
   * Milliseconds since an arbitrary origin. Never goes back, and never runs slower than real time: a machine that
   * slept, or whose wall clock was set forward, finds its entries older, never younger.
   */
  now(): Instant;
  /**
   * As {@link now}, but never faster than real time either: what was counted for a window is not over sooner because the
   * wall clock was set forward. A machine that slept finds it older by less than it is.
   */
  steadyNow(): Instant;
  /** Milliseconds since the Unix epoch, for `Date` and `Last-Modified` arithmetic and for people. */
  wallNow(): number;
  /** Calls `fire` once after `delay`. Does not keep the process alive. */
  after(delay: Duration, fire: () => void): CancelTimer;
}

/** A step of the wall clock smaller than this is jitter of its millisecond ticks, not a step. */
const WALL_STEP = 1_000;

/**
 * The real clock: monotonic time, pushed forward whenever the wall clock shows that more time passed than the
 * monotonic clock counted. Linux stops the monotonic clock while a machine is suspended; without this correction an
 * entry would outlive its promise by the length of the sleep.
 */
export function systemClock(): Clock {
  let skew = Date.now() - performance.now();
  let slept = 0;
  return {
    now() {
      const monotonic = performance.now();
      const currentSkew = Date.now() - monotonic;
      const step = currentSkew - skew;
      if (step > WALL_STEP || step < -WALL_STEP) {
        if (step > 0) slept += step;
        skew = currentSkew;
      }
      return monotonic + slept;
    },
    steadyNow: () => performance.now(),
    wallNow: () => Date.now(),
    after(delay, fire) {
      // setTimeout turns a delay beyond 2^31-1 into 1 ms.
      const timer = setTimeout(fire, Math.min(Math.max(delay, 0), 2 ** 31 - 1));
      timer.unref();
      return () => clearTimeout(timer);
    },
  };
}

/** As much of the platform's `AbortSignal` as requests need. */
export interface AbortSignalLike {
  readonly aborted: boolean;
  addEventListener(type: "abort", listener: () => void): void;
  removeEventListener(type: "abort", listener: () => void): void;
}

/**
 * Notifies those who listen, once, that something is not wanted any more: an `AbortController` and its signal in one. To make
 * the platform's for each request, listen to it and collect it took a sixteenth of the CPU of a POST.
 */
export class Abort implements AbortSignalLike {
  private isAborted = false;
  private readonly listeners = new Set<() => void>();

  get aborted(): boolean {
    return this.isAborted;
  }

  abort(): void {
    if (this.isAborted) return;
    this.isAborted = true;
    for (const listener of this.listeners) listener();
    this.listeners.clear();
  }

  addEventListener(_type: "abort", listener: () => void): void {
    if (!this.isAborted) this.listeners.add(listener);
  }

  removeEventListener(_type: "abort", listener: () => void): void {
    this.listeners.delete(listener);
  }
}

/** How long one client waits for what others may wait for too. */
export interface Deadline {
  readonly deadline: Instant;
  /** Aborts when the client goes away. */
  readonly signal?: AbortSignalLike | undefined;
  /** What the client gets when the deadline passes. */
  readonly late: () => Error;
}

/**
 * What `promise` becomes, unless the deadline passes or the client goes away first. The promise itself goes on for the
 * others.
 * @throws what `promise` throws, what `late` makes, or {@link clientGone}.
 */
export function withDeadline<T>(promise: Promise<T>, { deadline, signal, late }: Deadline, clock: Clock): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const settle = (): void => {
      cancelTimer();
      signal?.removeEventListener("abort", leave);
    };
    const fail = (error: Error): void => {
      settle();
      reject(error);
    };
    const leave = (): void => fail(clientGone());
    const cancelTimer = clock.after(deadline - clock.now(), () => fail(late()));
    passOn(promise, { resolve, reject }, settle);
    if (signal?.aborted === true) leave();
    else signal?.addEventListener("abort", leave);
  });
}

/** Nothing came back in time. */
export class TimedOut extends Error {
  constructor(timeout: Duration) {
    super(`no reply within ${timeout} ms`);
    this.name = "TimedOut";
  }
}

/** Into so many parts a wait for a reply is cut. */
const SLICES = 5;

/**
 * What `promise`, a reply on a socket, becomes, or a rejection with {@link TimedOut} after `timeout`.
 *
 * Only time in which this process could have read the reply counts: the wait is cut into slices, and a pause of ours
 * (a burst of requests, garbage) lengthens the one it falls into. Else every burst would look like a slow Redis, just
 * when sharing counts most.
 */
export function withReply<T>(promise: Promise<T>, timeout: Duration, clock: Clock): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    let elapsed = 0;
    let cancel: CancelTimer;
    const wait = (): void => {
      cancel = clock.after(timeout / SLICES, () => {
        elapsed += 1;
        if (elapsed < SLICES) wait();
        // Sockets are read between timers and immediates: what has arrived by now is in time.
        else setImmediate(() => reject(new TimedOut(timeout)));
      });
    };
    wait();
    passOn(promise, { resolve, reject }, () => cancel());
  });
}

/** Waits until `work` has ended, well or not, but no longer than `timeout`. Says whether it has. Never rejects. */
export function settledWithin(work: Promise<unknown>, timeout: Duration, clock: Clock): Promise<boolean> {
  return new Promise((resolve) => {
    const cancel = clock.after(timeout, () => resolve(false));
    const settle = (): void => {
      cancel();
      resolve(true);
    };
    work.then(settle, settle);
  });
}

/** What `promise` becomes, or undefined when it is still open after `timeout`. */
export function valueWithin<T>(promise: Promise<T>, timeout: Duration, clock: Clock): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const cancel = clock.after(timeout, () => resolve(undefined));
    passOn(promise, { resolve, reject }, cancel);
  });
}

/** Resolves after `duration`. */
export function sleep(duration: Duration, clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    clock.after(duration, resolve);
  });
}

/** Settles as `promise` does, after `over` was called. */
function passOn<T>(
  promise: Promise<T>,
  { resolve, reject }: Pick<PromiseWithResolvers<T>, "resolve" | "reject">,
  over: () => void,
): void {
  promise.then(
    (value) => {
      over();
      resolve(value);
    },
    (reason: unknown) => {
      over();
      reject(reason instanceof Error ? reason : new Error(String(reason)));
    },
  );
}
