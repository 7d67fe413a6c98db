import type { Duration } from "../clock.ts";
import { digestOf } from "../digest.ts";
import { GatewayError } from "../errors.ts";
import { failureOf } from "../registry/listing.ts";
import type { FactsPort } from "../sharing/ports.ts";
import type { UpstreamAnswer } from "../upstream/call.ts";
import type { Upstream } from "../upstream/upstream.ts";
import { isRegistryFailure } from "./registries.ts";

/** How long a success is remembered: contracts live for minutes or months, and forgetting costs one refusal. */
const REMEMBERED: Duration = 24 * 3_600_000;

/** What is remembered of an id that succeeded at two registries. No party id is that. */
const AMBIGUOUS = "*";

/**
 * Which admin's registry a contract id was answered by. Shared with other replicas through the coordinator, bounded
 * there, and under hashed keys: no id can be read out of what is remembered.
 *
 * Clients teach it, with registries' answers as proof: a registry that says yes to every id can
 * claim ids it has never seen, until the right one answers for them too.
 */
export class ContractAdmins {
  private readonly facts: FactsPort;

  constructor(facts: FactsPort) {
    this.facts = facts;
  }

  /** Notes that the registry of `admin` answered for the contract. */
  async learn(contract: string, admin: string): Promise<void> {
    const known = await this.facts.recall(factOf(contract));
    const value = known.every((each) => each === admin) ? admin : AMBIGUOUS;
    this.facts.remember(factOf(contract), value, REMEMBERED);
  }

  /** The admins whose registries answered for the contract, as far as is known: none, one, or several. */
  async recall(contract: string): Promise<{ readonly admin: string } | "several" | undefined> {
    const [known, another] = await this.facts.recall(factOf(contract));
    if (known === AMBIGUOUS || another !== undefined) return "several";
    return known === undefined ? undefined : { admin: known };
  }
}

function factOf(contract: string): string {
  return `contract:${digestOf(contract, 43)}`;
}

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
 * @param howToName what a client can do where asking does not say, for the texts of errors
 * @param isSearching further registries may yet be found
 * @throws GatewayError 400 when several do; when none does: 502, 503 or 504 when one of them could not say, or another may
 * yet be found, and so might be the one, 400 when one refuses the request, 404 when all say 404
 */
export async function probeContract(
  upstreams: readonly Upstream[],
  call: (upstream: Upstream) => Promise<UpstreamAnswer>,
  { howToName, isSearching }: { readonly howToName: string; readonly isSearching: boolean },
): Promise<ProbeResult> {
  const results: ProbeResult[] = [];
  const failures: GatewayError[] = [];
  const queue = upstreams.values();
  async function work(): Promise<void> {
    for (const upstream of queue) {
      try {
        const answer = await call(upstream);
        if (isSilence(answer)) failures.push(silenceOf(upstream, answer));
        else results.push({ upstream, answer });
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
    throw new GatewayError("contract_ambiguous", `more than one registry knows this contract id; ${howToName}`);
  }
  const [failure] = failures;
  if (failure !== undefined) throw asServerError(failure);
  if (isSearching) throw notAllFound("knows this contract id");
  const refusal = results.find(({ answer }) => answer.status !== 404);
  if (refusal === undefined)
    throw new GatewayError("contract_unknown", "no registry behind this gateway knows this contract id");
  throw new GatewayError(
    "contract_refused",
    `no registry answers for this contract id; the registry "${refusal.upstream.name}" refused the request with ` +
      `${refusal.answer.status}; ${howToName}`,
  );
}

/** The 503 where no registry that is known is the one, and further ones may yet be found. */
export function notAllFound(what: string): GatewayError {
  return new GatewayError(
    "admin_not_known_yet",
    `no registry that is known yet ${what}, but not all registries behind this gateway are found; try again shortly`,
    { retryAfter: 5 },
  );
}

/** Whether an answer leaves open if the registry knows the contract: it failed, or had no call to spare. */
function isSilence({ status }: UpstreamAnswer): boolean {
  return status >= 500 || status === 429;
}

function silenceOf({ name }: Upstream, answer: UpstreamAnswer): GatewayError {
  const text = `upstream "${name}" answered ${answer.status} when asked whether it knows this contract id; try again`;
  return failureOf(text, answer);
}

/** The client asked once: that asking all registries takes more calls than there are is no mistake of the client's. */
function asServerError(failure: GatewayError): GatewayError {
  if (failure.status !== 429) return failure;
  return new GatewayError("upstream_busy", failure.message, {
    retryAfter: failure.retryAfter,
    cause: failure,
  });
}
