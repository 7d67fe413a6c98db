import type { Found } from "../cache/types.ts";
import type { Clock } from "../clock.ts";
import { GatewayError } from "../errors.ts";
import type { Registry, RegistryWait } from "../registry/registry.ts";
import {
  boundedWait,
  compose,
  type Composed,
  failureOf,
  identityOf,
  isRegistryFailure,
  unexpectedStatus,
  withAdmin,
} from "./compose.ts";

/** Registries that an error text names at most. */
const MAX_NAMED = 20;

/** A client's question to all registries. */
interface InstrumentQuery {
  /** Decoded. */
  readonly id: string;
  /** Whether registries that fail are left out: where none of the others has it, it is unknown, in place of a 502. */
  readonly isPartial: boolean;
  /** Gives the base path of a registry, for texts: `/api/token-standard/v0/registrars/…`. */
  readonly basePathOf: (registry: Registry) => string;
}

type Finding =
  | { readonly kind: "found"; readonly registry: Registry; readonly found: Found }
  | { readonly kind: "absent"; readonly registry: Registry; readonly found?: Found }
  | { readonly kind: "failed"; readonly registry: Registry; readonly error: GatewayError };

/**
 * Finds the instrument of an id, with its `admin`, at the one registry that has it. All are asked; those that fail are named
 * with the answer.
 *
 * @param registries those that the client may see
 * @throws GatewayError 404 where none has it; 409 where several have; 502 that names a registry that fails while none has it
 */
export async function findInstrument(
  registries: readonly Registry[],
  { id, isPartial, basePathOf }: InstrumentQuery,
  wait: RegistryWait,
  clock: Clock,
): Promise<Composed> {
  const findings = await Promise.all(registries.map((each) => look(each, id, boundedWait(each, wait, clock))));
  const [only, second] = findings.filter((finding) => finding.kind === "found");
  if (second !== undefined) throw ambiguous(findings, basePathOf);
  const failed = findings.filter((finding) => finding.kind === "failed");
  if (only === undefined) {
    const [first] = failed;
    if (first !== undefined && !isPartial) throw failureOf(first.registry.upstream.name, first.error);
    throw unknown(failed);
  }
  const parts = findings.flatMap((finding) => (finding.kind === "failed" ? [] : (finding.found ?? [])));
  const body = Buffer.concat(withAdmin(only.found.entry.body, identityOf(only.registry)));
  const missing = failed.map(({ registry }) => registry.upstream.name);
  return compose(body, parts, missing, clock.now());
}

async function look(registry: Registry, id: string, wait: RegistryWait): Promise<Finding> {
  try {
    const found = await registry.get({ operation: "instrument", id }, wait);
    if (found.entry.status === 200) return { registry, kind: "found", found };
    if (found.entry.status === 404) return { registry, kind: "absent", found };
    return { registry, kind: "failed", error: unexpectedStatus(registry.upstream.name, found.entry) };
  } catch (error) {
    if (!isRegistryFailure(error)) throw error;
    // A 404 in another form than the standard's is thrown: it says the same.
    const isAbsent = error.code === "upstream_error" && error.status === 404;
    return isAbsent ? { registry, kind: "absent" } : { registry, kind: "failed", error };
  }
}

function ambiguous(findings: readonly Finding[], basePathOf: InstrumentQuery["basePathOf"]): GatewayError {
  const having = findings.filter(({ kind }) => kind === "found").map(({ registry }) => basePathOf(registry));
  const named = having.slice(0, MAX_NAMED).join(", ");
  const more = having.length > MAX_NAMED ? ` and ${having.length - MAX_NAMED} more` : "";
  const text = `several registries have an instrument with this id; ask one of them by its base URL: ${named}${more}`;
  return new GatewayError("instrument_ambiguous", text);
}

function unknown(failed: readonly Finding[]): GatewayError {
  const names = failed.slice(0, MAX_NAMED).map(({ registry }) => `"${registry.upstream.name}"`);
  const left = names.length === 0 ? "" : ` that answers (${names.join(", ")} left out)`;
  return new GatewayError(
    "instrument_unknown",
    `no registry behind this gateway${left} has an instrument with this id; check the id, or ask one registry by its base URL`,
  );
}
