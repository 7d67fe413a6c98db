import { type Answer, jsonAnswer } from "./answer.ts";
import type { Call, CallLog } from "./call-log.ts";
import type { FaultKnobs } from "./faults.ts";
import { readFaults, SandboxOptionError } from "./sandbox-options.ts";

/** One request that a sandbox received. */
export interface SandboxCall {
  /** The endpoint as the gateway's logs and metrics name it: `info`, `instruments`, `transfer_factory`, … */
  readonly operation: string;
  readonly method: string;
  /** Path and query exactly as received. */
  readonly url: string;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** The body as text; empty for a GET. */
  readonly body: string;
  /** `aborted`: the client went away before the whole answer was sent, or a fault broke the connection. */
  readonly outcome: "open" | "answered" | "aborted";
}

/** Where a running sandbox learns what to do: no path of the standard begins so. */
export const CONTROL = "/sandbox/";

/**
 * What the control endpoint does with a request: `GET /sandbox/calls` shows what was asked, `DELETE /sandbox/calls` forgets
 * it, `POST /sandbox/fail` with `{"id", "times", "fault"}` lets requests that name `id` fail.
 */
export function control(request: Omit<Call, "operation">, calls: CallLog, faults: FaultKnobs): Answer {
  switch (`${request.method} ${request.url}`) {
    case "GET /sandbox/calls":
      return jsonAnswer(200, { calls: calls.recent.map(describeCall) });
    case "DELETE /sandbox/calls":
      calls.clear();
      return jsonAnswer(200, {});
    case "POST /sandbox/fail":
      return fail(request.body, faults);
    default:
      return jsonAnswer(404, { error: "The sandbox knows GET and DELETE /sandbox/calls, and POST /sandbox/fail." });
  }
}

/** A call as users of the sandbox read it. */
export function describeCall({ operation, method, url, headers, body, outcome }: Call): SandboxCall {
  return { operation, method, url, headers, body: body.toString("utf8"), outcome };
}

function fail(body: Buffer, faults: FaultKnobs): Answer {
  try {
    const { id, times = 1, fault = "500" } = JSON.parse(body.toString("utf8")) as Record<string, unknown>;
    if (typeof id !== "string" || !Number.isInteger(times) || typeof fault !== "string") {
      return jsonAnswer(400, { error: 'The body is {"id": text, "times": number, "fault": text}.' });
    }
    faults.failFor(id, readFaults([fault])[0]!, times as number);
    return jsonAnswer(200, {});
  } catch (error) {
    const why = error instanceof SandboxOptionError ? error.message : "The body is not readable as JSON.";
    return jsonAnswer(400, { error: why });
  }
}
