import type { Part } from "./freshness.ts";
import { GatewayError } from "../errors.ts";
import { failedListing, unreadableAnswer } from "../registry/listing.ts";
import { isObjectText, withMembers } from "./instrument-text.ts";
import { adminOf, type ClientAsk, isRegistryFailure, type Member, partFields } from "./registries.ts";

/** Registries that an error text names. */
const MAX_NAMED = 20;

/** What a catalogue knows about one id. */
export interface KnownInstruments {
  /** Registries whose listing is known, whole and still fresh: nobody has to ask them. */
  readonly fresh: ReadonlyMap<Member, Listed>;
  /** Registries that were seen to list the id when they could last be read, however long ago. */
  readonly seen: ReadonlySet<Member>;
}

/** What a fresh listing has of an instrument. */
export interface Listed {
  /** Undefined: it is not listed. */
  readonly text: string | undefined;
  /** The listing. */
  readonly part: Part;
}

/** The one instrument of an id. */
export interface FoundInstrument {
  readonly member: Member;
  /** The upstream's text with its admin. */
  readonly text: string;
  /** The answers that say so. */
  readonly parts: readonly Part[];
  /** Names of the registries that failed, and may or may not have the id. */
  readonly missing: readonly string[];
}

type Finding =
  | {
      readonly member: Member;
      readonly kind: "found";
      readonly text: string;
      readonly admin: string;
      readonly part: Part;
    }
  | { readonly member: Member; readonly kind: "absent"; readonly part: Part | undefined }
  | { readonly member: Member; readonly kind: "failed"; readonly error: GatewayError };

/**
 * Finds the instrument of an id among all registries, asking those whose listing is not known at the moment.
 *
 * An answer that had to do without a registry says so. It is refused where that registry was seen to have the id too:
 * then the one that was found is not the only one.
 *
 * @param baseUrlOf how a registry is addressed, for the texts of errors
 * @throws GatewayError 404 when no registry has it, 409 when several have, what a registry failed with when none has it
 * and that one could not be asked
 */
export async function findInstrument(
  members: readonly Member[],
  id: string,
  {
    known,
    ask,
    baseUrlOf,
  }: {
    readonly known: KnownInstruments;
    readonly ask: ClientAsk;
    readonly baseUrlOf: (member: Member) => string;
  },
): Promise<FoundInstrument> {
  const findings = await Promise.all(members.map((member) => lookUp(member, id, { known, ask })));
  const found = findings.filter((finding) => finding.kind === "found");
  const failed = findings.filter((finding) => finding.kind === "failed");
  const [only, other] = found;
  if (other !== undefined) {
    throw new GatewayError(
      "instrument_ambiguous",
      `several registries have an instrument with this id; ask one of them: ${found
        .slice(0, MAX_NAMED)
        .map(({ member, admin }) => `${baseUrlOf(member)} of ${admin}`)
        .join(", ")}`,
    );
  }
  const doubt = only === undefined ? failed[0] : failed.find(({ member }) => known.seen.has(member));
  if (doubt !== undefined) throw doubt.error;
  if (only === undefined)
    throw new GatewayError("instrument_unknown", "no registry behind this gateway has an instrument with this id");
  const { member, text, admin } = only;
  return {
    member,
    text: withMembers(text, [["admin", JSON.stringify(admin)]]),
    parts: findings.flatMap((finding) => (finding.kind === "failed" ? [] : (finding.part ?? []))),
    missing: failed.map((finding) => finding.member.upstream.name),
  };
}

async function lookUp(
  member: Member,
  id: string,
  { known, ask }: { readonly known: KnownInstruments; readonly ask: ClientAsk },
): Promise<Finding> {
  try {
    const admin = await adminOf(member, ask);
    const { cache } = member.metadata;
    const resource = member.metadata.resource(admin, { operation: "instrument", id });
    const { headers, deadlineOf, signal } = ask;
    const listed = known.fresh.get(member);
    const held = listed === undefined ? undefined : cache.hit(resource, { method: "GET", headers: {} });
    // What was received since the listing was read counts more.
    if (listed !== undefined && (held === undefined || held.age > listed.part.age)) {
      const { text, part } = listed;
      return text === undefined
        ? { member, kind: "absent", part: undefined }
        : { member, kind: "found", text, admin, part };
    }
    const answer =
      held ??
      (await cache.respond(resource, {
        method: "GET",
        headers: partFields(headers),
        deadline: deadlineOf(member.upstream),
        signal,
      }));
    if (answer.status === 404) return { member, kind: "absent", part: answer };
    if (answer.status !== 200) return { member, kind: "failed", error: failedListing(member.upstream.name, answer) };
    const text = answer.body!.toString("utf8");
    if (!isObjectText(text)) {
      return {
        member,
        kind: "failed",
        error: unreadableAnswer(member.upstream.name, "an instrument that is no object"),
      };
    }
    return { member, kind: "found", text, admin, part: answer };
  } catch (error) {
    if (!isRegistryFailure(error)) throw error;
    return { member, kind: "failed", error };
  }
}
