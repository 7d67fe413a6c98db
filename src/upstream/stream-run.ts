import { pipeline } from "node:stream";
import type { Readable, Transform } from "node:stream";
import type { CancelTimer, Duration, Instant } from "../clock.ts";
import { GatewayError } from "../errors.ts";
import { fieldValue } from "../fields.ts";
import type { Fields } from "../fields.ts";
import { admit } from "./admission.ts";
import type { Settle } from "./call-run.ts";
import { endToEndFields } from "./answer-fields.ts";
import { findRefusal, undecodable } from "./answer.ts";
import { ClientGone } from "./call.ts";
import type { StreamedAnswer, StreamedCall } from "./call.ts";
import { contentCodings, createDecoders } from "./content-coding.ts";
import { answerTimeout, connectionFailure, connectTimeout, consequences, tooLarge } from "./failure.ts";
import type { Failure } from "./failure.ts";
import type { UpstreamNode } from "./node.ts";
import type { UpstreamParts } from "./parts.ts";
import { isConditional, requestFields } from "./request-fields.ts";
import { type AttemptTrace, continueTrace } from "./trace.ts";
import { limitBytes, StreamedExchange } from "./streamed-exchange.ts";
import type { StreamedListener } from "./streamed-exchange.ts";

function throwIfGone(signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) throw new ClientGone();
}

/**
 * One streamed call: one attempt on one node, within the limits and one deadline that covers the bodies as well. A
 * client that goes away ends it.
 */
export class StreamRun implements StreamedListener {
  private readonly parts: UpstreamParts;
  private readonly call: StreamedCall;
  private readonly deadline: Instant;
  private readonly startedAt: Instant;
  private readonly settle: Settle<StreamedAnswer>;
  private exchange: StreamedExchange | undefined;
  private node: UpstreamNode | undefined;
  private output: Readable | undefined;
  private status: number | undefined;
  private trace: AttemptTrace | undefined;
  private cancelTimer: CancelTimer | undefined;
  private isOver = false;

  constructor(parts: UpstreamParts, call: StreamedCall, settle: Settle<StreamedAnswer>) {
    this.parts = parts;
    this.call = call;
    this.settle = settle;
    this.startedAt = parts.clock.now();
    this.deadline = Math.min(call.deadline, this.startedAt + parts.config.timeout);
  }

  /** Begins; rejects through `settle` when there is no answer to stream. */
  async start(): Promise<void> {
    const { parts, deadline } = this;
    const { signal, priority, operation } = this.call;
    try {
      throwIfGone(signal);
      if (deadline <= this.startedAt) throw answerTimeout(parts.config.name).error;
      await admit(parts, { priority, deadline, signal });
    } catch (error) {
      this.settle.reject(error);
      return;
    }
    try {
      await parts.egress?.take({ operation, priority, deadline, signal });
      const fields = (await parts.credentials?.fields({ deadline, signal })) ?? [];
      throwIfGone(signal);
      this.send(fields);
    } catch (error) {
      this.finish();
      parts.breaker.forget();
      this.settle.reject(error);
    }
  }

  answered(status: number, fields: Fields, body: Readable): void {
    const { parts } = this;
    this.status = status;
    this.node?.recordGood();
    parts.breaker.record(true);
    const failure = this.refuse(status, fields);
    if (failure !== undefined) return this.fail(failure);
    this.output = this.shape(fields, body);
    this.settle.resolve({ status, fields: endToEndFields(fields), body: this.output });
  }

  failed(error: Error, isAnswering: boolean): void {
    const failure = connectionFailure(this.parts.config.name, error, isAnswering);
    if (!isAnswering) this.parts.breaker.report(failure.reason, this.elapsed);
    this.fail(failure);
  }

  completed(): void {
    this.observe("success", undefined);
    this.finish();
  }

  private get elapsed(): Duration {
    return this.parts.clock.now() - this.startedAt;
  }

  private send(credentialFields: Fields): void {
    const { parts, call } = this;
    const node = parts.choice.choose(parts.clock.now(), [], call.walk);
    if (node === undefined) throw answerTimeout(parts.config.name).error;
    this.node = node;
    node.inFlight += 1;
    call.signal?.addEventListener("abort", this.onAbort, { once: true });
    this.cancelTimer = parts.clock.after(this.deadline - parts.clock.now(), this.onTimer);
    const fields = [...requestFields(call.fields, parts.credentials?.fieldName), ...credentialFields];
    const length = fieldValue(call.fields, "content-length");
    if (length !== undefined && call.body !== undefined) fields.push("content-length", length);
    this.trace = call.trace?.attempt({
      upstream: parts.config.name,
      operation: call.operation,
      method: call.method,
      node: node.index,
      kind: "stream",
    });
    this.exchange = new StreamedExchange(
      {
        method: call.method,
        path: node.basePath + call.path,
        fields: this.trace === undefined ? fields : continueTrace(fields, this.trace),
        body: this.limitRequest(call.body),
      },
      node.connections,
      this,
    );
  }

