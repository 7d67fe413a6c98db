import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { performance } from "node:perf_hooks";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Slot } from "../clients/client.ts";
import { GatewayError, isClientGone, toGatewayError } from "../errors.ts";
import type { ClientConnections } from "./connections.ts";
import { beginContext, clientClosed, type RequestContext, requestIdOf, type Services } from "./context.ts";
import { framingProblem, hasUnreadBody, isBroken, isFramedSafely } from "./framing.ts";
import {
  type Admission,
  admit,
  admitRepeated,
  holdUntilClosed,
  needsNoClient,
  NOT_YET_ADMITTED,
  sendRefusal,
  sendRefusalAgain,
  tooManyAtOnce,
  waitAtGate,
} from "./gate.ts";
import { createHitAnswers, type HitAnswers } from "./hit.ts";
import { cacheStatusOfError } from "./refusals.ts";
import type { RepeatedRequest } from "./repeated-head.ts";
import { type Answer, commonFieldsOf, errorAnswer, sendAnswer } from "./send.ts";
import type { Snapshot } from "./snapshot.ts";
import type { InFlight } from "./workload.ts";

/** Answers the requests of one route; what it throws is answered as an error. */
export type AnswerRoute = (context: RequestContext, body: unknown) => Promise<Answer>;

/** A request as the server hands it over. */
interface Received {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Chooses one of the routes. */
  readonly route: RequestListener;
}

/** The path of a client's request: {@link receive}, read, route, {@link answerBy}, record. */
export class Pipeline {
  private readonly services: Services;
  private readonly inFlight: InFlight;
  private readonly connections: ClientConnections;
  private readonly hits: HitAnswers;
  private readonly turn = new Turn();

  /** @param connections of the clients */
  constructor(services: Services, inFlight: InFlight, connections: ClientConnections) {
    this.services = services;
    this.inFlight = inFlight;
    this.connections = connections;
    this.hits = createHitAnswers(services);
    connections.answerRepeats({
      begin: (request) => (this.turn.arrive() ? this.turn.atEnd(request.serve) : request.serve()),
      answer: (request) => this.answerRepeatedSafely(request),
    });
  }

  /**
   * Answers fresh hits, at once where few requests come at a time. The others wait until all that has arrived in this
   * turn is read, and go to `route`, which chooses one of the routes.
   */
  receive(route: RequestListener): RequestListener {
    return (request, response) => {
      const received = { request, response, route };
      try {
        const snapshot = this.services.snapshot();
        const isCrowded = this.turn.arrive();
        if (snapshot.clients !== undefined) this.receiveFrom(snapshot, received, isCrowded);
        else if (isCrowded) this.turn.atEnd(() => this.serve(received));
        else if (!this.answerHit(received)) this.turn.atEnd(() => this.read(received));
      } catch (error) {
        refuse(this.begin(request, response), toGatewayError(error));
      }
    };
  }

  /** Refuses a request that expects something other than `100-continue`. */
  readonly refuseExpectation: RequestListener = (request, response) => {
    const text = "the only expectation the gateway meets is 100-continue";
    refuseAndClose(this.begin(request, response), new GatewayError("expectation_failed", text));
  };

  /** A handler of Fastify's that answers by `answer`: at the end of a turn, as requests are read. */
  answerBy(answer: AnswerRoute): (request: FastifyRequest, reply: FastifyReply) => Promise<void> {
    return async ({ context, body }, reply) => {
      reply.hijack();
      const { trace } = context;
      let found: Answer | GatewayError;
      try {
        found = await (trace === undefined ? answer(context, body) : trace.run(() => answer(context, body)));
      } catch (error) {
        found = toGatewayError(error);
      }
      this.turn.atEnd(() => replyWith(context, found));
    };
  }

  /** The same where it makes a difference who asks: that is found out before anything else. */
  private receiveFrom(snapshot: Snapshot, received: Received, isCrowded: boolean): void {
    const { request } = received;
    const isSafe = isFramedSafely(request);
    if (needsNoClient(request, snapshot) || (!isSafe && framingProblem(request) !== undefined)) {
      this.turn.atEnd(() => this.read(received));
      return;
    }
    const known = snapshot.hits.find(request.url!);
    const admission = admit(snapshot.clients!, request, known !== undefined);
    if (admission instanceof Promise) {
      // Handled before it is waited for: it may be settled by then.
      const settled = admission.catch((error: unknown) => ({ ...NOT_YET_ADMITTED, refusal: toGatewayError(error) }));
      this.turn.atEnd(() => this.readLater(received, settled));
    } else if (admission.refusal !== undefined) this.refuseAtGate(received, admission, known?.operation ?? "none");
    else if (!isSafe) this.turn.atEnd(() => this.read(received, admission));
    else if (isCrowded) this.turn.atEnd(() => this.serve(received, admission));
    else if (!this.answerHit(received, admission)) this.turn.atEnd(() => this.read(received, admission));
  }

