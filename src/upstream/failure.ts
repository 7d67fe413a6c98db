import type { Duration } from "../clock.ts";
import { type ErrorCode, GatewayError, type ProxyErrorType } from "../errors.ts";
import type { Answer } from "./types.ts";

/** Consequences of a failure, and how it is told. All operations are lookups: another attempt does no harm. */
interface Row {
  /** Worth another node. */
  readonly elsewhere: boolean;
  /** Worth the same node again, over another connection, where there is no other node; `address`: at another address. */
  readonly again: "yes" | "address" | "no";
  /** It may be the node's fault: its info is asked, and decides. */
  readonly doubts: boolean;
  readonly code: ErrorCode;
  readonly proxyError?: ProxyErrorType;
  /** Says what the registry or its node did: the end of a sentence. */
  readonly text: string;
  /** Advice: what to do about it. */
  readonly advice: string;
}

const REPORT = "report it to the gateway's operator";
const LATER = "try again later";

const REACH = { elsewhere: true, again: "no", doubts: true, code: "upstream_unreachable", advice: LATER } as const;
const TLS = { ...REACH, code: "upstream_tls", advice: REPORT } as const;
const BROKEN = { elsewhere: true, again: "yes", doubts: true, code: "upstream_reset", advice: "try again" } as const;
const INVALID = { elsewhere: true, again: "no", doubts: true, code: "upstream_invalid", advice: REPORT } as const;
const FINAL = { elsewhere: false, again: "no", doubts: false, code: "upstream_too_large", advice: REPORT } as const;
/** The registry's own error goes to the client where no other node has a better answer. */
const BUSY = { elsewhere: true, again: "no", doubts: true, code: "upstream_error", advice: LATER } as const;

/** Reasons why an attempt brought no answer, or one that another node may better; labels of metrics. */
export const FAILURES = {
  refused: { ...REACH, again: "yes", proxyError: "connection_refused", text: "refused the connection" },
  dns: { ...REACH, proxyError: "dns_error", text: "has a host name that does not resolve", advice: REPORT },
  unreachable: { ...REACH, text: "cannot be reached over the network" },
  proxy: { ...REACH, text: "cannot be reached through the configured HTTP proxy", advice: REPORT },
  certificate: { ...TLS, text: "showed a TLS certificate that is not trusted" },
  tls: { ...TLS, text: "failed the TLS handshake" },
  reset: { ...BROKEN, text: "closed the connection without an answer" },
  unsent: { ...BROKEN, text: "closed the connection before it was asked" },
  broken: { ...BROKEN, text: "broke off its answer" },
  late: { ...REACH, again: "address", code: "upstream_timeout", text: "did not answer in time" },
  protocol: { ...INVALID, text: "answered with something that is not HTTP" },
  interim: { ...INVALID, text: "sent more than 20 interim answers in place of one" },
  unreadable: { ...INVALID, text: "answered with something that is not JSON" },
  coding: { ...INVALID, text: "sent a body in a content coding that cannot be undone" },
  mismatch: { ...INVALID, text: "answered with another id than was asked for" },
  redirect: {
    ...INVALID,
    doubts: false,
    text: "answered with a redirect, which is not followed; its URL is probably wrong",
  },
  wrong_url: {
    ...INVALID,
    doubts: false,
    code: "upstream_wrong_url",
    text: "answered 404 with an HTML page; its URL is probably wrong",
  },
  wrong_admin: { ...INVALID, code: "wrong_admin", text: "names another admin in its info" },
  closing: { ...INVALID, doubts: false, text: "closes each connection behind its info, so that none can carry a call" },
  credentials: { ...FINAL, code: "upstream_credentials", text: "refused the gateway's credentials" },
  head_too_large: { ...FINAL, text: "answered with too many header fields" },
  too_large: { ...FINAL, text: "answered with more than limits.responseBody allows" },
  // The registry, not the node, has no such thing; or the node does not know it yet.
  not_found: { ...BUSY, doubts: false, text: "answered 404" },
  http_429: { ...BUSY, doubts: false, text: "answered 429" },
  http_502: { ...BUSY, text: "answered 502" },
  http_503: { ...BUSY, text: "answered 503" },
  http_504: { ...BUSY, text: "answered 504" },
  no_info: { ...BUSY, code: "upstream_invalid", text: "gave no info" },
  http_error: { ...FINAL, code: "upstream_error", text: "answered with an error" },
  internal: { ...FINAL, code: "internal_error", text: "could not be asked" },
} as const satisfies Readonly<Record<string, Row>>;

