import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Slot } from "../clients/client.ts";
import { formatCacheStatus } from "../cache/rfc/reuse.ts";
import { framingProblem, hasBody, hasUnreadBody, isInOnePiece } from "../connections/framing.ts";
import { GatewayError, isClientGone, toGatewayError } from "../errors.ts";
import { beginContext, clientClosed, type RequestContext, type Services } from "./context.ts";
import {
  type Admission,
  admit,
  holdUntilClosed,
  needsNoClient,
  NOT_YET_ADMITTED,
  tooManyAtOnce,
  waitAtGate,
} from "./gate.ts";
import { type AnswerHit, createHitAnswers } from "./hit.ts";
import { type Answer, commonFieldsOf, errorAnswer, reportOf, sendAnswer, withRequestId } from "./send.ts";
import { isKeptExtraPath } from "./target.ts";

/** So many bodies in pieces may be unread while their clients are not known: up to 4 MiB each, in chunks of a byte. */
const MOST_UNREAD = 32;

/** Answers the requests of one route; what it throws is answered as an error. Undefined: it sends the answer itself. */
export type AnswerRoute = (context: RequestContext, body: unknown) => Promise<Answer | undefined>;

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
  private readonly answerHit: AnswerHit;
  /** Bodies in pieces of requests that wait to be let in. */
  private unread = 0;

  constructor(services: Services) {
    this.services = services;
    this.answerHit = createHitAnswers(services);
  }

  /** Answers fresh hits; the others go to `route`, which chooses one of the routes. */
  receive(route: RequestListener): RequestListener {
    return (request, response) => {
      const received = { request, response, route };
      try {
        const snapshot = this.services.snapshots.latest;
        const problem = framingProblem(request);
        if (problem !== undefined) refuseAndClose(this.begin(request, response), problem);
        else if (snapshot.clients === undefined || needsNoClient(request, snapshot)) this.read(received);
        else {
          const admission = admit(snapshot.clients, request, snapshot.hits);
          if (admission instanceof Promise) this.readLater(received, admission);
          else this.read(received, admission);
        }
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

  /** A handler of Fastify's that answers by `answer`. */
  answerBy(answer: AnswerRoute): (request: FastifyRequest, reply: FastifyReply) => Promise<void> {
    return async ({ context, body }, reply) => {
      reply.hijack();
      const { trace } = context;
      let found: Answer | GatewayError | undefined;
      try {
        found = await (trace === undefined ? answer(context, body) : trace.run(() => answer(context, body)));
      } catch (error) {
        found = toGatewayError(error);
      }
      if (found !== undefined) replyWith(context, found);
    };
  }

  private read({ request, response, route }: Received, admission?: Admission): void {
    if (admission?.refusal === undefined && this.isHit(request, response, admission)) return;
    this.enter(this.begin(request, response, admission), route, admission?.refusal);
  }

  /** Answers where it is a fresh hit: see {@link AnswerHit}. */
  private isHit(request: IncomingMessage, response: ServerResponse, admission?: Admission): boolean {
    const isRead = request.method === "GET" || request.method === "HEAD";
    return isRead && !hasBody(request) && this.answerHit(request, response, admission);
  }

  /** {@link read} for a client that is not known at once. */
  private readLater({ request, response, route }: Received, pending: Promise<Admission>): void {
    const context = this.begin(request, response, NOT_YET_ADMITTED);
    this.waitAtGate(context, pending, ({ client, limitState, refusal }) => {
      context.client = client;
      context.limitState = limitState;
      this.enter(context, route, refusal);
    });
  }

  /** Lets a request that is not refused go on to its route, in a place among those of its client that run at once. */
  private enter(context: RequestContext, route: RequestListener, refusal: GatewayError | undefined): void {
    if (refusal !== undefined) {
      refuse(context, refusal);
      return;
    }
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
    const isHeavy = !isInOnePiece(context.request);
    if (isHeavy && this.unread >= MOST_UNREAD) {
      refuse(context, new GatewayError("overloaded", "too many bodies wait; try again", { retryAfter: 1 }));
      return;
    }
    if (isHeavy) this.unread += 1;
    waitAtGate(context, pending)
      .finally(() => {
        if (isHeavy) this.unread -= 1;
      })
      .then(next)
      .catch((error: unknown) => refuse(context, toGatewayError(error)));
  }

  /** Makes the context of a request, and sees to it that its end is counted and logged. */
  private begin(request: IncomingMessage, response: ServerResponse, admission?: Admission): RequestContext {
    const context = beginContext(this.services, request, response, admission);
    const { observers } = this.services;
    observers.traffic.begin();
    if (response.destroyed) observers.record(context);
    else {
      const end = this.services.inFlight.begin(context);
      response.once("close", () => {
        end();
        observers.record(context);
        clientClosed(context);
      });
    }
    return context;
  }
}

/** Answers a request with an error of the gateway's own, unless a stop has answered it. */
export function refuse(context: RequestContext, error: GatewayError): void {
  const { response } = context;
  if (response.writableEnded) return;
  context.error = error;
  if (context.outcome === "bypass") context.outcome = "refused";
  if (isClientGone(error) || response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  const answer = errorAnswer(error, context.id);
  reply(context, { ...answer, fields: [...answer.fields, ...cacheStatusOfError(context, error)] });
}

/** The same, where what follows on the connection may be no request. */
function refuseAndClose(context: RequestContext, error: GatewayError): void {
  context.response.setHeader("connection", "close");
  refuse(context, error);
}

/** Sends what was found; where the sending fails, the client learns so. */
function replyWith(context: RequestContext, found: Answer | GatewayError): void {
  try {
    if (found instanceof Error) refuse(context, found);
    else reply(context, found);
  } catch (error) {
    refuse(context, toGatewayError(error));
  }
}

export function reply(context: RequestContext, found: Answer): void {
  const { request, response, services } = context;
  const answer = context.error === undefined ? noteOwnError(context, found) : found;
  context.bytes = answer.body?.length ?? 0;
  const common = commonFieldsOf(context, services.inFlight.isDraining);
  // What is left of a body that was not read would be taken for the next request.
  if (hasUnreadBody(request)) common.push("connection", "close");
  sendAnswer(request, response, answer, common);
}

/** A registry's error in our words has its code in the log and the metrics, too. */
function noteOwnError(context: RequestContext, answer: Answer): Answer {
  const now = context.services.clock.wallNow();
  const report = reportOf(answer, now);
  if (report === undefined) return answer;
  context.error = new GatewayError(report.code, report.message, { status: answer.status });
  return withRequestId(answer, context.id, now);
}

/** Of an error on a cached route for which no upstream was asked. */
const NOT_FORWARDED = "registry-gateway;detail=refused";

/**
 * On cached routes every answer says what the cache did (RFC 9211). A 502 or 504 came of going forward; what was refused
 * before that, by `only-if-cached`, a circuit breaker or a limit, neither hit nor went anywhere.
 */
function cacheStatusOfError(context: RequestContext, { status }: GatewayError): string[] {
  const { target, upstream, forwarded } = context;
  if (target instanceof Error || target.kind === "local") return [];
  const isCached = target.kind === "endpoint" ? target.endpoint.kind === "metadata" : isKeptExtraPath(target);
  if (!isCached || upstream === undefined) return [];
  const wentForward = forwarded !== undefined && (status === 502 || status === 504);
  return ["cache-status", wentForward ? formatCacheStatus(forwarded) : NOT_FORWARDED];
}
