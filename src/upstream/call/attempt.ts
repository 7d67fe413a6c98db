import type { Readable } from "node:stream";
import type { HeldBody } from "../../bodies/held-bodies.ts";
import type { Duration, Instant } from "../../clock.ts";
import { type Fields, filterFields } from "../../fields.ts";
import { TRACE_FIELDS } from "../../trace-context.ts";
import { isOfVersion2 } from "../../spec/endpoints.ts";
import type { Poll, StreamedCall } from "../call.ts";
import { answerTimeout, connectTimeout, type Failure, leftAlone } from "../failure.ts";
import type { UpstreamNode } from "../nodes/node.ts";
import type { AttemptKind, AttemptOutcome, AttemptTrace } from "../observer.ts";
import type { UpstreamParts } from "../parts.ts";
import { isOwnRefusal, type ReadingContext } from "../wire/answer.ts";
import { refusedByLimit } from "../wire/connection-failure.ts";
import { type AnswerListener, WireRequest } from "../wire/request.ts";
import type { Moment } from "./further-attempts.ts";

/** What an attempt begins with. */
interface AttemptOptions {
  readonly kind: AttemptKind;
  /** It runs beside an earlier one. */
  readonly isBeside: boolean;
  readonly node: UpstreamNode;
  /** When it was granted by `rateLimit`. */
  readonly startedAt: Instant;
  readonly deadline: Instant;
  /** The gateway's own, if the upstream wants some. */
  readonly credentials: Fields | undefined;
  readonly body: Readable | Buffer | undefined;
  /** The answer to an earlier attempt was to another request: the answer to this one has to be to none. */
  readonly wantsUnused: boolean;
  /** What its answer takes of memory while it is kept. */
  readonly held: HeldBody;
}

/** One request of a call to one node. */
export class Attempt {
  readonly parts: UpstreamParts;
  readonly call: StreamedCall;
  readonly kind: AttemptKind;
  readonly isBeside: boolean;
  readonly node: UpstreamNode;
  readonly startedAt: Instant;
  readonly deadline: Instant;
  readonly request: WireRequest;
  readonly held: HeldBody;
  /** What is to come while it has not ended, in this order; nothing where no other may run beside it. */
  moments: Moment[] = [];
  isOver = false;
  /** Since when nothing is waited for but the node. */
  quietSince: Instant;
  private readonly trace: AttemptTrace | undefined;

  constructor(parts: UpstreamParts, call: StreamedCall, options: AttemptOptions, listener: AnswerListener) {
    const { kind, node, body, startedAt, wantsUnused } = options;
    const { method, operation, path } = call;
    this.parts = parts;
    this.call = call;
    this.kind = kind;
    this.isBeside = options.isBeside;
    this.node = node;
    this.held = options.held;
    this.deadline = options.deadline;
    this.startedAt = startedAt;
    this.quietSince = startedAt;
    this.trace = call.trace?.attempt({ upstream: parts.config.name, operation, method, node: node.index, kind });
    const hasStreamedBody = kind === "stream" && call.body !== undefined;
    const fields = requestFields(call.fields, parts.credentials?.fieldName, options.credentials, hasStreamedBody);
    const sent = this.trace === undefined ? fields : tracedFields(fields, this.trace.fields);
    const request = {
      method,
      path: path.startsWith("/registry/") ? node.basePath + path : path,
      fields: sent,
      body,
      wantsUnused,
      whenOpened: () => this.count(),
    };
    this.request = new WireRequest(node.connections, request, listener);
  }

  send(): void {
    this.node.load.inFlight += 1;
    this.node.load.calls += 1;
    this.request.send();
  }

  /** When something about it has to be decided next. */
  get due(): Instant {
    return Math.min(this.deadline, this.moments[0]?.at ?? Infinity);
  }

  /** How long the node has had, but for the time in which it waited for a client. */
  get elapsed(): Duration {
    return this.parts.clock.now() - this.quietSince;
  }

  /** How it fails when its time is up. */
  get timeout(): Failure {
    return (this.request.isConnected ? answerTimeout : connectTimeout)(this.parts.config.name);
  }

  /** Nothing more is wanted of it. */
  close(reason?: Error): void {
    this.isOver = true;
    this.node.load.inFlight -= 1;
    this.held.release();
    this.request.abort(reason);
  }

  /** It counts in `rateLimit` from now on, for it had to wait for a connection. */
  private count(): undefined | Promise<void> {
    const { rateLimit, clock } = this.parts;
    const { operation, priority, maxWait, signal } = this.call;
    const deadline = Math.min(this.deadline, this.call.deadline);
    return rateLimit?.begin({ operation, priority, maxWait, deadline, signal }, this.startedAt)?.then(() => {
      this.quietSince = clock.now();
    }, refusedByLimit);
  }

