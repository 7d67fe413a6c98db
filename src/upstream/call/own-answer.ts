import { isCached, OPERATION_RECORDS } from "../../spec/operations.ts";
import type { UpstreamAnswer, UpstreamCall } from "../call.ts";

/**
 * Whether an answer is to another question than this call asks: it is of another kind, or about another instrument. Over
 * HTTP/1.1 nothing but what it says tells that.
 */
export function isToAnother(
  { operation, instrument }: Pick<UpstreamCall, "operation" | "instrument">,
  { status, content }: UpstreamAnswer,
): boolean {
  if (status !== 200 || content === undefined || operation === "pass_through") return false;
  const expected = isCached(operation) ? operation : OPERATION_RECORDS[operation].kind;
  if (content.kinds.length > 0 && !content.kinds.includes(expected)) return true;
  return instrument !== undefined && content.instrument !== undefined && content.instrument !== instrument;
}
