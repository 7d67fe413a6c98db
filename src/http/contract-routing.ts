import { probeContract, type ProbeResult } from "../aggregate/contract-probe.ts";
import { GatewayError } from "../errors.ts";
import type { UpstreamAnswer } from "../upstream/call.ts";
import type { Upstream } from "../upstream/upstream.ts";
import type { Exchange } from "./exchange.ts";
import { hasPlainUpstream } from "./plain.ts";
import { adminNotNamed } from "./resolve-upstream.ts";
import type { Runtime, Surroundings } from "./context.ts";
import type { RegistryTarget } from "./target.ts";

/**
 * Where a request goes that names no admin but a contract: to the registry that answered for the contract before
 * (`routing.learn`), else to all of them (`routing.probe`). Undefined where neither says.
 *
 * @throws GatewayError 400 for a contract that several registries answered for
 */
export async function routeContract(
  { aggregation }: Surroundings,
  { runtime, target }: Exchange,
): Promise<Upstream | "probe" | undefined> {
  const { endpoint, id } = target as RegistryTarget;
  const { learn, probe } = runtime.config.routing;
  if (endpoint.kind !== "context" || id === undefined || hasPlainUpstream(runtime)) return undefined;
  const learned = learn ? await aggregation.contracts.recall(id) : undefined;
  if (learned === "several") {
    throw new GatewayError(
      "contract_ambiguous",
      `more than one registry has answered for this contract id; ${howToName(runtime)}`,
    );
  }
  const upstream = learned === undefined ? undefined : runtime.upstreams.byAdmin(learned.admin);
  return upstream ?? (probe ? "probe" : undefined);
}

/** Asks all registries; see {@link probeContract}. */
export function probeRegistries(
  runtime: Runtime,
  call: (upstream: Upstream) => Promise<UpstreamAnswer>,
): Promise<ProbeResult> {
  return probeContract(runtime.upstreams.all, call, howToName(runtime));
}

/** Notes which registry answered for a contract, where `routing.learn` asks for it. */
export function learnContract({ aggregation }: Surroundings, { runtime, target }: Exchange, upstream: Upstream): void {
  const { id } = target as RegistryTarget;
  if (!runtime.config.routing.learn || id === undefined || upstream.admin === undefined) return;
  void aggregation.contracts.learn(id, upstream.admin);
}

function howToName({ config }: Runtime): string {
  return adminNotNamed(config.routing, false).message;
}
