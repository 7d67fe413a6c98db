import type { Instant } from "../../clock.ts";
import { GatewayError } from "../../errors.ts";
import type { CircuitBreaker } from "../limits/circuit-breaker.ts";
import type { Priority } from "../call.ts";
import type { UpstreamParts } from "../parts.ts";
import { withDeadline } from "../../deadline.ts";
import { uploadTimeout } from "../wire/upload.ts";
import type { Upload } from "../wire/upload.ts";

/** Somebody who wants to make a call. */
export interface Entrant {
  readonly priority: Priority;
  readonly deadline: Instant;
  readonly signal?: AbortSignal | undefined;
  /** That of its kind of call. */
  readonly breaker: CircuitBreaker;
}

/**
 * What a call passes before its first attempt: a node has proved the admin, the breaker is closed, there is a place.
 * Undefined when it passed at once. Whoever passed calls `concurrency.leave()` once.
 * @throws GatewayError (at once or in the promise) that is the call's answer.
 */
export function admit(parts: UpstreamParts, entrant: Entrant): undefined | Promise<void> {
  const { nodes, concurrency } = parts;
  if (!nodes.hasProved || nodes.disabledBecause !== undefined) return admitLater(parts, entrant);
  throwIfBroken(parts, entrant);
  return concurrency.tryEnter() ? undefined : waitForPlace(parts, entrant);
}

/**
 * What a call passes before {@link admit} when its body is still to arrive. The deadline is that of the body. Resolves
 * at once where a client that stalls costs the others little; else when the body is here, or so much of it that the
 * rest has to be streamed. Returns whether it has a place in `concurrency.uploads`, to be left once when the body is here.
 * @throws GatewayError that is the call's answer: 408, 413, 503 or 504.
 */
export async function admitUpload(parts: UpstreamParts, upload: Upload, entrant: Entrant): Promise<boolean> {
  const { concurrency, clock, config, rateLimit, observer } = parts;
  throwIfBroken(parts, entrant);
  // A body that may never come has no call of rateLimit and has not the only place.
  const mayStall = rateLimit === undefined && config.concurrency.max > 1;
  if (mayStall && concurrency.uploads.tryEnter()) return true;
  await withDeadline(upload.whenReady(), { ...entrant, late: uploadTimeout }, clock);
  if (upload.hasArrived) return false;
  if (concurrency.uploads.tryEnter()) return true;
  try {
    await concurrency.uploads.enter(entrant);
  } catch (error) {
    observer.refused(config.name, "queue");
    throw error;
  }
  return true;
}

async function admitLater(parts: UpstreamParts, entrant: Entrant): Promise<void> {
  if (parts.nodes.disabledBecause !== undefined) parts.observer.refused(parts.config.name, "disabled");
  await parts.nodes.whenProved(entrant);
  await admit(parts, entrant);
}

async function waitForPlace(parts: UpstreamParts, entrant: Entrant): Promise<void> {
  try {
    await parts.concurrency.enter(entrant);
  } catch (error) {
    parts.observer.refused(parts.config.name, "queue");
    throw error;
  }
  try {
    throwIfBroken(parts, entrant);
  } catch (error) {
    parts.concurrency.leave();
    throw error;
  }
}

function throwIfBroken({ config, observer }: UpstreamParts, { breaker }: Entrant): void {
  const wait = breaker.waitTime();
  if (wait === 0) return;
  observer.refused(config.name, "breaker");
  const seconds = Math.max(1, Math.ceil(wait / 1_000));
  throw new GatewayError(
    "circuit_open",
    `upstream "${config.name}" fails on all its nodes and is given a pause; try again in ${seconds} s`,
    { retryAfter: seconds },
  );
}