  /** The client's stream is not handed to undici itself, which would destroy it, and the way back to the client too. */
  private limitRequest(body: Readable | Buffer | undefined): Readable | Buffer | undefined {
    const { requestBody } = this.parts.limits;
    const tooMuch = () => new GatewayError(413, `the request body is larger than ${requestBody} bytes`);
    if (body === undefined) return undefined;
    if (Buffer.isBuffer(body)) {
      if (body.length > requestBody) throw tooMuch();
      return body;
    }
    const limited = limitBytes(requestBody, tooMuch);
    limited.on("error", (error) => {
      if (error instanceof GatewayError) this.giveUp(error);
    });
    body.on("error", () => this.giveUp(new ClientGone()));
    return body.pipe(limited);
  }

  private refuse(status: number, fields: Fields): Failure | undefined {
    const { config, limits, credentials } = this.parts;
    const refusal = findRefusal(
      status,
      { fields: [], body: Buffer.alloc(0) },
      {
        upstream: config.name,
        isConditional: isConditional(this.call.fields),
        hasCredentials: credentials !== undefined,
      },
    );
    if (refusal !== undefined) {
      if (refusal.reason === "credentials") credentials?.distrust();
      return refusal;
    }
    if (contentCodings(fields) === undefined) {
      return undecodable(config.name, "uses a content coding the gateway does not know");
    }
    const isLarge = Number(fieldValue(fields, "content-length") ?? 0) > limits.responseBody;
    return isLarge ? tooLarge(config.name, limits.responseBody) : undefined;
  }

  /** The body decoded and bounded. Errors destroy the last stream of the chain, which is the one that is read. */
  private shape(fields: Fields, body: Readable): Readable {
    const { config, limits } = this.parts;
    const limiter = limitBytes(limits.responseBody, () => tooLarge(config.name, limits.responseBody).error);
    const steps: Transform[] = [...createDecoders(contentCodings(fields) ?? []), limiter];
    // An error before the caller listens must not end the process.
    limiter.on("error", () => undefined);
    pipeline([body, ...steps], (error) => {
      if (error) this.exchange?.abort(error);
      this.finish();
    });
    return limiter;
  }

  private readonly onAbort = (): void => this.giveUp(new ClientGone());

  private readonly onTimer = (): void => {
    const isSent = this.exchange?.isSent === true;
    const { error } = (isSent ? answerTimeout : connectTimeout)(this.parts.config.name);
    if (this.status === undefined) this.parts.breaker.report("timeout", this.elapsed);
    this.fail({ reason: "timeout", error });
  };

  private fail(failure: Failure): void {
    if (this.isOver) return;
    this.observe("failure", failure);
    const isTimeout = failure.reason === "timeout";
    const isFair = !isTimeout || this.parts.breaker.isFairTrial(this.elapsed);
    if (consequences[failure.reason].unhealthy && isFair) {
      this.keepRecord();
    }
    this.end(failure.error);
  }

  private keepRecord(): void {
    const { node } = this;
    if (node === undefined) return;
    const why = node.recordFailure();
    if (why === undefined) this.parts.nodes.suspect(node);
    else this.parts.nodes.eject(node, why);
  }

  /** Ends it for a reason that says nothing about the node. */
  private giveUp(error: GatewayError): void {
    if (this.isOver) return;
    this.observe("cancelled", undefined);
    if (this.status === undefined) this.parts.breaker.forget();
    this.end(error);
  }

  private end(error: GatewayError): void {
    this.finish();
    this.exchange?.abort(error);
    this.output?.destroy(error);
    // Without effect when the head of the answer was passed on already.
    this.settle.reject(error);
  }

  private finish(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.cancelTimer?.();
    this.call.signal?.removeEventListener("abort", this.onAbort);
    if (this.node !== undefined) this.node.inFlight -= 1;
    this.parts.bulkhead.leave();
  }

  private observe(outcome: "success" | "failure" | "cancelled", failure: Failure | undefined): void {
    const end = {
      outcome: outcome === "success" && (this.status ?? 0) >= 400 ? "error" : outcome,
      reason: failure?.reason,
      status: this.status,
    } as const;
    this.parts.observer.attempt({
      upstream: this.parts.config.name,
      operation: this.call.operation,
      seconds: this.elapsed / 1_000,
      ...end,
    });
    this.trace?.end(end);
  }
}
