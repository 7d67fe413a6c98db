/** Error types of the `Proxy-Status` field that the gateway uses (RFC 9209 §2.3). */
export type ProxyErrorType =
  | "connection_limit_reached"
  | "connection_refused"
  | "connection_terminated"
  | "destination_unavailable"
  | "dns_error"
  | "http_protocol_error"
  | "http_request_denied"
  | "http_response_body_size"
  | "http_response_timeout"
  | "proxy_configuration_error"
  | "proxy_internal_error"
  | "tls_protocol_error";

/** One kind of error. `means` and `remedy` are sentences of `docs/errors.md`, for clients and operators. */
export interface ErrorKind {
  readonly status: number;
  /** The reason in `Proxy-Status` of a 502, 503 or 504, which an error of another status may become. */
  readonly proxyError?: ProxyErrorType;
  readonly means: string;
  readonly remedy: string;
}

const REPORT_IT = "Report it to the gateway's operator.";
const TRY_LATER = "Try again after `Retry-After`, else in some seconds.";

/**
 * Every error of the gateway's own, by the code that the field `Registry-Gateway-Error`, body, log line and metric give alike.
 * `docs/errors.md` is made of it.
 */
export const ERRORS = {
  malformed_request: {
    status: 400,
    means: "The request breaks a rule of HTTP: its version, `Host`, target, length or transfer coding.",
    remedy: "Mend the client, or the proxy in front of the gateway.",
  },
  malformed_path: {
    status: 400,
    means: "A part of the path is empty, is not percent-encoded UTF-8, holds control characters, or is `.` or `..`.",
    remedy: "Encode each id as one path segment.",
  },
  invalid_query: {
    status: 400,
    means: "A query parameter is given twice, or has a value that it cannot have.",
    remedy: "Correct the parameter that the text names.",
  },
  malformed_body: {
    status: 400,
    means: "The body is not JSON in UTF-8, or not as long as its `Content-Length` says.",
    remedy: "Send one JSON value in UTF-8.",
  },
  invalid_request: {
    status: 400,
    means: "The body is JSON, but not what the endpoint takes.",
    remedy: "Correct what the text names; `/openapi.json` has the schema.",
  },
  invalid_page_token: {
    status: 400,
    means: "The page token is not one that this listing gave out.",
    remedy: "List again from the beginning.",
  },
  admin_missing: {
    status: 400,
    means: "The request does not say which registry it means.",
    remedy: "Use the base URL of one registry, or name the instrument admin in the admin header.",
  },
  admin_ambiguous: {
    status: 400,
    means: "What names the admin could be read in more than one way.",
    remedy: "Name the admin once, as the standard says.",
  },
  admin_disagreement: {
    status: 400,
    means: "Path, header and body name different admins.",
    remedy: "Send the request to the registry of the instrument's admin.",
  },
  credential_missing: {
    status: 401,
    means: "The request shows no credential, and this gateway serves known clients alone.",
    remedy: "Send an API key as `X-API-Key`, or as the token of `Authorization: Bearer`.",
  },
  credential_invalid: {
    status: 401,
    means: "The API key or token is malformed, or not known here.",
    remedy: "Copy it again, or ask the gateway's operator for another.",
  },
  credential_expired: { status: 401, means: "The API key or token has expired.", remedy: "Get a new one." },
  credentials_differ: {
    status: 401,
    means: "The request shows two credentials of this gateway that are not the same.",
    remedy: "Send one.",
  },
  upstream_forbidden: {
    status: 403,
    means: "The client's tier may not use this registry.",
    remedy: "Use another registry, or ask the gateway's operator.",
  },
  no_such_path: {
    status: 404,
    means: "There is nothing at this path.",
    remedy: "See `/docs` for the paths of this gateway.",
  },
  no_such_version: {
    status: 404,
    means: "The registry does not serve version 2 of this endpoint.",
    remedy: "Use version 1.",
  },
  admin_unknown: {
    status: 404,
    means: "The gateway serves no registry of the admin that was named.",
    remedy: "See `/` for the registries of this gateway.",
  },
  instrument_unknown: {
    status: 404,
    means: "No registry behind the gateway has the instrument.",
    remedy: "Check the id, or use the base URL of one registry.",
  },
  method_not_allowed: {
    status: 405,
    means: "The path exists, but not with this method.",
    remedy: "Use a method that `Allow` names.",
  },
  request_timeout: {
    status: 408,
    means: "The request took too long to arrive.",
    remedy: "Send it again, on a better connection.",
  },
  instrument_ambiguous: {
    status: 409,
    means: "Several registries have an instrument with this id.",
    remedy: "Ask one of those that the text names.",
  },
  body_too_large: {
    status: 413,
    means: "The request body is larger than `limits.requestBody`.",
    remedy: "Send less, for example fewer legs at once.",
  },
  uri_too_long: { status: 414, means: "The URL is too long.", remedy: "Send a shorter one." },
  unsupported_media_type: {
    status: 415,
    means: "The body has no JSON content type, another charset, or a content coding.",
    remedy: "Send plain JSON with `Content-Type: application/json`.",
  },
  headers_too_large: {
    status: 431,
    means: "The header fields of the request are too large.",
    remedy: "Send fewer or shorter ones.",
  },
  rate_limited: {
    status: 429,
    proxyError: "http_request_denied",
    means: "The limit that the operator set for calls to the registry leaves none for this request in time.",
    remedy: TRY_LATER,
  },
  upstream_paused: {
    status: 429,
    proxyError: "http_request_denied",
    means: "The registry answered 429, and the gateway obeys its `Retry-After`.",
    remedy: TRY_LATER,
  },
  client_rate_limited: {
    status: 429,
    means: "The client has sent more requests than its tier allows.",
    remedy: "Try again after `Retry-After`; `RateLimit` says how many requests are left.",
  },
  client_concurrency: {
    status: 429,
    means: "As many of the client's requests run as its tier allows at once.",
    remedy: "Wait until some of them are answered.",
  },
  client_gone: {
    status: 499,
    means: "The client closed the connection before it had its answer. Seen in logs and metrics alone.",
    remedy: "Nothing: the client is gone.",
  },
  internal_error: { status: 500, means: "A fault of the gateway.", remedy: "Report it with the `X-Request-Id`." },
  upstream_error: {
    status: 502,
    proxyError: "destination_unavailable",
    means: "The registry's own error, whose status this is, in another form than the standard's.",
    remedy: "As the status and the text say: correct the request, or try again after `Retry-After`.",
  },
  upstream_unreachable: {
    status: 502,
    proxyError: "destination_unavailable",
    means: "The registry cannot be reached: its name, address or connection fails.",
    remedy: TRY_LATER,
  },
  upstream_reset: {
    status: 502,
    proxyError: "connection_terminated",
    means: "The registry broke the connection off.",
    remedy: TRY_LATER,
  },
  upstream_tls: {
    status: 502,
    proxyError: "tls_protocol_error",
    means: "No safe connection to the registry can be made.",
    remedy: REPORT_IT,
  },
  upstream_invalid: {
    status: 502,
    proxyError: "http_protocol_error",
    means: "The registry's answer breaks the registry API, or HTTP.",
    remedy: REPORT_IT,
  },
  upstream_too_large: {
    status: 502,
    proxyError: "http_response_body_size",
    means: "The registry's answer is larger than `limits.responseBody`, or has too many header fields.",
    remedy: REPORT_IT,
  },
  upstream_credentials: {
    status: 502,
    proxyError: "http_request_denied",
    means: "The registry refuses the gateway's credentials, or the gateway cannot get any.",
    remedy: REPORT_IT,
  },
  upstream_wrong_url: {
    status: 502,
    proxyError: "proxy_configuration_error",
    means: "The URL configured for the registry is probably wrong.",
    remedy: REPORT_IT,
  },
  wrong_admin: {
    status: 502,
    proxyError: "proxy_configuration_error",
    means: "Another registry answers at the registry's URL.",
    remedy: REPORT_IT,
  },
  nodes_disagree: {
    status: 502,
    proxyError: "http_protocol_error",
    means: "Fewer of the registry's nodes give the same answer than `agreement` asks for.",
    remedy: "Try again later: nodes differ for a moment when a round opens. If it lasts, tell the gateway's operator.",
  },
  admin_not_known_yet: {
    status: 503,
    proxyError: "destination_unavailable",
    means: "A registry has not named its admin yet: the gateway cannot say whose the request is.",
    remedy: TRY_LATER,
  },
  upstream_disabled: {
    status: 503,
    proxyError: "proxy_configuration_error",
    means: "The registry is not used: its nodes, or two registries, contradict each other.",
    remedy: REPORT_IT,
  },
  upstream_down: {
    status: 503,
    proxyError: "destination_unavailable",
    means: "No node of the registry is up, or fewer than `agreement` asks for.",
    remedy: TRY_LATER,
  },
  cache_only: {
    status: 503,
    proxyError: "destination_unavailable",
    means: "The operator has the registry in cache-only mode, and what is asked for is not in the cache.",
    remedy: TRY_LATER,
  },
  queue_full: {
    status: 503,
    proxyError: "connection_limit_reached",
    means: "Too many calls to the registry run and wait.",
    remedy: TRY_LATER,
  },
  overloaded: {
    status: 503,
    proxyError: "connection_limit_reached",
    means: "The gateway has too much to do.",
    remedy: TRY_LATER,
  },
  client_keys_unavailable: {
    status: 503,
    proxyError: "proxy_internal_error",
    means: "The keys of a token's issuer cannot be had, so that the token can be neither taken nor refused.",
    remedy: TRY_LATER,
  },
  stopping: {
    status: 503,
    proxyError: "connection_terminated",
    means: "The gateway is being stopped.",
    remedy: "Try again at once: another replica answers.",
  },
  upstream_timeout: {
    status: 504,
    proxyError: "http_response_timeout",
    means: "The registry did not answer in time.",
    remedy: TRY_LATER,
  },
  queue_timeout: {
    status: 504,
    proxyError: "connection_limit_reached",
    means: "No place for the call to the registry became free in time.",
    remedy: TRY_LATER,
  },
} as const satisfies Readonly<Record<string, ErrorKind>>;

/** The errors of the operations listener alone, by code. */
export const OPERATOR_ERRORS = {
  unauthenticated: {
    status: 401,
    means: "No operator's token was shown, or not the right one.",
    remedy: "Show it as Basic or Bearer.",
  },
  forbidden: {
    status: 403,
    means: "The token may only read, or a page of another origin asked.",
    remedy: "Use another token.",
  },
  unknown_upstream: { status: 404, means: "No upstream has this name.", remedy: "See `/status` for the names." },
  misdirected_request: {
    status: 421,
    means: "The `Host` is none of this listener's.",
    remedy: "Add it to `operations.hosts`.",
  },
  purge_pending: {
    status: 503,
    means: "The purge holds here; other replicas learn of it when Redis is back.",
    remedy: "Purge the other replicas, too, where it must hold now.",
  },
} as const satisfies Readonly<Record<string, ErrorKind>>;

/** A stable name of one kind of error. */
export type ErrorCode = keyof typeof ERRORS | keyof typeof OPERATOR_ERRORS;

export const ALL_ERRORS: Readonly<Record<ErrorCode, ErrorKind>> = { ...ERRORS, ...OPERATOR_ERRORS };
