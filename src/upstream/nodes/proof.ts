import { quote } from "../../json.ts";
import { readAnswerBody } from "../../bodies/answer.ts";
import type { AbortSignalLike, Clock, Instant } from "../../clock.ts";
import type { UpstreamConfig } from "../../config/schema.ts";
import { GatewayError, toGatewayError } from "../../errors.ts";
import type { Credentials } from "../credentials/credentials.ts";
import { connectTimeout, type Failure, unusable } from "../failure.ts";
import type { RateLimit } from "../../limits/rate-limit.ts";
import { decodeAnswer, isCoded, isConflict, isOwnRefusal, readAnswer, retryAfter } from "../wire/answer.ts";
import { connectionFailure, ConnectionGone, ProofFailed } from "../wire/connection-failure.ts";
import type { Connection } from "../wire/connection.ts";
import { Opening } from "../wire/connections.ts";
import { fetchAnswer } from "../wire/awaited-answer.ts";
import type { ConnectionSource } from "../wire/request.ts";
import type { UpstreamNode } from "./node.ts";
import { isPartyId } from "./registry-admin.ts";

const INFO_PATH = "/registry/metadata/v1/info";
/** An info is a few hundred bytes. */
const MAX_INFO = 256 * 1024;

interface ProofParts {
  readonly config: UpstreamConfig;
  readonly clock: Clock;
  readonly credentials: Credentials | undefined;
  readonly rateLimit: RateLimit | undefined;
  /** Aborts when the upstream is closed. */
  readonly signal: AbortSignalLike;
  /** The admin that is expected; undefined before one is known. */
  readonly expected: () => string | undefined;
  /** The node named this admin, and these APIs. @throws GatewayError when a call may not go that way */
  readonly onNamed: (node: UpstreamNode, admin: string, supportedApis: readonly string[] | undefined) => void;
  /** The node named none. Returns what those get who wait for it. */
  readonly failed: (node: UpstreamNode, failure: Failure) => ProofFailed;
}

/** Asks nodes which registry they are. */
export class NodeProof {
  private readonly parts: ProofParts;

  constructor(parts: ProofParts) {
    this.parts = parts;
  }

  /** @throws GatewayError 429 when there is no call left to ask with. */
  async pay(isWaitedFor: boolean, deadline: Instant): Promise<void> {
    const { rateLimit, config } = this.parts;
    if (rateLimit === undefined) return;
    if (isWaitedFor) return rateLimit.take({ operation: "info", priority: "post", deadline });
    if (await rateLimit.tryTake("info", "refresh")) return;
    const text = `no call is left of rateLimit to check upstream "${config.name}"`;
    throw new GatewayError("too_many_requests", text, { retryAfter: 1 });
  }

  /** Pays for what a call waits for. @throws ProofFailed when there is no call left to ask with */
  async payForCall(deadline: Instant): Promise<void> {
    try {
      await this.pay(true, deadline);
    } catch (error) {
      throw new ProofFailed({ reason: "http-429", error: toGatewayError(error) });
    }
  }

  /** Asks over a new connection, with a call that was paid for. @throws ProofFailed */
  async ask(node: UpstreamNode, deadline: Instant): Promise<void> {
    const { clock, config, signal, failed } = this.parts;
    const opening = new Opening();
    const stop = () => opening.abort();
    let isLate = false;
    const cancelTimer = clock.after(deadline - clock.now(), () => {
      isLate = true;
      stop();
    });
    signal.addEventListener("abort", stop);
    try {
      await node.connections.check(opening, (connection) => this.askOver(connection, node, deadline));
    } catch (error) {
      if (error instanceof ProofFailed) throw error;
      throw failed(node, isLate ? connectTimeout(config.name) : connectionFailure(config.name, error, false));
    } finally {
      cancelTimer();
      signal.removeEventListener("abort", stop);
    }
  }

  /** Asks over this connection, which stays the caller's. @throws ProofFailed */
  async askOver(connection: Connection, node: UpstreamNode, deadline: Instant): Promise<void> {
    const { config, expected, onNamed, failed } = this.parts;
    let admin: string;
    let supportedApis: readonly string[] | undefined;
    try {
      ({ adminId: admin, supportedApis } = await this.askInfo(node, connection, deadline));
      if (expected() === undefined && !isPartyId(admin)) {
        throw unproved(unusable(config.name, `names the admin ${quote(admin)} in its info, which is no party id`));
      }
    } catch (error) {
      const failure = connectionFailure(config.name, error, false);
      // What comes over a connection in doubt says nothing about the node.
      throw connection.isInDoubt ? new ProofFailed(failure) : failed(node, failure);
    }
    try {
      onNamed(node, admin, supportedApis);
    } catch (error) {
      const reason = node.state === "unproved" ? "unproved" : "wrong-admin";
      throw new ProofFailed({ reason, error: toGatewayError(error) });
    }
  }

  /** What the node's own info (spec.md §4.1) says. @throws ProofFailed that says why it names no admin */
  private async askInfo(node: UpstreamNode, connection: Connection, deadline: Instant): Promise<Info> {
    const { config, clock, credentials, signal } = this.parts;
    const upstream = config.name;
    const credentialFields = credentials === undefined ? [] : await credentials.fields({ deadline, signal });
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
      this.parts.rateLimit?.shrink("info", retryAfter(raw.fields));
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
}

interface Info {
  readonly adminId: string;
  readonly supportedApis: readonly string[] | undefined;
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