  private answerHit({ request, response }: Received, admission?: Admission): boolean {
    if (!this.hits.answer(request, response, admission)) return false;
    this.connections.noteAnswered(request, response);
    return true;
  }

  /** What is wrong before anything is sent, the routes say too, and to whom it is to be said. */
  private answerRepeatedSafely(request: RepeatedRequest): boolean {
    const { bytesWritten } = request.socket;
    try {
      return this.answerRepeated(request);
    } catch {
      if (request.socket.bytesWritten === bytesWritten) return false;
      request.socket.destroy();
      return true;
    }
  }

  /** Answers a request whose head came before, by a hit or a refusal at the gate; false where it takes more than that. */
  private answerRepeated(request: RepeatedRequest): boolean {
    const { inFlight, services } = this;
    const snapshot = services.snapshot();
    const known = snapshot.hits.find(request.url!);
    if (known === undefined || inFlight.isDraining) return false;
    if (snapshot.clients === undefined) return this.hits.answerAgain(request);
    const startedAt = services.clock.now();
    const admission = admitRepeated(snapshot.clients, request);
    if (admission === undefined) return false;
    const { client, standing, refusal: error } = admission;
    if (error === undefined) return this.hits.answerAgain(request, admission);
    const { operation } = known;
    const id = requestIdOf(request.headers["x-request-id"]);
    const answer = sendRefusalAgain(error, { id, snapshot, request, standing, now: services.clock.wallNow() });
    if (answer === undefined) return false;
    const bytes = answer.body!.length;
    services.observers.recordRefused({ id, request, client, operation, error, startedAt, bytes });
    return true;
  }

  /** At the end of a turn: a fresh hit, or the way of all others. */
  private serve(received: Received, admission?: Admission): void {
    const { request, response } = received;
    try {
      if (response.destroyed || !this.answerHit(received, admission)) this.read(received, admission);
    } catch (error) {
      refuse(this.begin(request, response, admission), toGatewayError(error));
    }
  }

  private read({ request, response, route }: Received, admission?: Admission): void {
    if (isBroken(request)) return;
    const context = this.begin(request, response, admission);
    const problem = framingProblem(request);
    if (problem !== undefined) refuseAndClose(context, problem);
    // The client may have gone in the very turn that brought the request.
    else if (!response.destroyed) this.enter(context, route);
  }

  /** {@link read} for a client that is not known at once. */
  private readLater({ request, response, route }: Received, pending: Promise<Admission>): void {
    if (isBroken(request)) return;
    const context = this.begin(request, response, NOT_YET_ADMITTED);
    this.waitAtGate(context, pending, ({ client, standing, refusal }) => {
      context.client = client;
      context.standing = standing;
      if (refusal !== undefined) refuse(context, refusal);
      else this.enter(context, route);
    });
  }

  /** Lets a request go on to its route, in a place among those of its client that run at once. */
  private enter(context: RequestContext, route: RequestListener): void {
    const { request, response, snapshot, client } = context;
    // A reload may have come since the client was let in.
    const limits = snapshot.clients?.limits;
    if (client === undefined || limits === undefined || client.tier.config.concurrency === undefined) {
      route(request, response);
      return;
    }
    const take = (slot: Slot | undefined): void => {
      if (slot === undefined) refuse(context, tooManyAtOnce(client.tier));
      else route(request, response);
    };
    const slot = limits.enter(client);
    if (slot instanceof Promise) {
      // Given back whatever becomes of the request, even while it waits.
      const held = slot.then((each) => holdUntilClosed(each, response));
      this.waitAtGate(context, held, take);
    } else take(holdUntilClosed(slot, response));
  }

  private waitAtGate<T>(context: RequestContext, pending: Promise<T>, next: (value: T) => void): void {
    waitAtGate(context, pending)
      .then(next)
      .catch((error: unknown) => refuse(context, toGatewayError(error)));
  }

