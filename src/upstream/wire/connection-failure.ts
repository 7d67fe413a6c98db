import { GatewayError, toGatewayError } from "../../errors.ts";
import type { ErrorCode, ProxyErrorType } from "../../errors.ts";
import { connectTimeout } from "../failure.ts";
import type { Failure, FailureReason } from "../failure.ts";
import type { StepFault } from "./in-step.ts";

interface Wording {
  readonly reason: FailureReason;
  readonly code: ErrorCode;
  /** A more exact reason than the code's own. */
  readonly type: ProxyErrorType;
  /** What is wrong, after `upstream "alias" `. */
  readonly text: string;
}

const REFUSED: Wording = {
  reason: "refused",
  code: "upstream_unreachable",
  type: "connection_refused",
  text: "refused the connection; it is down or its URL is wrong; try again later",
};
const RESET: Wording = {
  reason: "reset",
  code: "upstream_reset",
  type: "connection_terminated",
  text: "closed the connection without an answer; try again",
};
const INCOMPLETE: Wording = {
  reason: "incomplete",
  code: "upstream_reset",
  type: "http_response_incomplete",
  text: "broke off its answer; try again",
};
const DNS: Wording = {
  reason: "dns",
  code: "upstream_unreachable",
  type: "dns_error",
  text: "has a host name that does not resolve; its URL is wrong or name resolution fails",
};
const UNREACHABLE: Wording = {
  reason: "unreachable",
  code: "upstream_unreachable",
  type: "destination_unavailable",
  text: "cannot be reached over the network; try again later",
};
const PRIVATE: Wording = {
  reason: "unreachable",
  code: "upstream_unreachable",
  type: "destination_ip_prohibited",
  text: "is at an address that is not public, where this gateway does not connect to; report it to the gateway's operator",
};
const CERTIFICATE: Wording = {
  reason: "tls",
  code: "upstream_tls",
  type: "tls_certificate_error",
  text: "showed a TLS certificate that is not trusted; report it to the gateway's operator",
};
const TLS: Wording = {
  reason: "tls",
  code: "upstream_tls",
  type: "tls_protocol_error",
  text: "failed the TLS handshake; report it to the gateway's operator",
};
const PROTOCOL: Wording = {
  reason: "protocol",
  code: "upstream_invalid",
  type: "http_protocol_error",
  text: "answered with something that is not HTTP",
};
const OUT_OF_STEP: Wording = {
  reason: "out-of-step",
  code: "upstream_invalid",
  type: "http_protocol_error",
  text: "gave an answer that was not to this request; try again",
};
const HEADERS: Wording = {
  reason: "protocol",
  code: "upstream_too_large",
  type: "http_response_header_section_size",
  text: "answered with more header fields than clients take; report it to the gateway's operator",
};
const PROXY: Wording = {
  reason: "proxy",
  code: "upstream_unreachable",
  type: "destination_unavailable",
  text: "cannot be reached through the configured HTTP proxy; report it to the gateway's operator",
};

const BY_CODE: Readonly<Record<string, Wording>> = {
  ECONNREFUSED: REFUSED,
  ECONNRESET: RESET,
  EPIPE: RESET,
  UND_ERR_SOCKET: RESET,
  ENOTFOUND: DNS,
  EAI_AGAIN: DNS,
  EAI_FAIL: DNS,
  EAI_NODATA: DNS,
  EHOSTUNREACH: UNREACHABLE,
  ENETUNREACH: UNREACHABLE,
  EADDRNOTAVAIL: UNREACHABLE,
  EACCES: UNREACHABLE,
  EPERM: UNREACHABLE,
  PRIVATE_ADDRESS: PRIVATE,
  PROXY_REFUSED: PROXY,
  TOO_MANY_INTERIM: PROTOCOL,
  HOSTNAME_MISMATCH: CERTIFICATE,
  INVALID_CA: CERTIFICATE,
  INVALID_PURPOSE: CERTIFICATE,
  PATH_LENGTH_EXCEEDED: CERTIFICATE,
  EPROTO: TLS,
  UND_ERR_HEADERS_OVERFLOW: HEADERS,
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: PROTOCOL,
  ERR_ASSERTION: PROTOCOL,
};

