import { Abort, type AbortSignalLike } from "../../clock.ts";
import { readAnswerBody } from "../../bodies/answer.ts";
import { AT_ONCE } from "../../bodies/body-reader.ts";
import type { Fields } from "../../fields.ts";
import type { CachedOperation } from "../../spec/endpoints.ts";
import { heedRefusal } from "../call/attempt-outcome.ts";
import type { UpstreamNode } from "../node/node.ts";
import type { UpstreamParts } from "../parts.ts";
import { decodeAnswer, findBusy, isCoded, type RawAnswer } from "../wire/answer.ts";
import { fetchAnswer, requestFields } from "../wire/request.ts";

/** What a node was asked for a client, and others are asked to compare. */
export interface Question {
  readonly operation: CachedOperation;
  /** As of a call. */
  readonly path: string;
  /** Without conditions: a 304 shows nothing. */
  readonly fields: Fields;
  /** The id that it is about; undefined where it is about no single instrument. */
  readonly instrument: string | undefined;
}

/** What can be compared of an answer: a 200, or the 404 of an instrument. */
export interface SeenAnswer {
  readonly status: number;
  readonly body: Buffer;
}

/** `skipped`: it was not asked, or gave way to a client's call. `failed`: it gave no answer that could be compared. */
export type Unseen = "skipped" | "failed";

interface Asking {
  readonly maxBody: number;
  /** Ends it. */
  readonly signal: AbortSignalLike;
  /** A call was sent to the registry, or an info before it. */
  readonly onCall: () => void;
}

/** Whether a node may be asked for the sake of comparison. */
export function mayBeAsked({ breaker, orders, nodes, clock }: UpstreamParts, node: UpstreamNode): boolean {
  if (breaker.state !== "closed" || orders.isCacheOnly || nodes.disabledBecause !== undefined) return false;
  return node.isOpen && node.pausedUntil <= clock.now();
}

/**
 * Asks one node, once, after everything that clients wait for: with a place of `concurrency` that a call can have at once,
 * and with calls of `rateLimit` that are left for background work. How it goes does not count for or against the node, but
 * for a 429. Never rejects.
 */
export async function askNode(
  parts: UpstreamParts,
  node: UpstreamNode,
  question: Question,
  { maxBody, signal, onCall }: Asking,
): Promise<SeenAnswer | Unseen> {
  const wayward = new Abort();
  const giveUp = (): void => wayward.abort();
  if (signal.aborted || !mayBeAsked(parts, node) || !parts.concurrency.tryEnterSpare(giveUp)) return "skipped";
  signal.addEventListener("abort", giveUp);
  node.inFlight += 1;
  try {
    const proofs = await parts.nodes.proveAside(node);
    if (proofs === undefined) return "skipped";
    if (proofs > 0) onCall();
    if ((await parts.rateLimit?.tryTake(question.operation, "background")) === false) return "skipped";
    if (wayward.aborted || !mayBeAsked(parts, node)) return "skipped";
    onCall();
    const seen = await fetchSeen(parts, node, question, { maxBody, signal: wayward });
    return wayward.aborted ? "skipped" : seen;
  } catch {
    // A proof that failed, or credentials that are not to be had: calls tell of both.
    return "failed";
  } finally {
    node.inFlight -= 1;
    signal.removeEventListener("abort", giveUp);
    parts.concurrency.leaveSpare(giveUp);
  }
}

async function fetchSeen(
  parts: UpstreamParts,
  node: UpstreamNode,
  { operation, path, fields }: Question,
  { maxBody, signal }: Pick<Asking, "maxBody" | "signal">,
): Promise<SeenAnswer | "failed"> {
  const { clock, config, credentials } = parts;
  const upstream = config.name;
  const deadline = clock.now() + Math.min(config.attemptTimeout, config.timeout);
  const own = await credentials?.fields({ deadline, signal });
  const request = {
    method: "GET",
    path: node.basePath + path,
    fields: requestFields(fields, credentials?.fieldName, own, false),
  } as const;
  let raw = await fetchAnswer(node.connections, request, { clock, upstream, deadline, signal, maxBody });
  if ("reason" in raw) return "failed";
  if (isCoded(raw)) {
    const context = {
      upstream,
      node: node.index,
      maxBody,
      isConditional: false,
      isOwnRefusal: false,
      isOptional: false,
    };
    const decoded = await decodeAnswer(raw, context);
    if ("reason" in decoded) return "failed";
    raw = decoded;
  }
  const busy = findBusy(raw.status, raw.fields, upstream);
  if (busy !== undefined) heedRefusal(parts, node, { operation, reason: busy.reason, fields: raw.fields });
  if (operation === "info" && !isOfSameAdmin(parts, node, raw)) return "failed";
  return raw.status === 200 || (raw.status === 404 && operation === "instrument") ? raw : "failed";
}

/** An info that names another admin counts as one of a call: the node gets nothing more. */
function isOfSameAdmin({ nodes }: UpstreamParts, node: UpstreamNode, { status, body }: RawAnswer): boolean {
  if (status !== 200 || body.length > AT_ONCE) return false;
  const { adminId } = readAnswerBody(body, "info");
  if (adminId === undefined || adminId === nodes.admin) return true;
  try {
    nodes.hearFromCall(node, adminId);
  } catch {
    // No client waits for it; the node is out.
  }
  return false;
}
