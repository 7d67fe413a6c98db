import { GatewayError } from "../errors.ts";
import type { Operation } from "../spec/endpoints.ts";
import type { UpstreamAnswer } from "../upstream/call.ts";
import type { Upstream } from "../upstream/upstream.ts";
import type { MetadataObserver } from "./registry-metadata.ts";

/**
 * Compares a success answer with the published schema of its endpoint.
 *
 * @returns what is wrong with it, for an upstream whose `validation` is lenient: such an answer is passed on
 * @throws GatewayError 502 for an upstream whose `validation` is strict
 */
export function checkAnswer(
  upstream: Upstream,
  operation: Operation,
  answer: UpstreamAnswer,
  observer: Pick<MetadataObserver, "schemaViolated">,
): string | undefined {
  if (answer.status !== 200) return undefined;
  const problem = answer.content?.problem;
  if (problem === undefined) return undefined;
  observer.schemaViolated(upstream.name, operation);
  if (upstream.config.validation !== "strict") return problem;
  throw new GatewayError(
    "upstream_invalid",
    `the registry "${upstream.name}" sent an answer that breaks the published schema: ${problem}`,
  );
}
