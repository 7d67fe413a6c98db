import { expect, test } from "vitest";
import { GatewayError } from "../../../src/errors.ts";
import { FAILURES, type FailureReason, failed, reasonOf } from "../../../src/upstream/failure.ts";

function fault(code: string, name = "Error"): Error {
  return Object.assign(new Error("10.0.0.7:8080 said no"), { code, name });
}

test.each<[Error, FailureReason, FailureReason]>([
  [fault("ECONNREFUSED"), "refused", "refused"],
  [fault("ECONNRESET"), "reset", "broken"],
  [fault("UND_ERR_SOCKET"), "reset", "broken"],
  [fault("EPIPE"), "reset", "broken"],
  [fault("ENOTFOUND"), "dns", "dns"],
  [fault("EAI_AGAIN"), "dns", "dns"],
  [fault("EHOSTUNREACH"), "unreachable", "broken"],
  [fault("ETIMEDOUT"), "late", "late"],
  [fault("UND_ERR_CONNECT_TIMEOUT"), "late", "late"],
  [fault("CERT_HAS_EXPIRED"), "certificate", "certificate"],
  [fault("ERR_TLS_CERT_ALTNAME_INVALID"), "certificate", "certificate"],
  [fault("DEPTH_ZERO_SELF_SIGNED_CERT"), "certificate", "certificate"],
  [fault("ERR_SSL_WRONG_VERSION_NUMBER"), "tls", "tls"],
  [fault("EPROTO"), "tls", "tls"],
  [fault("PROXY"), "proxy", "proxy"],
  [fault("HPE_INVALID_CONSTANT"), "protocol", "broken"],
  [fault("", "HTTPParserError"), "protocol", "broken"],
  [fault("UND_ERR_HEADERS_OVERFLOW"), "head_too_large", "head_too_large"],
  [fault("UND_ERR_INVALID_ARG"), "internal", "internal"],
  [new AggregateError([fault("ECONNREFUSED"), fault("ETIMEDOUT")]), "refused", "refused"],
  [new Error("who knows"), "unreachable", "broken"],
])("%s is %s before an answer began, and %s behind its beginning", (error, before, behind) => {
  expect(reasonOf(error, false)).toBe(before);
  expect(reasonOf(error, true)).toBe(behind);
});

/** reason → another node · the same again · ask the info · status of the error */
test.each<[FailureReason, boolean, string, boolean, number]>([
  ["refused", true, "yes", true, 502],
  ["reset", true, "yes", true, 502],
  ["unsent", true, "yes", true, 502],
  ["broken", true, "yes", true, 502],
  ["late", true, "address", true, 504],
  ["dns", true, "no", true, 502],
  ["certificate", true, "no", true, 502],
  ["unreadable", true, "no", true, 502],
  ["redirect", true, "no", false, 502],
  ["wrong_url", true, "no", false, 502],
  ["wrong_admin", true, "no", true, 502],
  ["credentials", false, "no", false, 502],
  ["too_large", false, "no", false, 502],
  ["not_found", true, "no", false, 502],
  ["http_429", true, "no", false, 502],
  ["http_503", true, "no", true, 502],
  ["http_error", false, "no", false, 502],
])("%s: elsewhere %s, again %s, doubts the node %s, status %d", (reason, elsewhere, again, doubts, status) => {
  expect(FAILURES[reason]).toMatchObject({ elsewhere, again, doubts });
  expect((failed(reason, "amulet").last as GatewayError).status).toBe(status);
});

test("every error says what is wrong with which registry and what to do, and no address", () => {
  for (const reason of Object.keys(FAILURES) as FailureReason[]) {
    const { last } = failed(reason, "amulet", { cause: fault("ECONNREFUSED") });
    expect(last).toBeInstanceOf(GatewayError);
    const { message } = last as GatewayError;
    expect(message).toMatch(reason === "internal" ? /^internal server error$/ : /^the registry "amulet" .+; .+/);
    expect(message).not.toContain("10.0.0.7");
  }
});
