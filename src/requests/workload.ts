import type { ServerResponse } from "node:http";
import { monitorEventLoopDelay, performance } from "node:perf_hooks";
import type { FastifyInstance } from "fastify";
import { type CancelTimer, type Clock, type Duration, settledWithin, sleep } from "../clock.ts";
import { GatewayError } from "../errors.ts";
import type { ClientConnections } from "../connections/connections.ts";
import type { RequestContext } from "./context.ts";
import { commonFieldsOf, errorAnswer, sendAnswer } from "./send.ts";

/** The requests that a listener is working on; fresh memory hits are never among them. */
export class InFlight {
  /** The process is about to end: each answer is the last of its connection. */
  isDraining = false;
  /**
   * By slot, which is used again. Not a map: one that is added to and deleted from all the time leaves a chain of old
   * tables behind, each of which keeps what was in it until the next full garbage collection.
   */
  private readonly slots: (RequestContext | undefined)[] = [];
  private readonly free: number[] = [];
  private readonly waiting = new Set<{ readonly left: Set<ServerResponse>; readonly resolve: () => void }>();

  get size(): number {
    return this.slots.length - this.free.length;
  }

  all(): RequestContext[] {
    return this.slots.filter((running) => running !== undefined);
  }

  /** Notes a request that begins; returns what is to be called when it is over. */
  begin(context: RequestContext): () => void {
    const slot = this.free.pop() ?? this.slots.length;
    this.slots[slot] = context;
    return () => this.end(slot, context.response);
  }

  /** Resolves when all that run now are over; those that begin later don't count. */
  settled(): Promise<void> {
    const running = this.all();
    if (running.length === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.waiting.add({ left: new Set(running.map(({ response }) => response)), resolve });
    });
  }

  private end(slot: number, response: ServerResponse): void {
    this.slots[slot] = undefined;
    this.free.push(slot);
    for (const waiter of this.waiting) {
      waiter.left.delete(response);
      if (waiter.left.size > 0) continue;
      this.waiting.delete(waiter);
      waiter.resolve();
    }
  }
}

/**
 * Once nothing runs any more, connections that never carried a request are given so long for one that is on its way.
 * Node takes them for busy, and would wait for their head until `listen.headersTimeout`.
 */
const UNUSED_CONNECTION_GRACE: Duration = 1_000;

/** An answer given at the last moment is to leave the machine before its connection is cut. */
const FLUSH_TIMEOUT: Duration = 1_000;

/** How often it is looked whether requests came on connections that were open. */
const LATE_REQUEST_LOOK_EVERY: Duration = 20;

export interface DrainOptions {
  readonly listener: FastifyInstance;
  readonly connections: Pick<ClientConnections, "closeAll" | "isSending" | "settled">;
  readonly inFlight: InFlight;
  readonly clock: Clock;
  /** What still runs after so long is refused. */
  readonly timeout: Duration;
}

/**
 * Stops accepting connections, closes idle ones at once and busy ones after their answer, which has to say
 * `Connection: close`. Resolves when no connection is left: after `timeout` and little more at the latest.
 */
export async function drain({ listener, connections, inFlight, clock, timeout }: DrainOptions): Promise<void> {
  const deadline = clock.now() + timeout;
  // Node takes connections for idle whose answer has ended, and is on its way.
  const closed = settledWithin(connections.settled(), timeout, clock).then(() => stopAccepting(listener, connections));
  let isClosed = false;
  void closed.then(() => {
    isClosed = true;
  });

  let idleSince = clock.now();
  for (;;) {
    const now = clock.now();
    if (inFlight.size > 0 || connections.isSending) idleSince = now;
    if (isClosed || now >= deadline || now - idleSince >= UNUSED_CONNECTION_GRACE) break;
    const step = Math.min(LATE_REQUEST_LOOK_EVERY, deadline - now);
    await Promise.race([closed, sleep(step, clock)]);
  }
  const late = inFlight.settled();
  for (const context of inFlight.all()) refuseLate(context);
  await settledWithin(late, FLUSH_TIMEOUT, clock);
  connections.closeAll();
  await settledWithin(closed, FLUSH_TIMEOUT, clock);
}

/** A turn of the event loop this short leaves little time for connections to come after it has accepted. */
const SHORT_TURN: Duration = 1;

/** How long a short turn is waited for. */
const SHORT_TURN_TIMEOUT: Duration = 500;

/**
 * Closes the socket right after a short turn of the loop has accepted what waited there: what comes between accepting and
 * closing, the kernel resets. Resolves when the last connection is closed.
 */
function stopAccepting(listener: FastifyInstance, connections: DrainOptions["connections"]): Promise<unknown> {
  const { promise: closed, resolve } = Promise.withResolvers<unknown>();
  const close = (): void => {
    const socketClosed = new Promise((settle) => listener.server.close(settle));
    resolve(Promise.all([socketClosed, listener.close()]));
  };
  const latest = performance.now() + SHORT_TURN_TIMEOUT;
  const endTurn = (startedAt: number): void => {
    const now = performance.now();
    if ((now - startedAt < SHORT_TURN && !connections.isSending) || now >= latest) close();
    else setImmediate(endTurn, now);
  };
  setImmediate(() => setImmediate(endTurn, performance.now()));
  return closed;
}

