import { type Fields, filterFields } from "../../fields.ts";
import { TRACE_FIELDS } from "../../trace-context.ts";
import type { AttemptTrace } from "../observer.ts";

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
]);

/** The fields to send: the caller's, identity coding asked for, without the one that carries our credentials. */
export function requestFields(fields: Fields, credentialField: string | undefined): string[] {
  const sent = ["accept-encoding", "identity"];
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i]!;
    if (!OWN.has(name) && name !== credentialField) sent.push(name, fields[i + 1]!);
  }
  return sent;
}

/** Whether 304 may be the answer (RFC 9110 §13.1). */
export function isConditional(fields: Fields): boolean {
  return fields.includes("if-none-match") || fields.includes("if-modified-since");
}

/** `fields` with those of the trace instead of the client's. */
export function continueTrace(fields: Fields, trace: AttemptTrace): Fields {
  return [...filterFields(fields, (name) => !TRACE_FIELDS.has(name)), ...trace.fields];
}
