import type { CacheOutcome } from "../cache/types.ts";
import { withoutKeys } from "../clients/credential.ts";
import type { Config } from "../config/schema.ts";
import type { ErrorCode } from "../errors.ts";
import { printable } from "../json.ts";
import type { RequestRecord } from "../requests/record.ts";
import { pathOf } from "../requests/url.ts";
import { traceFieldsOf } from "../trace-context.ts";
import type { Operation } from "../spec/operations.ts";
import { causesOf, type Logger } from "./log.ts";
import type { RecentRequests } from "./recent-requests.ts";

/** One request as its log line and `GET /requests` show it: no query, no credential. */
export interface RequestLine {
  /** When it began, ISO 8601. */
  readonly at: string;
  readonly requestId: string;
  readonly traceId?: string | undefined;
  readonly method: string;
  readonly path: string;
  readonly operation?: Operation | undefined;
  readonly upstream?: string | undefined;
  readonly client?: string | undefined;
  readonly tier?: string | undefined;
  /** The client's, where `log.addresses` is true. */
  readonly address?: string | undefined;
  /** 499: the client went away before it had its answer. */
  readonly status: number;
  /** Code, where the answer is an error of the gateway's own. */
  readonly code?: ErrorCode | undefined;
  readonly outcome?: CacheOutcome | undefined;
  /** From the request's begin to the answer's end. */
  readonly ms: number;
  /** Milliseconds of it in queues towards the registry. */
  readonly waited?: number | undefined;
  readonly attempts?: number | undefined;
  /** The node that was asked last: its place in `urls`, from 0. */
  readonly node?: number | undefined;
  /** Size of the answer's body, as sent. */
  readonly bytes: number;
  /** Causes of an error, the nearest first. */
  readonly causes?: readonly string[] | undefined;
}

interface RequestLogOptions {
  readonly log: Logger;
  readonly recent: RecentRequests;
  /** Gives the group `log` of the running configuration. */
  readonly settings: () => Config["log"];
  /** Chooses the hits that are logged: 0 to 1. */
  readonly random: () => number;
}

/** Writes one line for each request; of fresh hits for a share alone. */
export class RequestLog {
  private readonly options: RequestLogOptions;

  constructor(options: RequestLogOptions) {
    this.options = options;
  }

  ended(record: RequestRecord): void {
    const { log, recent, settings, random } = this.options;
    const { hits, addresses } = settings();
    if (record.outcome === "hit" && record.code === undefined && !(random() < hits)) return;
    const line = lineOf(record, addresses);
    recent.add(line);
    // No client can cause a line above warn, and a registry's own 5xx is no fault of ours.
    if (record.code === undefined || record.status < 500) log.info(line, "request");
    else if (record.code === "internal_error")
      log.warn({ ...line, err: record.error?.cause ?? record.error }, "request");
    else log.warn(line, "request");
  }
}

/** Characters of a path. */
const MOST_OF_PATH = 1_024;

function lineOf(record: RequestRecord, withAddress: boolean): RequestLine {
  const [, traceparent] = traceFieldsOf({ traceparent: record.traceparent });
  const { operation, upstream, client, tier, status, code, outcome, waited, attempts, node, bytes, error } = record;
  const causes = error === undefined ? [] : causesOf(error);
  return {
    at: new Date(record.at).toISOString(),
    requestId: record.id,
    traceId: traceparent?.slice(3, 35),
    method: record.method,
    path: withoutKeys(printable(pathOf(record.url), MOST_OF_PATH)),
    operation,
    upstream,
    client,
    tier,
    address: withAddress ? record.address : undefined,
    status,
    code,
    outcome,
    ms: inMilliseconds(record.seconds),
    waited: waited > 0 ? Math.round(waited) : undefined,
    attempts: attempts > 0 ? attempts : undefined,
    node,
    bytes,
    causes: causes.length > 0 ? causes : undefined,
  };
}

/** Milliseconds, to the microsecond. */
function inMilliseconds(seconds: number): number {
  return Math.round(seconds * 1e6) / 1e3;
}
