import { readAnswerBody } from "../../bodies/answer.ts";
import type { AbortSignalLike, Clock, Instant } from "../../clock.ts";
import type { UpstreamConfig } from "../../config/schema.ts";
import { GatewayError } from "../../errors.ts";
import { retryAfter } from "../../fields.ts";
import type { Credentials } from "../credentials/credentials.ts";
import { unusable } from "../failure.ts";
import type { RateLimit } from "../../limits/rate-limit.ts";
import { decodeAnswer, isCoded, isConflict, isOwnRefusal, readAnswer } from "../wire/answer.ts";
import { ConnectionGone, ProofFailed, refusedByLimit } from "../wire/connection-failure.ts";
import type { Connection } from "../wire/connection.ts";
import { fetchAnswer } from "../wire/awaited-answer.ts";
import type { ConnectionSource } from "../wire/request.ts";
import type { UpstreamNode } from "./node.ts";

const INFO_PATH = "/registry/metadata/v1/info";
/** An info is a few hundred bytes. */
const MAX_INFO = 256 * 1024;

export interface ProofParts {
  readonly config: UpstreamConfig;
  readonly clock: Clock;
  readonly credentials: Credentials | undefined;
  readonly rateLimit: RateLimit | undefined;
  /** Aborts when the upstream is closed. */
  readonly signal: AbortSignalLike;
}

export interface AskTerms {
  readonly deadline: Instant;
  /** When `rateLimit` granted it. */
  readonly paidAt: Instant;
}

/** What the node's own info (spec.md §4.1) says. @throws ProofFailed that says why it names no admin */
export async function askInfo(
  node: UpstreamNode,
  connection: Connection,
  { deadline, paidAt }: AskTerms,
  { config, clock, credentials, rateLimit, signal }: ProofParts,
): Promise<Info> {
  const upstream = config.name;
  const credentialFields = credentials === undefined ? [] : await credentials.fields({ deadline, signal });
  await rateLimit?.begin({ operation: "info", priority: "post", deadline }, paidAt)?.catch(refusedByLimit);
  const fields = ["accept", "application/json", "accept-encoding", "identity", ...credentialFields];
  const request = { method: "GET", path: node.basePath + INFO_PATH, fields } as const;
  let raw = await fetchAnswer(only(connection, node), request, {
    clock,
    upstream,
    deadline,
    signal,
    maxBody: MAX_INFO,
  });
  if ("reason" in raw) throw new ProofFailed(raw);
  if (raw.status === 429 && !isConflict(raw.status, raw.fields, raw.body)) {
    const asked = retryAfter(raw.fields);
    rateLimit?.shrink("info", asked);
    if (asked !== undefined) {
      node.rest(clock.now(), asked, true);
      throw new ProofFailed({ reason: "http-429", error: statusError(upstream, raw.status, asked) });
    }
  }
  const context = {
    upstream,
    node: node.index,
    maxBody: MAX_INFO,
    isConditional: false,
    isOwnRefusal: isOwnRefusal(config, []),
    isOptional: false,
  };
  if (isCoded(raw)) {
    const decoded = await decodeAnswer(raw, context);
    if ("reason" in decoded) throw unproved(decoded.error);
    raw = decoded;
  }
  const { answer, failure } = readAnswer(raw, readAnswerBody(raw.body, "info"), context);
  if (answer === undefined) {
    if (failure?.reason === "credentials") credentials?.distrust();
    throw unproved(failure?.error ?? unusable(upstream, "gave no answer"));
  }
  if (answer.status !== 200) throw unproved(statusError(upstream, answer.status, retryAfter(answer.fields)));
  const { adminId, supportedApis } = answer.content ?? {};
  if (adminId === undefined) {
    if (connection.isInDoubt) connection.leaveStep("another");
    throw unproved(unusable(upstream, `has an info without adminId (${INFO_PATH}): it is no registry`));
  }
  return { adminId, supportedApis };
}

export interface Info {
  readonly adminId: string;
  readonly supportedApis: readonly string[] | undefined;
}

export function unproved(error: GatewayError): ProofFailed {
  return new ProofFailed({ reason: "unproved", error });
}

/** One connection, once; it is not given back to the others. */
function only(connection: Connection, { connections }: UpstreamNode): ConnectionSource {
  let left: Connection | undefined = connection;
  return {
    origin: connections.origin,
    take() {
      const taken = left;
      left = undefined;
      return taken;
    },
    open: () => Promise.reject(new ConnectionGone()),
    release: () => undefined,
    discard: (each) => each.close(),
  };
}

function statusError(upstream: string, status: number, seconds: number | undefined): GatewayError {
  const text = `answered ${status} when asked which registry it is (${INFO_PATH}); no request reaches it before it has named one`;
  if (status === 429 || status === 503) {
    return new GatewayError("upstream_busy", `upstream "${upstream}" ${text}; try again in ${seconds ?? 1} s`, {
      retryAfter: seconds ?? 1,
    });
  }
  return unusable(upstream, text, "upstream_unreachable");
}

/** The 429 for a check that finds no call of `rateLimit` left. */
export function noCallLeft(upstream: string): GatewayError {
  const text = `no call is left of rateLimit to check upstream "${upstream}"`;
  return new GatewayError("too_many_requests", text, { retryAfter: 1 });
}
