import { GatewayError } from "../errors.ts";
import type { UpstreamAnswer } from "../upstream/call.ts";
import type { Upstream } from "../upstream/upstream.ts";
import { isRegistryFailure } from "./registries.ts";

/** Registries that are asked at once. */
const CONCURRENCY = 8;

/** The registry that knows a contract, and its answer. */
export interface ProbeResult {
  readonly upstream: Upstream;
  readonly answer: UpstreamAnswer;
}

/**
 * Asks every registry the same question about a contract. Exactly one that answers 200 is the one.
 *
 * @param howToName what a client can do where asking does not tell, for the texts of errors
 * @throws GatewayError 400 when several do, 404 when all say 404, what a registry failed with when none does and that
 * one might have, else 400
 */
export async function probeContract(
  upstreams: readonly Upstream[],
  call: (upstream: Upstream) => Promise<UpstreamAnswer>,
  howToName: string,
): Promise<ProbeResult> {
  const results: ProbeResult[] = [];
  const failures: GatewayError[] = [];
  const queue = upstreams.values();
  async function work(): Promise<void> {
    for (const upstream of queue) {
      try {
        results.push({ upstream, answer: await call(upstream) });
      } catch (error) {
        if (!isRegistryFailure(error)) throw error;
        failures.push(error);
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(CONCURRENCY, upstreams.length) }, work));

  const [known, other] = results.filter(({ answer }) => answer.status === 200);
  if (known !== undefined && other === undefined) return known;
  if (other !== undefined) {
    throw new GatewayError(400, `more than one registry knows this contract id; ${howToName}`);
  }
  const [failure] = failures;
  if (failure !== undefined) throw failure;
  const refusal = results.find(({ answer }) => answer.status !== 404);
  if (refusal === undefined) throw new GatewayError(404, "no registry behind this gateway knows this contract id");
  throw new GatewayError(
    400,
    `no registry answers for this contract id; the registry "${refusal.upstream.name}" refused the request with ` +
      `${refusal.answer.status}; ${howToName}`,
  );
}