  /** Says how it ended. */
  observe(outcome: AttemptOutcome, failure?: Failure): void {
    const { parts, call, kind, node } = this;
    const end = { outcome, reason: failure?.reason, status: this.request.status };
    parts.observer.attempt({
      upstream: parts.config.name,
      operation: call.operation,
      kind,
      node: node.index,
      fields: call.fields,
      seconds: (parts.clock.now() - this.startedAt) / 1_000,
      traceId: this.trace?.id,
      ...end,
    });
    this.trace?.end(end);
  }

  /** Says that it ended with an answer, or with this failure. */
  observeEnd(failure: Failure | undefined): void {
    const { status } = this.request;
    if (failure !== undefined) this.observe("failure", failure);
    else this.observe(status !== undefined && status < 400 ? "success" : "error");
  }
}

/** What a caller may not decide: the framing and the codings are the client's own. */
const OWN: ReadonlySet<string> = new Set([
  "accept-encoding",
  "connection",
  "content-length",
  "expect",
  "host",
  "keep-alive",
  "proxy-authorization",
  "te",
  "transfer-encoding",
  "upgrade",
  "via",
]);

/** Says that the request came over a gateway (RFC 9110 §7.6.3): by which way before that is nobody's business here. */
const VIA = "1.1 registry-gateway";

/**
 * The fields to send: the caller's, identity coding asked for, with `credentials` in place of `credentialField`.
 * `hasStreamedBody`: its length is known only from what the client said of it.
 */
function requestFields(
  fields: Fields,
  credentialField: string | undefined,
  credentials: Fields | undefined,
  hasStreamedBody: boolean,
): string[] {
  const sent = ["accept-encoding", "identity", "via", VIA];
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i]!;
    if (!OWN.has(name) && name !== credentialField) sent.push(name, fields[i + 1]!);
  }
  if (credentials !== undefined) sent.push(...credentials);
  const length = hasStreamedBody ? fields.indexOf("content-length") : -1;
  if (length !== -1) sent.push("content-length", fields[length + 1]!);
  return sent;
}

/** `fields` with those of a trace instead of the client's. */
function tracedFields(fields: Fields, traceFields: Fields): Fields {
  return [...filterFields(fields, (name) => !TRACE_FIELDS.has(name)), ...traceFields];
}

/** Whether 304 may be the answer (RFC 9110 §13.1). */
function isConditional(fields: Fields): boolean {
  return fields.includes("if-none-match") || fields.includes("if-modified-since");
}

/** What has to be known to read an answer of this node. */
export function readingContext({ config, limits }: UpstreamParts, call: StreamedCall, node: number): ReadingContext {
  return {
    upstream: config.name,
    node,
    maxBody: limits.responseBody,
    isConditional: isConditional(call.fields),
    isOwnRefusal: isOwnRefusal(config, call.fields),
    isOptional: isOfVersion2(call.operation),
  };
}

/** What a call wants of the node that is asked next. */
interface Wanted {
  readonly tried: readonly UpstreamNode[];
  /** It is asked beside another. */
  readonly isBeside: boolean;
  readonly pagination?: string | undefined;
  readonly poll?: Poll | undefined;
}

/**
 * The node for the next attempt: one that was not tried; where there is none and nothing runs beside, any.
 * @throws GatewayError 429, 502 or 503 where no node may be asked
 */
export function chooseNode(parts: UpstreamParts, wanted: Wanted): UpstreamNode {
  const { operatorActions, nodes, config, clock } = parts;
  const now = clock.now();
  if (operatorActions.isCacheOnly) throw operatorActions.refusal();
  if (nodes.disabledBecause !== undefined) throw nodes.whyNone();
  const node = wanted.poll === undefined ? findNode(parts, wanted, now) : findPolled(parts, wanted.poll, now);
  if (node === undefined) throw nodes.whyNone();
  if (node.refusesUntil > now) throw leftAlone(config.name, node.refusesUntil - now);
  return node;
}

function findNode({ choice }: UpstreamParts, { tried, pagination, isBeside }: Wanted, now: Instant) {
  return choice.choose(now, tried, pagination) ?? (isBeside ? undefined : choice.choose(now, [], pagination));
}

function findPolled({ choice, nodes }: UpstreamParts, poll: Poll, now: Instant): UpstreamNode | undefined {
  const barred = nodes.all.filter(({ index }) => poll.asked.has(index) || (poll.only ?? index) !== index);
  const node = choice.choose(now, barred);
  if (node === undefined || barred.includes(node)) return undefined;
  poll.asked.add(node.index);
  poll.node = node.index;
  return node;
}
