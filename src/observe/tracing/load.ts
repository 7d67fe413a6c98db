import type { Config } from "../../config/schema.ts";
import type { TracingOptions } from "./otlp.ts";
import type { Tracing } from "./tracing.ts";

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
