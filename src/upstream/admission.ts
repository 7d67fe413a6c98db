import type { Instant } from "../clock.ts";
import { GatewayError } from "../errors.ts";
import type { Priority } from "./call.ts";
import type { UpstreamParts } from "./parts.ts";
import { waitFor } from "./patience.ts";
import { uploadTimeout } from "./upload.ts";
import type { Upload } from "./upload.ts";

/** Somebody who wants to make a call. */
export interface Entrant {
  readonly priority: Priority;
  readonly deadline: Instant;
  readonly signal?: AbortSignal | undefined;
}

/**
 * What a call passes before its first attempt: a node has proved the admin, the breaker is closed, there is a place.
 * Undefined when it passed at once. Whoever passed calls `bulkhead.leave()` once and reports to the breaker.
 * @throws GatewayError (at once or in the promise) that is the call's answer.
 */
export function admit(parts: UpstreamParts, entrant: Entrant): undefined | Promise<void> {
  const { nodes, bulkhead } = parts;
  if (!nodes.hasProved || nodes.disabledBecause !== undefined) return admitLater(parts, entrant);
  throwIfBroken(parts);
  if (!bulkhead.tryEnter()) return waitForPlace(parts, entrant);
  passBreaker(parts);
  return undefined;
}

/**
 * What a call passes before {@link admit} when its body is still to arrive. The deadline is that of the body. Resolves
 * at once where a client that stalls costs the others little; else when the body is here, or so much of it that the
 * rest has to be streamed. Returns whether it has a place in `bulkhead.uploads`, to be left once when the body is here.
 * @throws GatewayError that is the call's answer: 408, 413, 503 or 504.
 */
export async function admitUpload(parts: UpstreamParts, upload: Upload, entrant: Entrant): Promise<boolean> {
  const { breaker, bulkhead, clock, config, egress, observer } = parts;
  // A body that may never come has no call of rateLimit, is not the breaker's probe and has not the only place.
  const mayStall = egress === undefined && breaker.state === "closed" && config.concurrency.max > 1;
  if (mayStall && bulkhead.uploads.tryEnter()) return true;
  await waitFor(upload.whenReady(), { ...entrant, late: uploadTimeout }, clock);
  if (upload.hasArrived) return false;
  if (bulkhead.uploads.tryEnter()) return true;
  try {
    await bulkhead.uploads.enter(entrant);
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
    await parts.bulkhead.enter(entrant);
  } catch (error) {
    parts.observer.refused(parts.config.name, "queue");
    throw error;
  }
  passBreaker(parts);
}

function throwIfBroken({ breaker, config, observer }: UpstreamParts): void {
  const wait = breaker.waitTime();
  if (wait === 0) return;
  observer.refused(config.name, "breaker");
  const seconds = Math.max(1, Math.ceil(wait / 1_000));
  throw new GatewayError(
    503,
    `upstream "${config.name}" fails on all its nodes and is given a pause; try again in ${seconds} s`,
    { retryAfter: seconds, proxyError: "destination_unavailable" },
  );
}

/** With a place taken. */
function passBreaker(parts: UpstreamParts): void {
  if (parts.breaker.admit()) return;
  parts.bulkhead.leave();
  throwIfBroken(parts);
}
