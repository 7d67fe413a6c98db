import type { IncomingMessage, ServerResponse } from "node:http";
import type { Client, Identity, Slot, LimitState, Tier } from "../clients/client.ts";
import type { Clients } from "../clients/clients.ts";
import { type Duration, withDeadline } from "../clock.ts";
import { GatewayError } from "../errors.ts";
import { clientSignal, type RequestContext, type Snapshot } from "./context.ts";
import type { HitMemo } from "./hit.ts";
import { isDescription } from "./pages.ts";
import { parseTarget } from "./target.ts";

/** Whether a request may come in, decided before anything is done for it. */
export interface Admission {
  /** Undefined where it is not known who asks. */
  readonly client: Client | undefined;
  readonly limitState: LimitState;
  readonly refusal: GatewayError | undefined;
}

const UNLIMITED: LimitState = { isOver: false, retryAfter: 0, fields: [] };

/** Of a request whose client is still to be found out. */
export const NOT_YET_ADMITTED: Admission = { client: undefined, limitState: UNLIMITED, refusal: undefined };

/** A path, or the URL of one, that may be the description's. */
const MAY_BE_DESCRIPTION = /^(?:[^/]|\/(?:docs|openapi))/;

/** Whether it makes no difference who sends the request: preflights, and the pages that say how to call. */
export function needsNoClient({ method, url }: IncomingMessage, snapshot: Snapshot): boolean {
  if (method === "OPTIONS") return true;
  if (!MAY_BE_DESCRIPTION.test(url!)) return false;
  try {
    const target = parseTarget(url!, snapshot.addressing);
    return target.kind === "local" && isDescription(target.path, snapshot);
  } catch {
    return false;
  }
}

/** Who sends a request, and whether that client may send one now: at once, where it can be known at once. */
export function admit(clients: Clients, request: IncomingMessage, hits: HitMemo): Admission | Promise<Admission> {
  const url = request.url!;
  // One that was answered before was looked at then.
  if (MAY_SHOW_CREDENTIAL.test(url) && hits.find(url) === undefined) {
    const refusal = clients.refuseUrl(url);
    if (refusal !== undefined) return refused(refusal);
  }
  const identity = clients.identify(request);
  if (identity instanceof Promise) return identity.then((each) => admitAs(clients, each, request));
  return admitAs(clients, identity, request);
}

/** What every URL with a credential in it has, and few others: a test of this is cheaper than a closer look. */
const MAY_SHOW_CREDENTIAL = /rgk_|key|token=|%|\.[^./?&]+\./i;

function admitAs(clients: Clients, identity: Identity, request: IncomingMessage): Admission | Promise<Admission> {
  if (identity instanceof GatewayError) return refused(identity);
  const limitState = clients.limits.admit(identity, request.method === "POST");
  if (limitState instanceof Promise) return limitState.then((each) => admissionOf(identity, each));
  return admissionOf(identity, limitState);
}

function refused(refusal: GatewayError): Admission {
  return { client: undefined, limitState: UNLIMITED, refusal };
}

function admissionOf(client: Client, limitState: LimitState): Admission {
  return { client, limitState, refusal: limitState.isOver ? overLimit(client.tier, limitState.retryAfter) : undefined };
}

function overLimit({ name }: Tier, retryAfter: number): GatewayError {
  return new GatewayError(
    "client_rate_limited",
    `this client has sent all requests that its tier ${name} allows for now; try again in ${retryAfter} s`,
    { retryAfter },
  );
}

/** The 429 for a client that has as many requests running as its tier allows. */
export function tooManyAtOnce({ name, config }: Tier): GatewayError {
  return new GatewayError(
    "client_concurrency",
    `${config.concurrency} requests of this client run already, as many as its tier ${name} allows at once; try again ` +
      "when one of them is answered",
    { retryAfter: 1 },
  );
}

/** The longest that it may take to find out who calls, and whether that client may call: longer than any part of it takes. */
const GATE_TIMEOUT: Duration = 5_000;

/** What `pending` becomes; rejects when that takes too long, and when the client leaves meanwhile. */
export function waitAtGate<T>(context: RequestContext, pending: Promise<T>): Promise<T> {
  const { clock } = context.services;
  const deadline = clock.now() + GATE_TIMEOUT;
  return withDeadline(pending, { deadline, signal: clientSignal(context), late: tooSlow }, clock);
}

function tooSlow(): GatewayError {
  const text = "the gateway could not find out in time whether this client may call; try again";
  return new GatewayError("overloaded", text, { retryAfter: 1 });
}

/** Gives a place back when the answer is out, or its client has left. */
export function holdUntilClosed(slot: Slot | undefined, response: ServerResponse): Slot | undefined {
  if (response.closed) slot?.leave();
  else if (slot !== undefined) response.once("close", () => slot.leave());
  return slot;
}
