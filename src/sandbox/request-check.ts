import { isObject, parseJson } from "../json.ts";
import { AmbiguousBodyError, adminsNamedBy } from "../spec/body-admin.ts";
import type { ContextRecord, FactoryRecord } from "../spec/operations.ts";
import { requestProblem } from "../spec/schemas.ts";
import { type Answer, refusal, textAnswer } from "./answer.ts";

/** The body of a POST that passed the checks. */
export interface CheckedBody {
  readonly choiceArguments: Readonly<Record<string, unknown>>;
  /** Whether disclosed contracts have their debug fields. */
  readonly debug: boolean;
}

interface Posted {
  readonly contentType: string | undefined;
  readonly body: string;
}

const MALFORMED = "The request content was malformed";

/** A POST's body, or the registry's answer to one that it does not take: 415 or 400. */
export function checkBody(
  { contentType, body }: Posted,
  record: FactoryRecord | ContextRecord,
  admin: string,
): CheckedBody | Answer {
  if (body === "" && record.kind === "context") return { choiceArguments: {}, debug: true };
  if (!/^application\/json\b/i.test(contentType ?? "")) {
    return textAnswer(415, "The request's Content-Type is not supported. Expected:\napplication/json");
  }
  const value = parseJson(body);
  if (value === undefined) return refusal(400, `${MALFORMED}: expected json value`);
  const problem = requestProblem(record.kind, value) ?? metaProblem(value);
  if (problem !== undefined || !isObject(value)) return refusal(400, `${MALFORMED}: ${problem ?? "expected object"}`);
  if (record.kind === "factory" && !namesOnly(admin, body, value, record)) {
    return refusal(400, "invalid `expectedAdmin`, must match registry admin");
  }
  const { choiceArguments, excludeDebugFields } = value;
  return { choiceArguments: isObject(choiceArguments) ? choiceArguments : {}, debug: excludeDebugFields !== true };
}

/** `meta` is a flat map of texts: clients that wrap it in `values` are refused, as by one big registry. */
function metaProblem(body: unknown): string | undefined {
  const meta = isObject(body) ? body["meta"] : undefined;
  if (!isObject(meta) || Object.values(meta).every((value) => typeof value === "string")) return undefined;
  return "Got value with wrong type: DownField(meta)";
}

/** Whether every admin that the body names is this registry's. */
function namesOnly(admin: string, text: string, body: unknown, { admins }: FactoryRecord): boolean {
  try {
    return adminsNamedBy(text, body, admins).every((named) => named.admin === admin);
  } catch (error) {
    if (error instanceof AmbiguousBodyError) return false;
    throw error;
  }
}