/** Answers a request for which there is no time left; one whose answer has begun can only be cut off. */
function refuseLate(context: RequestContext): void {
  const { request, response } = context;
  if (response.headersSent) {
    response.destroy();
    return;
  }
  context.outcome = "refused";
  context.error = new GatewayError(
    "stopping",
    "the gateway is being stopped and could not wait any longer; try again",
    { retryAfter: 1 },
  );
  sendAnswer(request, response, errorAnswer(context.error, context.id), commonFieldsOf(context, true));
}

/** How an event loop did since it was last asked. */
export interface LoopLoad {
  /** How late it was, at 99 of 100 looks at most so late. */
  readonly delay: Duration;
  /** The share of time, from 0 to 1, in which it had something to do. */
  readonly utilization: number;
}

/** Between two looks at the loop. */
const LOOK_EVERY: Duration = 500;

/**
 * A loop this late adds as much to every step of a request, and a miss has about five: seconds of waiting that no
 * registry caused. A thousand requests of a tenth of a millisecond at once make it late by a tenth of a second, and by
 * more where clients share its core: slow, but it gets through.
 */
const TOO_LATE: Duration = 500;

/** A loop that is late and not busy is kept waiting by others on the machine: to refuse work would win nothing. */
const BUSY = 0.9;

/** So many looks in a row, two seconds: one pause of the garbage collector or of the machine is no overload. */
const LOOKS_TO_SHED = 4;

/** It ends where half as much is left, for two seconds: what was shed comes back at once. */
const RECOVERED: Duration = 250;
const LOOKS_TO_RECOVER = 4;

const UNMEASURED: LoopLoad = { delay: 0, utilization: 0 };

/** Seconds after which clients may try again: longer than it takes to recover. */
const RETRY_AFTER = 3;

export interface OverloadOptions {
  readonly clock: Clock;
  /** Where the loop is not measured, nothing is ever refused. */
  readonly load?: (() => LoopLoad) | undefined;
  /** Told when shedding begins or ends, and how late the loop was then. */
  readonly onChange: (isShedding: boolean, delay: Duration) => void;
  /** Told of everything that is refused. */
  readonly onShed: (kind: ShedKind) => void;
}

/** What is refused: metadata that is not cached, or a call that is passed on. */
export type ShedKind = "metadata" | "call";

/**
 * Whether this process has more to do than it can. While it has, work that only this process can end is refused, so
 * that what costs next to nothing, memory hits and probes, goes on as if nothing were.
 */
export class Overload {
  private readonly options: OverloadOptions;
  private cancel: CancelTimer = () => {};
  private late = 0;
  private calm = 0;
  private shedding = false;
  private latest = UNMEASURED;

  constructor(options: OverloadOptions) {
    this.options = options;
  }

  get isShedding(): boolean {
    return this.shedding;
  }

  /** How late the loop was when it was last looked at. */
  get delay(): Duration {
    return this.latest.delay;
  }

  /** How the loop did when it was last looked at. */
  get load(): LoopLoad {
    return this.latest;
  }

  start(): void {
    this.cancel = this.options.clock.after(LOOK_EVERY, () => {
      this.look();
      this.start();
    });
  }

  stop(): void {
    this.cancel();
  }

  readonly refuseMetadata = (): void => this.refuseWork("metadata");

  /** @throws GatewayError 503 while this process has too much to do. */
  refuseWork(kind: ShedKind): void {
    if (!this.shedding) return;
    this.options.onShed(kind);
    throw new GatewayError("overloaded", `the gateway has too much to do just now; try again in ${RETRY_AFTER} s`, {
      retryAfter: RETRY_AFTER,
    });
  }

  private look(): void {
    this.latest = this.options.load?.() ?? UNMEASURED;
    const { delay, utilization } = this.latest;
    this.late = delay > TOO_LATE && utilization > BUSY ? this.late + 1 : 0;
    this.calm = delay < RECOVERED ? this.calm + 1 : 0;
    const isShedding = this.shedding ? this.calm < LOOKS_TO_RECOVER : this.late >= LOOKS_TO_SHED;
    if (isShedding === this.shedding) return;
    this.shedding = isShedding;
    this.options.onChange(isShedding, delay);
  }
}

/** Milliseconds between two samples of the loop. */
const RESOLUTION = 10;

/** Measures this process's event loop from now on; each call tells of the time since the one before. */
export function measureLoop(): () => LoopLoad {
  const histogram = monitorEventLoopDelay({ resolution: RESOLUTION });
  histogram.enable();
  let before = performance.eventLoopUtilization();
  return () => {
    // It measures from sample to sample, in nanoseconds: a loop that is never late shows the resolution.
    const delay = Math.max(0, histogram.percentile(99) / 1e6 - RESOLUTION);
    histogram.reset();
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, before);
    before = now;
    return { delay, utilization };
  };
}
