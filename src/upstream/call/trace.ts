import { type Fields, filterFields } from "../../fields.ts";
import type { Operation } from "../../spec/endpoints.ts";
import { TRACE_FIELDS } from "../../trace-context.ts";
import type { FailureReason } from "./failure.ts";
import type { AttemptOutcome } from "../observer.ts";

/** What an attempt is about. */
export interface AttemptTopic {
  readonly upstream: string;
  readonly operation: Operation;
  readonly method: string;
  /** Place of the node in the configured list. */
  readonly node: number;
  /** `first`, `retry`, `hedge`, `rescue` or `stream`. */
  readonly kind: string;
}

/** How an attempt ended. */
export interface AttemptEnd {
  readonly outcome: AttemptOutcome;
  readonly reason: FailureReason | undefined;
  readonly status: number | undefined;
}

/** One attempt in a trace. */
export interface AttemptTrace {
  /** What goes upstream so that the trace goes on there, instead of the client's tracing fields. */
  readonly fields: Fields;
  end(end: AttemptEnd): void;
}

/** Follows a call through its attempts. Implementations must not throw. */
export interface CallTrace {
  attempt(topic: AttemptTopic): AttemptTrace;
}

/** `fields` with those of the trace instead of the client's. */
export function continueTrace(fields: Fields, trace: AttemptTrace): Fields {
  return [...filterFields(fields, (name) => !TRACE_FIELDS.has(name)), ...trace.fields];
}
