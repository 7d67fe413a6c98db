import { isUtf8 } from "node:buffer";
import { GatewayError } from "../errors.ts";
import { parseJson } from "../json.ts";
import { adminsNamedBy, AmbiguousBodyError, type BodyAdmin } from "../spec/body-admin.ts";
import { type AdminPath, EXPECTED_ADMIN_ALONE, type FactoryRecord, type ContextRecord } from "../spec/operations.ts";
import { requestProblem } from "../spec/schemas.ts";

/**
 * Checks that the body of a POST is JSON of the published form, and finds the admins that it names.
 *
 * @throws GatewayError 400 for what is no JSON in UTF-8, breaks the form, or names an admin in more than one way
 */
export function adminsOfRequest(bytes: Buffer, record: FactoryRecord | ContextRecord): BodyAdmin[] {
  if (bytes.length === 0) {
    if (record.kind === "context") return [];
    throw new GatewayError("malformed_body", 'the request has no body; send JSON such as {"choiceArguments": {…}}');
  }
  const { text, json } = parsed(bytes);
  const problem = requestProblem(record.kind, json);
  if (problem !== undefined) throw new GatewayError("invalid_request", `the request is not valid: ${problem}`);
  return record.kind === "factory" ? namedAdmins(text, json, record.admins) : [];
}

/**
 * Finds the admins that the body of a passed-through request names in its choice arguments. What is no JSON names nobody.
 *
 * @throws GatewayError 400 for an admin that is named in more than one way
 */
export function adminsOfPassedBody(bytes: Buffer): BodyAdmin[] {
  const text = bytes.toString("utf8").replace(/^\ufeff/, "");
  const json = parseJson(text);
  return json === undefined ? [] : namedAdmins(text, json, EXPECTED_ADMIN_ALONE);
}

function parsed(bytes: Buffer): { readonly text: string; readonly json: unknown } {
  if (!isUtf8(bytes)) throw new GatewayError("malformed_body", "the body is not UTF-8; send JSON in UTF-8");
  const text = bytes.toString("utf8");
  if (text.startsWith("\ufeff")) {
    throw new GatewayError("malformed_body", "the body begins with a byte order mark; send JSON without one");
  }
  const json = parseJson(text);
  if (json === undefined) throw new GatewayError("malformed_body", "the body is not valid JSON; send one JSON value");
  return { text, json };
}

function namedAdmins(text: string, json: unknown, paths: readonly AdminPath[]): BodyAdmin[] {
  try {
    return adminsNamedBy(text, json, paths);
  } catch (error) {
    if (!(error instanceof AmbiguousBodyError)) throw error;
    throw new GatewayError("admin_ambiguous", `${error.message}; name the admin once, as the standard says`);
  }
}
