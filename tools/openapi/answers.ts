import { CLIENT_ERRORS } from "../../src/errors.ts";

/**
 * What answers have in common in the description of the API: header fields, errors, and the parameters of every
 * operation. Each stands once in the document and is referred to by its name.
 */

interface HeaderField {
  readonly description: string;
  readonly schema: { readonly type: "string" | "integer" };
  readonly example: string | number;
}

function text(description: string, example: string): HeaderField {
  return { description, schema: { type: "string" }, example };
}

/** Header fields of answers, by name. */
export const HEADER_FIELDS = {
  "X-Request-Id": text(
    "The client's own, where it sent at most 128 safe characters; else a new one. The registry gets the same with calls, not with what is cached.",
    "5f1c0b7e9a3d4421-2a",
  ),
  "Cache-Status": text(
    "Where the answer came from (RFC 9211). `ttl`: seconds that it stays fresh, negative when it is stale.",
    "registry-gateway; hit; ttl=27",
  ),
  Age: {
    description: "Seconds since the registry made the answer (RFC 9111 §5.1).",
    schema: { type: "integer" },
    example: 3,
  },
  ETag: text("For If-None-Match. The registry's own, or made from the bytes.", '"2Wf0hYbzq8pT"'),
  "Cache-Control": text("What a client may keep, and for how long.", "no-cache"),
  "Retry-After": {
    description: "Seconds after which to try again.",
    schema: { type: "integer" },
    example: 5,
  },
  "Proxy-Status": text(
    "Why the registry's answer could not be had (RFC 9209).",
    "registry-gateway;error=connection_refused",
  ),
  "Registry-Gateway-Error": text(
    "Which error of the gateway's own this is, by a code that does not change; none with a registry's.",
    "admin_unknown",
  ),
  "WWW-Authenticate": text("How to say who calls (RFC 9110 §11.6.1).", 'Bearer realm="registry-gateway"'),
  RateLimit: text(
    "What is left to the client: `r` requests now, and the whole burst in `t` seconds.",
    '"requests";r=0;t=3',
  ),
  "RateLimit-Policy": text("The limits of the client's tier: `q` requests in `w` seconds.", '"requests";q=120;w=60'),
  "X-Registry-Partial": text(
    "The registries that are missing from this answer, by name; where there are very many, the last item says how many more.",
    "bonds",
  ),
} as const satisfies Readonly<Record<string, HeaderField>>;

export type HeaderName = keyof typeof HEADER_FIELDS;

/** Statuses of the errors that an operation may answer. Those about who calls are 401, 403 and 429. */
const OF_ANY = ["400", "401", "403", "404", "429", "500", "default"];
const OF_REGISTRY = ["502", "503", "504"];
const OF_BODY = ["408", "413", "415"];

/** The registry's own 409 to a call. */
const REASSIGNED = "reassigned";

/**
 * What an operation's answer is: `cached` and `composed` (of what is cached) have an age and validators, `call` is never
 * kept, `streamed` is the registry's, `page` the gateway's own, `changes` are sent as they come.
 */
export type AnswerKind = "cached" | "composed" | "call" | "streamed" | "page" | "changes";

interface KindOfAnswer {
  readonly fields: readonly HeaderName[];
  readonly errors: readonly string[];
}

const OF_CACHED: readonly HeaderName[] = ["X-Request-Id", "Cache-Status", "Age", "ETag", "Cache-Control"];

export const ANSWER_KINDS: Readonly<Record<AnswerKind, KindOfAnswer>> = {
  cached: { fields: OF_CACHED, errors: [...OF_ANY, ...OF_REGISTRY] },
  composed: { fields: OF_CACHED, errors: OF_ANY },
  call: { fields: ["X-Request-Id", "Cache-Control"], errors: [...OF_ANY, REASSIGNED, ...OF_BODY, ...OF_REGISTRY] },
  streamed: { fields: ["X-Request-Id"], errors: [...OF_ANY, ...OF_BODY, ...OF_REGISTRY] },
  page: { fields: ["X-Request-Id", "ETag", "Cache-Control"], errors: OF_ANY },
  changes: { fields: ["X-Request-Id", "Cache-Control"], errors: [...OF_ANY, "503"] },
};

