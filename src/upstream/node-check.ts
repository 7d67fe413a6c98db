import type { Clock, Instant } from "../clock.ts";
import type { UpstreamConfig } from "../config/schema.ts";
import { GatewayError } from "../errors.ts";
import { ClientGone } from "./call.ts";
import { decodeAnswer, isCoded, readAnswer, retryAfter } from "./answer.ts";
import { isOwnRefusal } from "./credentials.ts";
import type { Credentials } from "./credentials.ts";
import { Exchange } from "./exchange.ts";
import type { RawAnswer } from "./exchange.ts";
import { answerTimeout, connectTimeout, unusable } from "./failure.ts";
import type { UpstreamNode } from "./node.ts";

const INFO_PATH = "/registry/metadata/v1/info";
/** An info is a few hundred bytes. */
const MAX_INFO = 256 * 1024;

interface CheckParts {
  readonly config: UpstreamConfig;
  readonly upstream: string;
  readonly clock: Clock;
  readonly credentials: Credentials | undefined;
  readonly deadline: Instant;
  /** Ends the check: nobody wants to know any more. */
  readonly signal: AbortSignal;
}

/**
 * Asks a node for its own info (spec.md §4.1) and returns the admin it names.
 * @throws GatewayError 502, 503 or 504 that says why the node did not prove anything.
 */
export async function askAdmin(node: UpstreamNode, parts: CheckParts): Promise<string> {
  const { config, upstream, credentials, deadline, signal } = parts;
  const credentialFields = credentials === undefined ? [] : await credentials.fields({ deadline, signal });
  const fields = ["accept", "application/json", "accept-encoding", "identity", ...credentialFields];
  let raw = await exchange(node, fields, parts);
  const context = {
    upstream,
    node: node.index,
    maxBody: MAX_INFO,
    isConditional: false,
    isOwnRefusal: isOwnRefusal(config, []),
  };
  if (isCoded(raw)) {
    const decoded = await decodeAnswer(raw, context);
    if ("reason" in decoded) throw decoded.error;
    raw = decoded;
  }
  const { answer, failure } = readAnswer(raw, context);
  if (answer === undefined) {
    if (failure?.reason === "credentials") credentials?.distrust();
    throw failure?.error ?? unusable(upstream, "gave no answer");
  }
  if (answer.status !== 200) throw statusError(upstream, answer.status, retryAfter(answer.fields));
  const admin = readAdmin(answer.json);
  if (admin === undefined) throw unusable(upstream, `has an info without adminId (${INFO_PATH}): it is no registry`);
  return admin;
}

function exchange(
  node: UpstreamNode,
  fields: string[],
  { upstream, clock, deadline, signal }: CheckParts,
): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    const stop = (error: GatewayError) => {
      leave();
      exchange.abort();
      reject(error);
    };
    const onAbort = () => stop(new ClientGone());
    const leave = () => {
      cancelTimer();
      signal.removeEventListener("abort", onAbort);
    };
    const cancelTimer = clock.after(deadline - clock.now(), () =>
      stop((exchange.isSent ? answerTimeout : connectTimeout)(upstream).error),
    );
    signal.addEventListener("abort", onAbort);
    const exchange = new Exchange(
      { method: "GET", path: node.basePath + INFO_PATH, fields },
      {
        connections: node.connections,
        clock,
        upstream,
        maxBody: MAX_INFO,
        listener: {
          answered: (answer) => {
            leave();
            resolve(answer);
          },
          failed: ({ error }) => {
            leave();
            reject(error);
          },
        },
      },
    );
  });
}

/** The instrument admin named by an info; undefined when it names none. */
export function readAdmin(json: unknown): string | undefined {
  if (typeof json !== "object" || json === null || !("adminId" in json)) return undefined;
  const { adminId } = json;
  return typeof adminId === "string" && adminId !== "" ? adminId : undefined;
}

function statusError(upstream: string, status: number, seconds: number | undefined): GatewayError {
  const text = `answered ${status} when asked which registry it is (${INFO_PATH}); no request reaches it before it has told`;
  if (status === 429 || status === 503) {
    return new GatewayError(503, `upstream "${upstream}" ${text}; try again in ${seconds ?? 1} s`, {
      retryAfter: seconds ?? 1,
      proxyError: "destination_unavailable",
    });
  }
  return unusable(upstream, text, "destination_unavailable");
}