export type FailureReason = keyof typeof FAILURES;

/** An attempt without an answer, or with one that another node may better. */
export class Failure {
  readonly reason: FailureReason;
  /** Says for operators what the node did: printable, the end of a sentence. */
  readonly text: string;
  /** The client's answer, where no other attempt follows. */
  readonly last: GatewayError | Answer;

  constructor(reason: FailureReason, last: GatewayError | Answer, text: string = FAILURES[reason].text) {
    this.reason = reason;
    this.last = last;
    this.text = text;
  }

  get row(): Row {
    return FAILURES[this.reason];
  }
}

interface FailureOptions {
  /** More exact than the reason's own. */
  readonly text?: string | undefined;
  /** For the log. */
  readonly cause?: unknown;
}

/** Makes a failure, of which clients read: `the registry "<alias>" <text>; <advice>`. */
export function failed(reason: FailureReason, alias: string, { text, cause }: FailureOptions = {}): Failure {
  const row: Row = FAILURES[reason];
  const said = text ?? row.text;
  const { code, proxyError } = row;
  const message =
    code === "internal_error" ? "internal server error" : `the registry "${alias}" ${said}; ${row.advice}`;
  return new Failure(reason, new GatewayError(code, message, { proxyError, cause }), said);
}

/** Makes the 429 while all nodes are paused, the first of them for another `wait` ms. */
export function upstreamPaused(alias: string, wait: Duration): GatewayError {
  const retryAfter = Math.max(1, Math.ceil(wait / 1_000));
  const text = `the registry "${alias}" answered 429 and is left alone for as long as it asked; try again in ${retryAfter} s`;
  return new GatewayError("upstream_paused", text, { retryAfter });
}

/** Makes the failure of an attempt that was not made: the node is paused after a 429, for another `wait` ms. */
export function nodePaused(alias: string, wait: Duration): Failure {
  return new Failure("http_429", upstreamPaused(alias, wait));
}

/** Reasons by the codes of Node's and undici's errors. */
const BY_CODE: Readonly<Record<string, FailureReason>> = {
  ECONNREFUSED: "refused",
  ECONNRESET: "reset",
  EPIPE: "reset",
  UND_ERR_SOCKET: "reset",
  UND_ERR_DESTROYED: "reset",
  UND_ERR_CLOSED: "reset",
  ENOTFOUND: "dns",
  EAI_AGAIN: "dns",
  EAI_FAIL: "dns",
  EAI_NODATA: "dns",
  ETIMEDOUT: "late",
  UND_ERR_CONNECT_TIMEOUT: "late",
  HOSTNAME_MISMATCH: "certificate",
  INVALID_CA: "certificate",
  INVALID_PURPOSE: "certificate",
  PATH_LENGTH_EXCEEDED: "certificate",
  EPROTO: "tls",
  PROXY: "proxy",
  UND_ERR_HEADERS_OVERFLOW: "head_too_large",
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: "protocol",
  ERR_ASSERTION: "protocol",
  // No wire can cause it: a mistake of ours.
  UND_ERR_INVALID_ARG: "internal",
};

const BY_PATTERN: readonly (readonly [RegExp, FailureReason])[] = [
  [/^(CERT_|CRL_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|ERR_TLS_CERT_)/, "certificate"],
  [/^(ERR_SSL_|ERR_TLS_|ERR_OSSL_)/, "tls"],
  [/^HPE_/, "protocol"],
];

/** Finds the reason that an error of a connection stands for. `isAnswering`: an answer had begun. */
export function reasonOf(error: unknown, isAnswering: boolean): FailureReason {
  // Some versions of undici give parser errors no code.
  const isParser = error instanceof Error && error.name === "HTTPParserError";
  const code = isParser ? "HPE_" : codeOf(error);
  const reason = BY_CODE[code] ?? BY_PATTERN.find(([pattern]) => pattern.test(code))?.[1] ?? "unreachable";
  return isAnswering && (reason === "reset" || reason === "protocol" || reason === "unreachable") ? "broken" : reason;
}

function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return "";
  if ("code" in error && typeof error.code === "string") return error.code;
  // Node tries several addresses of a name, and says what became of each.
  return error instanceof AggregateError ? codeOf(error.errors[0]) : "";
}