/** Of operations that a registry answers. A gateway describes it by the name that `routing.adminHeader` gives it. */
export const ADMIN_FIELD = {
  name: "X-Instrument-Admin",
  in: "header",
  description: "Party id or alias of the admin, where the path names none.",
  schema: { type: "string" },
} as const;

/** Header fields that every operation takes, by the name they have in the document. */
export const COMMON_PARAMETERS = {
  RequestId: {
    name: "X-Request-Id",
    in: "header",
    description:
      "Names the request in the gateway's log and, with calls, at the registry: at most 128 of A-Z a-z 0-9 . _ : / + = @ ~ -",
    schema: { type: "string", maxLength: 128 },
    example: "checkout-4711",
  },
  RequestTimeout: {
    name: "Request-Timeout",
    in: "header",
    description: "Seconds that the client is going to wait. The gateway gives up then, or earlier.",
    schema: { type: "string", pattern: "^[0-9]{1,6}(\\.[0-9]{1,3})?$" },
    example: "2.5",
  },
} as const;

/** The header fields that an error has besides its id and its code. */
const FIELDS_OF_ERRORS: Readonly<Record<string, readonly HeaderName[]>> = {
  "401": ["WWW-Authenticate"],
  "429": ["Retry-After", "RateLimit", "RateLimit-Policy"],
  "502": ["Proxy-Status"],
  "503": ["Retry-After", "Proxy-Status"],
  "504": ["Proxy-Status"],
};

/** Errors by their status, as components of the document. */
export function describeErrors(schema: unknown): Record<string, object> {
  const statuses = [...new Set([...OF_ANY, ...OF_REGISTRY, ...OF_BODY, "409"])];
  const own = statuses.map((status) => [status, describeError(status, statuses, schema)] as const);
  const error = "The contract is being reassigned to another synchronizer. Try again later.";
  const reassigned = {
    description:
      "The contract is being reassigned to another synchronizer: try again in some seconds. The registry's own.",
    headers: headerRefs(["X-Request-Id"]),
    content: { "application/json": { schema, example: { error } } },
  };
  return { ...Object.fromEntries(own), [REASSIGNED]: reassigned };
}

function describeError(status: string, described: readonly string[], schema: unknown): object {
  const errors = Object.entries(CLIENT_ERRORS).filter(([code, each]) => {
    const known = described.includes(String(each.status)) ? String(each.status) : "default";
    return known === status && code !== "client_gone";
  });
  const [code, { means }] = errors[0]!;
  const fields = FIELDS_OF_ERRORS[status] ?? [];
  const example = {
    error: `registry-gateway: ${means}`,
    code,
    requestId: HEADER_FIELDS["X-Request-Id"].example,
    ...(fields.includes("Retry-After") ? { retryAfter: HEADER_FIELDS["Retry-After"].example } : {}),
  };
  return {
    description: `${status === "default" ? "Any other error" : "An error"} of the registry's own, or by its code: ${errors.map(([each]) => `\`${each}\``).join(", ")}.`,
    headers: headerRefs(["X-Request-Id", "Registry-Gateway-Error", ...fields]),
    content: { "application/json": { schema, example } },
  };
}

/** References to the given errors, by status. */
export function errorRefs(names: readonly string[]): Record<string, object> {
  const refs = names.map((name) => [name === REASSIGNED ? "409" : name, { $ref: `#/components/responses/${name}` }]);
  return Object.fromEntries(refs) as Record<string, object>;
}

/** References to the given header fields, by name. */
export function headerRefs(names: readonly HeaderName[]): Record<string, object> {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}
