import { expect, test } from "vitest";
import { GatewayError } from "../../../src/errors.ts";
import type { Operation } from "../../../src/spec/operations.ts";
import { pauseAfter429, type Question, readAnswer } from "../../../src/upstream/answer.ts";
import { Failure } from "../../../src/upstream/failure.ts";

interface Case {
  readonly operation?: Operation;
  readonly status?: number;
  readonly body?: string | object;
  readonly fields?: readonly string[];
  readonly question?: Partial<Question>;
}

/** `200`, `503 as it came`, `429 upstream_error`, `502 upstream_invalid`; a reason before it that another node may better it. */
function outcome({
  operation = "transfer_factory",
  status = 200,
  body = {},
  fields = [],
  question = {},
}: Case): string {
  const bytes = Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
  const raw = { status, fields, body: bytes, node: "http://a", receivedAt: 0 };
  const read = readAnswer(raw, {
    upstream: "amulet",
    operation,
    validation: "lenient",
    isConditional: false,
    hasOwnCredentials: false,
    wallNow: 0,
    ...question,
  });
  const last = read instanceof Failure ? read.last : read;
  if (!(last instanceof GatewayError))
    expect(last.body.equals(status === 204 || status === 304 ? Buffer.alloc(0) : bytes)).toBe(true);
  const said = last instanceof GatewayError ? `${last.status} ${last.code}` : `${last.status}`;
  return read instanceof Failure && read.row.elsewhere ? `${read.reason}: ${said}` : said;
}

const HTML = "<html><title>404 Not Found</title></html>";
const ERROR = { error: "no such thing" };

test.each<[string, Case, string]>([
  ["JSON", {}, "200"],
  ["JSON behind a byte order mark", { body: '\ufeff{"a":1}' }, "200"],
  ["a context in snake_case, leniently", { operation: "transfer_accept", body: { choice_context_data: {} } }, "200"],
  [
    "a context in snake_case, strictly",
    { operation: "transfer_accept", body: { choice_context_data: {} }, question: { validation: "strict" } },
    "unreadable: 502 upstream_invalid",
  ],
  [
    "what fits the schema, strictly",
    {
      operation: "transfer_accept",
      body: { choiceContextData: {}, disclosedContracts: [] },
      question: { validation: "strict" },
    },
    "200",
  ],
  ["no JSON", { body: "OK" }, "unreadable: 502 upstream_invalid"],
  ["half of JSON", { body: '{"a":' }, "unreadable: 502 upstream_invalid"],
  ["a page", { body: HTML }, "unreadable: 502 upstream_invalid"],
  ["204", { status: 204, body: "" }, "204"],
  ["304 to a condition", { status: 304, body: "", question: { isConditional: true } }, "304"],
  ["304 to no condition", { status: 304, body: "" }, "protocol: 502 upstream_invalid"],
  ["a redirect", { status: 302, body: "" }, "redirect: 502 upstream_invalid"],
  ["a status that HTTP does not have", { status: 777 }, "protocol: 502 upstream_invalid"],
  ["an info of the admin", { operation: "info", body: { adminId: "A" }, question: { admin: "A" } }, "200"],
  [
    "an info of another admin",
    { operation: "info", body: { adminId: "B" }, question: { admin: "A" } },
    "wrong_admin: 502 wrong_admin",
  ],
  ["an info of no admin", { operation: "info", body: {}, question: { admin: "A" } }, "wrong_admin: 502 wrong_admin"],
  ["the instrument", { operation: "instrument", body: { id: "A/USD" }, question: { id: "A/USD" } }, "200"],
  [
    "another instrument",
    { operation: "instrument", body: { id: "B" }, question: { id: "A/USD" } },
    "mismatch: 502 upstream_invalid",
  ],
  ["the registry's own error", { status: 400, body: ERROR }, "400"],
  ["a conflict", { status: 409, body: ERROR }, "409"],
  ["its own 500", { status: 500, body: ERROR }, "500"],
  ["an error without text", { status: 422, body: { message: "no" } }, "422 upstream_error"],
  ["an error in text", { status: 500, body: "java.lang.NullPointerException" }, "500 upstream_error"],
  ["its own 503", { status: 503, body: ERROR }, "http_503: 503"],
  ["a page with 502", { status: 502, body: HTML }, "http_502: 502 upstream_error"],
  ["429", { status: 429, body: "Too Many Requests" }, "http_429: 429 upstream_error"],
  [
    "429 with Retry-After about a contract",
    { status: 429, body: { error: "ABORTED" }, fields: ["retry-after", "1"] },
    "http_429: 429",
  ],
  ["429 about a contract", { status: 429, body: { error: "ABORTED: contract is locked" } }, "429"],
  ["429 about a contract that moves", { status: 429, body: { error: "the contract is being reassigned" } }, "429"],
  ["a factory's 404", { status: 404, body: ERROR }, "404"],
  ["a context's 404", { operation: "transfer_accept", status: 404, body: ERROR }, "not_found: 404"],
  ["an instrument's 404", { operation: "instrument", status: 404, body: ERROR }, "not_found: 404"],
  ["a listing's 404", { operation: "instruments", status: 404, body: ERROR }, "404"],
  ["a page with 404", { status: 404, body: HTML }, "wrong_url: 502 upstream_wrong_url"],
  [
    "a page with 404 on a path of version 2",
    { operation: "transfer_factory_v2", status: 404, body: HTML },
    "404 no_such_version",
  ],
  [
    "a text with 404 on a path of version 2",
    { operation: "transfer_factory_v2", status: 404, body: "not here" },
    "404 no_such_version",
  ],
  ["its own 404 on a path of version 2", { operation: "transfer_factory_v2", status: 404, body: ERROR }, "404"],
  ["401 to the client's credentials or none", { status: 401, body: ERROR }, "401"],
  ["401 to ours", { status: 401, body: ERROR, question: { hasOwnCredentials: true } }, "502 upstream_credentials"],
  ["403 to ours", { status: 403, body: HTML, question: { hasOwnCredentials: true } }, "502 upstream_credentials"],
  ["any success of a passed-through path", { operation: "pass_through", body: HTML }, "200"],
  ["any error of a passed-through path", { operation: "pass_through", status: 404, body: HTML }, "404"],
  ["a redirect of a passed-through path", { operation: "pass_through", status: 301 }, "redirect: 502 upstream_invalid"],
])("%s", (_name, given, expected) => {
  expect(outcome(given)).toBe(expected);
});

test("an error in another form keeps its Retry-After and its words, without addresses", () => {
  const body = Buffer.from(
    "upstream connect error to node-3.registry.internal:8443 (10.1.2.3), see https://x.example/a",
  );
  const raw = { status: 500, fields: ["retry-after", "7"], body, node: "", receivedAt: 0 };
  const read = readAnswer(raw, {
    upstream: "amulet",
    operation: "info",
    validation: "lenient",
    isConditional: false,
    hasOwnCredentials: false,
    wallNow: 0,
  });
  const { retryAfter, message } = (read as Failure).last as GatewayError;
  expect(retryAfter).toBe(7);
  expect(message).toBe(
    'the registry "amulet" answered 500: upstream connect error to <address> (<address>), see <address>',
  );
});

test.each([
  [[], 1_000],
  [["retry-after", "3"], 3_000],
  [["retry-after", "0"], 0],
  [["retry-after", "86400"], 60_000],
  [["retry-after", "soon"], 1_000],
])("a 429 with %j pauses its node for %d ms", (fields, pause) => {
  expect(pauseAfter429(fields, 0)).toBe(pause);
});
