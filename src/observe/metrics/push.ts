import type { Clock, Duration } from "../../clock.ts";
import type { Config } from "../../config/schema.ts";
import type { Logger } from "../log.ts";
import type { LiveRegistry } from "./live-registry.ts";
import type { OtlpPush } from "./otlp.ts";

export interface PushOptions {
  /** Where metrics go: OTLP over HTTP, as JSON. */
  readonly endpoint: string;
  readonly every: Duration;
  readonly registry: LiveRegistry;
  readonly version: string;
  /** The replica's name. */
  readonly instance: string;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * The push that is configured; undefined, with nothing loaded, where there is none.
 *
 * @throws Error when it is on and its packages cannot be loaded
 */
export async function loadPush(
  metrics: Config["metrics"],
  environment: Omit<PushOptions, "endpoint" | "every">,
): Promise<OtlpPush | undefined> {
  if (metrics?.otlp === undefined) return undefined;
  const { OtlpPush: Push } = await import("./otlp.ts").catch((error: unknown) => {
    throw new Error("metrics.otlp is set, but the OpenTelemetry packages are not installed", { cause: error });
  });
  return new Push({ ...metrics.otlp, ...environment });
}
