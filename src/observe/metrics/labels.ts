import type { ClosingReason } from "../../connections/connections.ts";
import type { HandshakeFailure } from "../../connections/tls.ts";
import { CACHE_OUTCOMES, type CacheOutcome } from "../../cache/resource.ts";
import { type ErrorCode, ERRORS } from "../../errors.ts";
import { OPERATIONS, type Operation } from "../../spec/operations.ts";

/** Stands for the names of the upstreams, which the configuration gives. */
export const ALIAS = "alias";

/** The same, and `none` for what was about no upstream or about several. */
export const ALIAS_OR_NONE = "alias or none";

/** Stands for the names of clients; {@link MOST_NAMES} bounds them. */
export const CLIENT = "client";

/** Stands for the names of the sources of discovery. */
export const SOURCE = "source";

/** Names of clients that are labels of their own; what comes then is counted under its tier. */
export const MOST_NAMES = { key: 1_000, token: 200, certificate: 200 } as const;

/** Labels of a metric, each with every value it may have: that is what bounds the number of series. */
export type LabelSet = Readonly<
  Record<string, readonly string[] | typeof ALIAS | typeof ALIAS_OR_NONE | typeof CLIENT | typeof SOURCE>
>;

/** Of a metric without labels. */
export type NoLabels = Readonly<Record<string, never>>;

/** The labels that have to be given, each with one of its values. */
export type LabelValues<Labels extends LabelSet> = {
  readonly [Name in keyof Labels]: Labels[Name] extends readonly (infer Value)[] ? Value : string;
};

export const ERROR_CODE = Object.keys(ERRORS) as readonly ErrorCode[];

export type OperationLabel = Operation | "none";
export const OPERATION: readonly OperationLabel[] = [...OPERATIONS, "none"];

/** `refused`: answered with an error of the gateway's own. */
export type OutcomeLabel = CacheOutcome | "refused";
export const OUTCOME: readonly OutcomeLabel[] = [...CACHE_OUTCOMES, "refused"];

/** `gone`: the client went away before its answer. */
export const STATUS_CLASS = ["1xx", "2xx", "3xx", "4xx", "5xx", "gone"] as const;
export type StatusClass = (typeof STATUS_CLASS)[number];

/** The status of a request whose client went away before its answer, as nginx counts it. */
export const CLIENT_GONE = 499;

export function statusClassOf(status: number): StatusClass {
  if (status === CLIENT_GONE) return "gone";
  if (status < 200) return "1xx";
  if (status < 300) return "2xx";
  if (status < 400) return "3xx";
  return status < 500 ? "4xx" : "5xx";
}

export const CLOSING_REASON = [
  "pipelined",
  "unread",
  "crowded",
  "idle",
  "refused",
] as const satisfies readonly ClosingReason[];

/** Where the keys of clients come from: the keys file, and issuers of tokens. */
export const CLIENT_KEYS = ["file", "issuer"] as const;

/** Codes of errors that say that a client may not call, or not now. */
export const CLIENT_REFUSAL = [
  "credential_missing",
  "credential_invalid",
  "credential_expired",
  "credentials_differ",
  "upstream_forbidden",
  "client_rate_limited",
  "client_concurrency",
] as const satisfies readonly ErrorCode[];
export type ClientRefusal = (typeof CLIENT_REFUSAL)[number];

export const HANDSHAKE_FAILURE = [
  "certificate",
  "http",
  "timeout",
  "other",
] as const satisfies readonly HandshakeFailure[];

/** The bound that keeps the end of a registry's listing out of the catalogue. */
export const CATALOGUE_BOUND = ["pages", "bytes", "instruments", "time", "bytes_of_all", "catalogue"] as const;
export type CatalogueBound = (typeof CATALOGUE_BOUND)[number];

/** What answered a factory or context without a call of its own: one that was running, or an answer that was kept. */
export const CALL_SPARED_BY = ["shared", "kept"] as const;

/** Of the fetches that one replica makes for all. */
export const LEASE_STATE = ["held", "awaited"] as const;

/** What a call or attempt was for: the latencies of the two kinds have nothing to do with each other. */
export const CALL_KIND = ["metadata", "other"] as const;
export type CallKind = (typeof CALL_KIND)[number];

/** Places of nodes in `urls`, which takes 64. */
export const NODE_PLACE: readonly string[] = Array.from({ length: 64 }, (_, place) => String(place));

export const CHECK_OUTCOME = ["success", "failure"] as const;

export const RELOAD_RESULT = ["applied", "unchanged", "refused"] as const;