const BY_CODE_PATTERN: readonly (readonly [RegExp, Wording])[] = [
  [/^(CERT_|CRL_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|ERR_TLS_CERT_)/, CERTIFICATE],
  [/^(ERR_SSL_|ERR_TLS_|ERR_OSSL_)/, TLS],
  [/^HPE_/, PROTOCOL],
  [/^ERR_HTTP2_/, RESET],
];

const BROKEN_OFF = new Set(["ECONNRESET", "EPIPE", "UND_ERR_SOCKET", "UND_ERR_RES_CONTENT_LENGTH_MISMATCH"]);
const isBrokenOff = (code: string) => BROKEN_OFF.has(code) || code.startsWith("HPE_") || code.startsWith("ERR_HTTP2_");

function errorCode(error: unknown): string {
  // Its code is undefined in some versions of undici.
  if (error instanceof Error && error.name === "HTTPParserError") return "HPE_";
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "";
}

function findWording(code: string, answering: boolean): Wording | undefined {
  if (answering && isBrokenOff(code)) return INCOMPLETE;
  return BY_CODE[code] ?? BY_CODE_PATTERN.find(([pattern]) => pattern.test(code))?.[1];
}

/**
 * What an error of a connection or of undici means. `answering`: an answer had begun.
 */
export function connectionFailure(upstream: string, error: unknown, answering: boolean): Failure {
  if (error instanceof ProofFailed) return error.failure;
  if (error instanceof OutOfStep) return failureOf(upstream, OUT_OF_STEP, error);
  if (error instanceof ConnectTimeout || errorCode(error) === "UND_ERR_CONNECT_TIMEOUT")
    return connectTimeout(upstream);
  // No connection was made: the gateway has nothing to show.
  if (error instanceof GatewayError) return { reason: "credentials", error };
  const code = errorCode(error);
  // What no wire can cause is a mistake of ours.
  if (code === "UND_ERR_INVALID_ARG") {
    return { reason: "internal", error: new GatewayError("internal_error", "internal server error", { cause: error }) };
  }
  const wording = findWording(code, answering) ?? UNREACHABLE;
  return failureOf(upstream, wording, error);
}

function failureOf(upstream: string, { reason, code, type, text }: Wording, cause: unknown): Failure {
  return { reason, error: new GatewayError(code, `upstream "${upstream}" ${text}`, { proxyError: type, cause }) };
}

/** A fault that neither Node nor undici has an error for; its code as theirs. */
class WireFault extends Error {
  readonly code: string;

  constructor(code: string, text: string, cause?: unknown) {
    super(text, { cause });
    this.name = "WireFault";
    this.code = code;
  }
}

/** An answer, or the wait for one, ended before its end. */
export function brokenOff(): Error {
  return new WireFault("ECONNRESET", "the answer was broken off");
}

/** The proxy cannot be reached, or leads nowhere. */
export function proxyRefused(cause?: unknown): Error {
  return new WireFault("PROXY_REFUSED", "the proxy does not lead to the node", cause);
}

/** Interim answers (1xx) without end. */
export function tooManyInterim(): Error {
  return new WireFault("TOO_MANY_INTERIM", "too many interim answers");
}

/** The connection was closed before a request could be sent on it. */
export class ConnectionGone extends Error {
  readonly code = "ECONNRESET";

  constructor() {
    super("the connection is closed");
    this.name = "ConnectionGone";
  }
}

/** What came is no answer to what was asked. */
export class OutOfStep extends Error {
  readonly fault: StepFault;

  constructor(fault: StepFault) {
    super("the answer is not to this request");
    this.name = "OutOfStep";
    this.fault = fault;
  }
}

/** A connection that may carry no request, for this reason. */
export class ProofFailed extends Error {
  readonly failure: Failure;

  constructor(failure: Failure) {
    super(failure.error.message, { cause: failure.error });
    this.name = "ProofFailed";
    this.failure = failure;
  }
}

/** Throws the refusal of `rateLimit` as what it means for a connection. */
export function refusedByLimit(error: unknown): never {
  throw new ProofFailed({ reason: "http-429", error: toGatewayError(error) });
}

/** No connection within the time for one. */
export class ConnectTimeout extends Error {
  constructor() {
    super("the connection was not established in time");
    this.name = "ConnectTimeout";
  }
}
