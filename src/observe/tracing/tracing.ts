import type { IncomingHttpHeaders } from "node:http";
import type { Duration } from "../../clock.ts";
import type { OperationLabel, OutcomeLabel } from "../metrics/labels.ts";
import type { Config } from "../../config/schema.ts";
import type { CallTrace } from "../../upstream/observer.ts";
import type { TracingOptions } from "./otlp.ts";

/** What a finished request says about itself in its trace: never ids of parties, contracts or instruments. */
export interface RequestSummary {
  readonly requestId: string;
  readonly method: string;
  readonly operation: OperationLabel;
  /** The alias, or `none`. */
  readonly upstream: string;
  readonly status: number;
  readonly outcome: OutcomeLabel;
  /** Why the gateway answered with an error of its own. */
  readonly reason?: string | undefined;
}

/** Values by name. */
export type Attributes = Readonly<Record<string, string | number | boolean>>;

/** One request on its way: from the client, through the tiers of the cache, to attempts at nodes. */
export interface RequestTrace extends CallTrace {
  /** 32 hex digits: the same in the log line and in what goes upstream. */
  readonly id: string;
  /** Whether it is kept and sent. */
  readonly isSampled: boolean;
  /** Runs `work` so that {@link Tracing.current} is this request, also in what it awaits. */
  run<T>(work: () => T): T;
  annotate(attributes: Attributes): void;
  /** Notes something that has just ended and took `duration`. */
  note(name: string, duration: Duration, attributes: Attributes): void;
  end(summary: RequestSummary): void;
}

/** Traces requests. Where tracing is off there is none of it: nothing is loaded, and nothing is asked but for that. */
export interface Tracing {
  /** A request came; `headers` may continue a client's trace (W3C Trace Context). `age`: since it began. */
  begin(headers: IncomingHttpHeaders, age?: Duration): RequestTrace;
  /** The request in whose course this is called. */
  current(): RequestTrace | undefined;
  /** Sends what is left and ends. */
  close(): Promise<void>;
}

/**
 * Tracing as configured; undefined, with nothing loaded, where it is off.
 *
 * @throws Error when it is on and its packages cannot be loaded
 */
export async function loadTracing(
  { endpoint, ratio }: Config["tracing"],
  environment: Omit<TracingOptions, "endpoint" | "ratio">,
): Promise<Tracing | undefined> {
  if (endpoint === undefined) return undefined;
  const { startTracing } = await import("./otlp.ts").catch((error: unknown) => {
    throw new Error("tracing.endpoint is set, but the OpenTelemetry packages are not installed", { cause: error });
  });
  return startTracing({ endpoint, ratio, ...environment });
}
