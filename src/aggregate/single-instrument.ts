import { GatewayError } from "../errors.ts";
import { failedListing, unreadableAnswer } from "../registry/listing.ts";
import type { RegistryMetadata } from "../registry/registry-metadata.ts";
import { notAllFound } from "./contracts.ts";
import type { Part } from "./composed-answer.ts";
import { isObjectText, withMembers } from "./instrument-text.ts";
import { type ClientRequest, isRegistryFailure, requestTo } from "./registries.ts";

/** Registries that an error text names. */
const MAX_NAMED = 20;

/** What a catalogue knows about one id. */
export interface KnownListings {
  /**
   * Registries whose listing is known, whole, still fresh, and without the id, by its age in seconds: they need not be asked.
   * One that lists it is: how long an instrument is kept is its own affair, and its pages have filled the cache with it.
   */
  readonly absent: ReadonlyMap<RegistryMetadata, number>;
  /** Registries that were seen to list the id when they could last be read, however long ago. */
  readonly seen: ReadonlySet<RegistryMetadata>;
}

/** The one instrument of an id. */
export interface FoundInstrument {
  readonly registry: RegistryMetadata;
  /** The upstream's text with its admin. */
  readonly text: string;
  /** The answers that say so. */
  readonly parts: readonly Part[];
  /** Names of the registries that failed, and may or may not have the id. */
  readonly missing: readonly string[];
}

type Finding =
  | {
      readonly registry: RegistryMetadata;
      readonly kind: "found";
      readonly text: string;
      readonly admin: string;
      readonly part: Part;
    }
  | { readonly registry: RegistryMetadata; readonly kind: "absent"; readonly part: Part | undefined }
  | { readonly registry: RegistryMetadata; readonly kind: "failed"; readonly error: GatewayError };

/**
 * Finds the instrument of an id among all registries, asking those that are not known to be without it.
 *
 * An answer that had to do without a registry says so. It is refused where that registry was seen to have the id too:
 * then the one that was found is not the only one.
 *
 * @param baseUrlOf how a registry is addressed, for the texts of errors
 * @param isSearching further registries may yet be found
 * @throws GatewayError 404 when no registry has it, 503 when one that has it may yet be found, 409 when several have, what a registry failed with when none has it
 * and that one could not be asked
 */
export async function findInstrument(
  registries: readonly RegistryMetadata[],
  id: string,
  {
    known,
    request,
    baseUrlOf,
    isSearching,
  }: {
    readonly known: KnownListings;
    readonly request: ClientRequest;
    readonly baseUrlOf: (registry: RegistryMetadata) => string;
    readonly isSearching: boolean;
  },
): Promise<FoundInstrument> {
  const findings = await Promise.all(registries.map((registry) => lookUp(registry, id, { known, request })));
  const found = findings.filter((finding) => finding.kind === "found");
  const failed = findings.filter((finding) => finding.kind === "failed");
  const [only, other] = found;
  if (other !== undefined) {
    throw new GatewayError(
      "instrument_ambiguous",
      `several registries have an instrument with this id; ask one of them: ${found
        .slice(0, MAX_NAMED)
        .map(({ registry, admin }) => `${baseUrlOf(registry)} of ${admin}`)
        .join(", ")}`,
    );
  }
  const doubt = only === undefined ? failed[0] : failed.find(({ registry }) => known.seen.has(registry));
  if (doubt !== undefined) throw doubt.error;
  if (only === undefined && isSearching) throw notAllFound("has an instrument with this id");
  if (only === undefined)
    throw new GatewayError("instrument_unknown", "no registry behind this gateway has an instrument with this id");
  const { registry, text, admin } = only;
  return {
    registry,
    text: withMembers(text, [["admin", JSON.stringify(admin)]]),
    parts: findings.flatMap((finding) => (finding.kind === "failed" ? [] : (finding.part ?? []))),
    missing: failed.map((finding) => finding.registry.upstream.name),
  };
}

async function lookUp(
  registry: RegistryMetadata,
  id: string,
  { known, request }: { readonly known: KnownListings; readonly request: ClientRequest },
): Promise<Finding> {
  const { name } = registry.upstream;
  try {
    const asked = requestTo(registry, request);
    const admin = await registry.admin(asked);
    const address = { operation: "instrument", id } as const;
    const age = known.absent.get(registry);
    if (age !== undefined) {
      const hit = registry.cache.hit(registry.resource(admin, address), { method: "GET", headers: {} });
      // What was received since the listing was read counts more.
      if (hit === undefined || hit.age > age) return { registry, kind: "absent", part: undefined };
    }
    const answer = await registry.get(admin, address, asked);
    if (answer.status === 404) return { registry, kind: "absent", part: answer };
    if (answer.status !== 200) return { registry, kind: "failed", error: failedListing(name, answer) };
    const text = answer.body!.toString("utf8");
    if (isObjectText(text)) return { registry, kind: "found", text, admin, part: answer };
    return { registry, kind: "failed", error: unreadableAnswer(name, "an instrument that is no object") };
  } catch (error) {
    if (!isRegistryFailure(error)) throw error;
    return { registry, kind: "failed", error };
  }
}