  /** Answers at once, from what was made before where it can be: a client that is over its limit costs about what hits cost. */
  private refuseAtGate(
    { request, response }: Received,
    { client, standing, refusal }: Admission,
    operation: RequestContext["operation"],
  ): void {
    const startedAt = this.services.clock.now();
    const send = (): void => {
      if (isBroken(request) || response.destroyed) return;
      const snapshot = this.services.snapshot();
      const id = requestIdOf(request.headers["x-request-id"]);
      const isDraining = this.services.inFlight.isDraining;
      const now = this.services.clock.wallNow();
      const answer = sendRefusal({ request, response }, refusal!, { id, snapshot, request, standing, isDraining, now });
      if (operation !== "none") this.connections.noteAnswered(request, response);
      const bytes = answer.body!.length;
      this.services.observers.recordRefused({ id, request, client, operation, error: refusal!, startedAt, bytes });
    };
    // Whether a body is HTTP is known at the end of the turn; and what is written together costs less.
    this.turn.atEnd(send);
  }

  /** Makes the context of a request, and sees to it that its end is counted and logged. */
  private begin(request: IncomingMessage, response: ServerResponse, admission?: Admission): RequestContext {
    const context = beginContext(this.services, request, response, admission);
    const { observers } = this.services;
    observers.traffic.begin();
    if (response.destroyed) observers.record(context);
    else {
      const end = this.inFlight.begin(context);
      response.once("close", () => {
        end();
        observers.record(context);
        clientClosed(context);
      });
    }
    return context;
  }
}

/** Answers a request with an error of the gateway's own. */
export function refuse(context: RequestContext, error: GatewayError): void {
  const { request, response } = context;
  context.error = error;
  if (context.outcome === "bypass") context.outcome = "refused";
  if (isClientGone(error) || response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  const answer = errorAnswer(error);
  const fields = [...answer.fields, ...cacheStatusOfError(context, error)];
  // What is left of a body that was not read would be taken for the next request.
  if (hasUnreadBody(request)) fields.push("connection", "close");
  reply(context, { ...answer, fields });
}

/** The same, where what follows on the connection may be no request. */
function refuseAndClose(context: RequestContext, error: GatewayError): void {
  context.response.shouldKeepAlive = false;
  refuse(context, error);
}

/** Sends what was found; where the sending fails, the client is told so. */
function replyWith(context: RequestContext, found: Answer | GatewayError): void {
  try {
    if (found instanceof Error) refuse(context, found);
    else reply(context, found);
  } catch (error) {
    refuse(context, toGatewayError(error));
  }
}

export function reply(context: RequestContext, answer: Answer): void {
  const { request, response, services } = context;
  context.bytes = answer.body?.length ?? 0;
  sendAnswer(request, response, answer, commonFieldsOf(context, services.inFlight.isDraining));
}

type Task = () => void;

/** Requests of one turn that are cheaper to answer one by one than to put off. */
const FEW = 2;

/**
 * What is to be done at the end of a turn of the event loop, when all that has arrived is read.
 *
 * A server that serves each request as it reads it wakes its peers, clients and registries, one by one, and they are
 * asleep again before it has read the next. One that reads everything first, then writes everything, wakes them once:
 * with many connections that spares a quarter of the CPU of a POST, and waits besides. Nothing waits for a timer, and a
 * request that comes alone is served in the same turn.
 */
export class Turn {
  private readonly tasks: Task[] = [];
  private endedIn = -1;
  /** The turn that brought the last request, how many it brought so far, and how many the one before brought. */
  private latest = -1;
  private arrived = 0;
  private arrivedBefore = 0;

  /**
   * Notes a request that has come.
   *
   * @returns whether several come at a time, as the last turn that brought any tells
   */
  arrive(): boolean {
    const turn = currentTurn();
    if (turn !== this.latest) {
      this.latest = turn;
      this.arrivedBefore = this.arrived;
      this.arrived = 0;
    }
    this.arrived += 1;
    return this.arrivedBefore > FEW;
  }

  /**
   * Runs `task` at the end of this turn, after those that were given before it; at once where that has come: what follows
   * from what is done at the end is not put off again.
   */
  atEnd(task: Task): void {
    if (this.endedIn === currentTurn()) task();
    else if (this.tasks.push(task) === 1) setImmediate(this.end);
  }

  private readonly end = (): void => {
    const { tasks } = this;
    this.endedIn = currentTurn();
    let done = 0;
    try {
      while (done < tasks.length) tasks[done++]!();
    } finally {
      tasks.splice(0, done);
      // One that threw takes nothing from the others.
      if (tasks.length > 0) setImmediate(this.end);
    }
  };
}

/** The number of this turn of the event loop; it grows before sockets are read. */
function currentTurn(): number {
  return performance.nodeTiming.uvMetricsInfo.loopCount;
}
