import { CLIENT_ERRORS } from "../errors.ts";

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
    "The client's own, where it sent at most 128 safe characters; else a new one. The registry gets the same.",
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

type ClientErrorCode = keyof typeof CLIENT_ERRORS;

interface ErrorAnswer {
  /** Of the example; undefined for a registry's own error. */
  readonly code: ClientErrorCode | undefined;
  /** Where it is not the code's. */
  readonly status?: string;
  readonly description: string;
  readonly fields: readonly HeaderName[];
  readonly example: string;
}

/** Errors of the gateway's own and of registries, by the name they have in the document. */
export const ERROR_ANSWERS = {
  BadRequest: {
    code: "admin_missing",
    description: "The request is malformed, does not say which registry it means, or names two.",
    fields: ["X-Request-Id", "Registry-Gateway-Error"],
    example:
      "registry-gateway: the request does not say which registry it means: send it to " +
      "/api/token-standard/v0/registrars/{admin}/registry/ or name the instrument admin in the header x-instrument-admin",
  },
  Unauthorized: {
    code: "credential_expired",
    description: "The request shows no credential where one is needed, or a bad one.",
    fields: ["X-Request-Id", "Registry-Gateway-Error", "WWW-Authenticate"],
    example: "registry-gateway: the API key has expired: ask the gateway's operator for a new one",
  },
  Forbidden: {
    code: "upstream_forbidden",
    description: "The client may not use this registry.",
    fields: ["X-Request-Id", "Registry-Gateway-Error"],
    example:
      'registry-gateway: this client may not use the registry "bonds" named in the path; use another one, or ask the ' +
      "gateway's operator to allow it",
  },
  NotFound: {
    code: "no_such_path",
    description:
      "The registry has no such thing, or no version 2 (its paths end in /v1/ then), or the gateway no such registry or path.",
    fields: ["X-Request-Id", "Registry-Gateway-Error"],
    example: "registry-gateway: no such path; the token-registry API is below /registry/",
  },
  RequestTimeout: {
    code: "request_timeout",
    description: "The request took too long to arrive.",
    fields: ["X-Request-Id", "Registry-Gateway-Error"],
    example: "registry-gateway: the request took too long to arrive",
  },
  Ambiguous: {
    code: "instrument_ambiguous",
    description: "Several registries have an instrument with this id. The text names them.",
    fields: ["X-Request-Id", "Registry-Gateway-Error"],
    example:
      "registry-gateway: several registries have an instrument with this id; ask one of them: " +
      "/api/token-standard/v0/registrars/amulet of DSO::1220…, /api/token-standard/v0/registrars/bonds of bonds::1220…",
  },
  Reassigned: {
    code: undefined,
    status: "409",
    description:
      "The contract is being reassigned to another synchronizer: try again in some seconds. The registry's own.",
    fields: ["X-Request-Id"],
    example: "The contract is being reassigned to another synchronizer. Try again later.",
  },
  ContentTooLarge: {
    code: "body_too_large",
    description: "The body is larger than the gateway takes.",
    fields: ["X-Request-Id", "Registry-Gateway-Error"],
    example: "registry-gateway: the body is larger than 1048576 bytes",
  },
  UnsupportedMediaType: {
    code: "unsupported_media_type",
    description: "The body is not JSON in UTF-8, or it is compressed.",
    fields: ["X-Request-Id", "Registry-Gateway-Error"],
    example: "registry-gateway: the body must be sent with the header content-type: application/json",
  },
  TooManyRequests: {
    code: "too_many_requests",
    description: "The registry's rate limit is used up.",
    fields: ["X-Request-Id", "Registry-Gateway-Error", "Retry-After"],
    example:
      'registry-gateway: the gateway may ask upstream "amulet" 120 times in 60 s, and that is used up; try again in 5 s',
  },
  OverLimit: {
    code: "client_rate_limited",
    description: "The client's limit is used up, or the registry's.",
    fields: ["X-Request-Id", "Registry-Gateway-Error", "Retry-After", "RateLimit", "RateLimit-Policy"],
    example:
      "registry-gateway: this client has sent all requests that its tier wallet allows for now; try again in 3 s",
  },
  InternalError: {
    code: "internal_error",
    description: "A fault of the gateway, or the registry's own 500.",
    fields: ["X-Request-Id", "Registry-Gateway-Error"],
    example: "registry-gateway: internal server error",
  },
  BadGateway: {
    code: "upstream_unreachable",
    description: "The registry refused, broke off, or answered something that cannot be passed on.",
    fields: ["X-Request-Id", "Registry-Gateway-Error", "Proxy-Status"],
    example:
      'registry-gateway: upstream "amulet" refused the connection; it is down or its URL is wrong; try again later',
  },
  Unavailable: {
    code: "circuit_open",
    description: "The registry fails and is given a pause, or the gateway has too much to do or stops.",
    fields: ["X-Request-Id", "Registry-Gateway-Error", "Retry-After", "Proxy-Status"],
    example: 'registry-gateway: upstream "amulet" fails on all its nodes and is given a pause; try again in 5 s',
  },
  GatewayTimeout: {
    code: "upstream_timeout",
    description: "The registry did not answer before the deadline.",
    fields: ["X-Request-Id", "Registry-Gateway-Error", "Proxy-Status"],
    example: 'registry-gateway: upstream "amulet" did not answer in time; try again later',
  },
  OtherError: {
    code: "method_not_allowed",
    status: "default",
    description: "Any other error: 405, 414, 431, or what the registry answered.",
    fields: ["X-Request-Id", "Registry-Gateway-Error"],
    example: "registry-gateway: the method is not allowed here; use GET, HEAD, OPTIONS",
  },
} as const satisfies Readonly<Record<string, ErrorAnswer>>;

