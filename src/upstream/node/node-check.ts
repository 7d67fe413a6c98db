import { readAnswerBody } from "../../bodies/answer.ts";
import type { Clock, Instant } from "../../clock.ts";
import type { UpstreamConfig } from "../../config/schema.ts";
import { GatewayError } from "../../errors.ts";
import { decodeAnswer, isCoded, readAnswer, retryAfter } from "../wire/answer.ts";
import { isOwnRefusal } from "../credentials/credentials.ts";
import type { Credentials } from "../credentials/credentials.ts";
import { fetchAnswer } from "../wire/collected-answer.ts";
import type { ConnectionSource } from "../wire/request.ts";
import { ConnectionGone, ProofFailed } from "../wire/connection-failure.ts";
import { unusable } from "../failure.ts";
import type { Connection } from "../wire/connection.ts";
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
 * Asks a node for its own info (spec.md §4.1) over this connection, which stays the caller's, and returns the admin it
 * names.
 * @throws {@link ProofFailed} that says why the node did not prove anything.
 */
export async function askAdmin(node: UpstreamNode, connection: Connection, parts: CheckParts): Promise<string> {
  const { config, upstream, credentials, deadline, signal } = parts;
  const credentialFields = credentials === undefined ? [] : await credentials.fields({ deadline, signal });
  const fields = ["accept", "application/json", "accept-encoding", "identity", ...credentialFields];
  const request = { method: "GET", path: node.basePath + INFO_PATH, fields } as const;
  let raw = await fetchAnswer(only(connection, node), request, { ...parts, maxBody: MAX_INFO });
  if ("reason" in raw) throw new ProofFailed(raw);
  const context = {
    upstream,
    node: node.index,
    maxBody: MAX_INFO,
    isConditional: false,
    isOwnRefusal: isOwnRefusal(config, []),
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
  const admin = answer.content?.adminId;
  if (admin === undefined)
    throw unproved(unusable(upstream, `has an info without adminId (${INFO_PATH}): it is no registry`));
  return admin;
}

function unproved(error: GatewayError): ProofFailed {
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
    discard: (each) => connections.discard(each),
  };
}

/** Whether it has the form of a party id, which no alias has: a name, `::1220` and a fingerprint in hex (field.md). */
export function isPartyId(admin: string): boolean {
  return admin.length <= 255 && /^[\w:\- ]+::1220[0-9a-f]*$/i.test(admin);
}

function statusError(upstream: string, status: number, seconds: number | undefined): GatewayError {
  const text = `answered ${status} when asked which registry it is (${INFO_PATH}); no request reaches it before it has told`;
  if (status === 429 || status === 503) {
    return new GatewayError("upstream_busy", `upstream "${upstream}" ${text}; try again in ${seconds ?? 1} s`, {
      retryAfter: seconds ?? 1,
    });
  }
  return unusable(upstream, text, "upstream_unreachable");
}