export type ErrorName = keyof typeof ERROR_ANSWERS;

const OF_ANY: readonly ErrorName[] = ["BadRequest", "NotFound", "InternalError", "OtherError"];
const OF_REGISTRY: readonly ErrorName[] = ["TooManyRequests", "BadGateway", "Unavailable", "GatewayTimeout"];
const OF_BODY: readonly ErrorName[] = ["RequestTimeout", "ContentTooLarge", "UnsupportedMediaType"];

/** Of every operation, where the gateway knows who calls. */
export const OF_CLIENT: readonly ErrorName[] = ["Unauthorized", "Forbidden", "OverLimit"];

/**
 * What an operation's answer is: `cached` and `composed` (of what is cached) have an age and validators, `call` is never
 * kept, `streamed` is the registry's, `page` the gateway's own.
 */
export type AnswerKind = "cached" | "composed" | "call" | "streamed" | "page";

interface KindOfAnswer {
  readonly fields: readonly HeaderName[];
  readonly errors: readonly ErrorName[];
}

const OF_CACHED: readonly HeaderName[] = ["X-Request-Id", "Cache-Status", "Age", "ETag", "Cache-Control"];

export const ANSWER_KINDS: Readonly<Record<AnswerKind, KindOfAnswer>> = {
  cached: { fields: OF_CACHED, errors: [...OF_ANY, ...OF_REGISTRY] },
  composed: { fields: OF_CACHED, errors: OF_ANY },
  call: {
    fields: ["X-Request-Id", "Cache-Control"],
    errors: [...OF_ANY, "Reassigned", ...OF_BODY, ...OF_REGISTRY],
  },
  streamed: { fields: ["X-Request-Id"], errors: [...OF_ANY, ...OF_BODY, ...OF_REGISTRY] },
  page: { fields: ["X-Request-Id", "ETag", "Cache-Control"], errors: OF_ANY },
};

/** Header fields that every operation takes, by the name they have in the document. */
export const COMMON_PARAMETERS = {
  RequestId: {
    name: "X-Request-Id",
    in: "header",
    description:
      "Names the request in the gateway's log and at the registry: at most 128 of A-Z a-z 0-9 . _ : / + = @ ~ -",
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

/** The description of an error, as one of the document's `components.responses`. */
export function describeError(name: ErrorName, schema: unknown): object {
  const { code, description, fields, example }: ErrorAnswer = ERROR_ANSWERS[name];
  const own = code === undefined ? {} : { code, requestId: HEADER_FIELDS["X-Request-Id"].example };
  const retryAfter = fields.includes("Retry-After") ? { retryAfter: HEADER_FIELDS["Retry-After"].example } : {};
  return {
    description,
    headers: headerRefs(fields),
    content: { "application/json": { schema, example: { error: example, ...own, ...retryAfter } } },
  };
}

/** References to the given errors, by status. */
export function errorRefs(names: readonly ErrorName[]): Record<string, object> {
  return Object.fromEntries(names.map((name) => [statusOf(name), { $ref: `#/components/responses/${name}` }] as const));
}

function statusOf(name: ErrorName): string {
  const { code, status }: ErrorAnswer = ERROR_ANSWERS[name];
  return status ?? String(CLIENT_ERRORS[code!].status);
}

/** References to the given header fields, by name. */
export function headerRefs(names: readonly HeaderName[]): Record<string, object> {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}
