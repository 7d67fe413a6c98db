import { createHash } from "node:crypto";
import { type Answer, type ErrorStyle, htmlAnswer, jsonAnswer, REFUSALS } from "./answer.ts";
import { ContextBodies } from "./bodies.ts";
import type { Call } from "./call-log.ts";
import type { Catalogue } from "./catalogue.ts";
import { supportedApis, type Version } from "./instrument.ts";
import { type PageStyle, type Paging, selectPage } from "./paging.ts";
import { type CheckedBody, checkBody, refuseArguments } from "./request-check.ts";
import type { Route } from "./route.ts";

export const UNKNOWN_PATHS = ["own", "html"] as const;

/** What a registry's answers depend on, besides its instruments. */
export interface AnswerOptions extends Paging {
  /** The party id it is the registry of. */
  readonly admin: string;
  /** All generated data and all drawn faults depend on it; by default on the admin. */
  readonly seed: number;
  /** `v1`: it has no path of version 2. By default `v2`: both versions, and an echo on every draft path. */
  readonly version: Version;
  /** `keyset`, the default: a page's token is its last id; `index`: a place in the list; `ignored`: one page with all. */
  readonly paging: PageStyle;
  /** Whose errors and contexts it speaks, of the two families in the field; by default `splice`. */
  readonly style: ErrorStyle;
  /** The 404 of a path that it does not have: in its own words, the default, or as the web page of a framework. */
  readonly unknownPaths: (typeof UNKNOWN_PATHS)[number];
  /** Refuses factory calls that name an instrument which it does not have, and those that transfer nothing. */
  readonly strict: boolean;
  /** By default true. Else it gives a plausible 200 to a factory request that names another admin, as one big registry does. */
  readonly checksBodyAdmin: boolean;
  /** Which contract ids it knows; by default every one. See `ownContracts` for one that knows its own only. */
  readonly contracts: (id: string) => boolean;
  /** The round that is open now, of which its contexts are; by default 0. */
  readonly round: () => number;
}

interface RegistryFacts extends AnswerOptions {
  readonly catalogue: Catalogue;
}

/** What a batch may hold: the standard asks for 25 legs and 50 allocations at least. */
const MOST_LEGS = 100;
const MOST_ALLOCATIONS = 100;

/** Answers calls as a registry in good health does: no faults, no delay, no connections. */
export class RegistryAnswers {
  private readonly facts: RegistryFacts;
  private readonly bodies: ContextBodies;

  constructor(facts: RegistryFacts) {
    this.facts = facts;
    this.bodies = new ContextBodies(facts);
  }

  /** The answer to `call`; as the registry of `admin` when that is given, which is how a node turns out a wrong one. */
  answer(call: Call, route: Route, admin = this.facts.admin): Answer {
    // The whole answer is of one round.
    this.bodies.open(this.facts.round());
    const refusals = REFUSALS[this.facts.style];
    const method = call.method === "HEAD" ? "GET" : call.method;
    if (route.subject === "nothing") {
      return this.facts.unknownPaths === "html" ? htmlAnswer(404, "Not Found") : refusals.noSuchPath();
    }
    if (route.method !== undefined && route.method !== method) return refusals.wrongMethod(route.method);
    switch (route.subject) {
      case "info":
        return jsonAnswer(200, { adminId: admin, supportedApis: supportedApis(this.facts.version) });
      case "instruments":
        return this.page(call.url);
      case "instrument": {
        const instrument = this.facts.catalogue.get(route.id);
        return instrument === undefined ? refusals.unknownInstrument(route.id) : jsonAnswer(200, instrument);
      }
      case "transfer-factory":
      case "allocation-factory":
      case "settlement-factory":
        return this.factory(call, route, admin);
      case "transfer-context":
      case "allocation-context":
      case "instruction-context":
        return this.context(call, route);
      case "draft":
        return echo(call);
    }
  }

  private page(url: string): Answer {
    const { catalogue, paging, style } = this.facts;
    const page = selectPage(catalogue, new URL(url, "http://registry").searchParams, this.facts);
    if ("refusal" in page) return jsonAnswer(400, { error: page.refusal });
    // One family says null where there is no further page, the other nothing.
    const isNull = page.nextPageToken === undefined && style === "splice" && paging !== "ignored";
    return jsonAnswer(200, { ...page, ...(isNull ? { nextPageToken: null } : {}) });
  }

  private factory(call: Call, route: Route, admin: string): Answer {
    const result = checkBody(call, this.bodyRules(this.facts.checksBodyAdmin ? admin : undefined), true);
    if ("refused" in result) return result.refused;
    const { choiceArguments, excludeDebugFields } = result.checked;
    const refused = this.facts.strict ? this.refuse(route, choiceArguments) : undefined;
    if (refused !== undefined) return refused;
    if (route.subject === "settlement-factory") return this.settlement(result.checked);
    return jsonAnswer(
      200,
      route.subject === "transfer-factory"
        ? this.bodies.transferFactory(choiceArguments, excludeDebugFields)
        : this.bodies.allocationFactory(excludeDebugFields),
    );
  }

  private refuse(route: Route, choiceArguments: Record<string, unknown>): Answer | undefined {
    const { catalogue, style } = this.facts;
    const rules = { refusals: REFUSALS[style], hasInstrument: (id: string) => catalogue.get(id) !== undefined };
    return refuseArguments(route.subject, choiceArguments, rules);
  }

  private settlement({ choiceArguments, excludeDebugFields }: CheckedBody): Answer {
    const refusals = REFUSALS[this.facts.style];
    const { transferLegs = [], allocations = [] } = choiceArguments;
    if (!Array.isArray(transferLegs)) return refusals.malformedField("transferLegs");
    if (!Array.isArray(allocations) || !allocations.every((each) => typeof each === "string")) {
      return refusals.malformedField("allocations");
    }
    if (transferLegs.length > MOST_LEGS) return refusals.tooMany("transfer legs", MOST_LEGS);
    if (allocations.length > MOST_ALLOCATIONS) return refusals.tooMany("allocations", MOST_ALLOCATIONS);
    const unknown = allocations.find((id) => !this.facts.contracts(id));
    if (unknown !== undefined) return refusals.unknownAllocation(unknown);
    return jsonAnswer(200, this.bodies.settlementFactory(allocations, excludeDebugFields));
  }

  private context(call: Call, route: Route): Answer {
    const result = checkBody(call, this.bodyRules(undefined), false);
    if ("refused" in result) return result.refused;
    if (!this.facts.contracts(route.id)) {
      const refusals = REFUSALS[this.facts.style];
      if (route.subject === "transfer-context") return refusals.unknownTransfer(route.id);
      return route.subject === "instruction-context"
        ? refusals.unknownInstruction(route.id)
        : refusals.unknownAllocation(route.id);
    }
    const { excludeDebugFields } = result.checked;
    return jsonAnswer(
      200,
      route.subject === "instruction-context"
        ? this.bodies.instructionContext(route.id, excludeDebugFields)
        : this.bodies.choiceContext(route.id, route.choice, excludeDebugFields),
    );
  }

  private bodyRules(admin: string | undefined): Parameters<typeof checkBody>[1] {
    return { refusals: REFUSALS[this.facts.style], admin, flatMeta: this.facts.style === "splice" };
  }
}

/** What a draft path answers: the request itself. */
function echo(call: Call): Answer {
  return jsonAnswer(200, {
    method: call.method,
    url: call.url,
    contentType: call.headers["content-type"] ?? null,
    body: call.body.toString(),
  });
}

/** `answer` with a strong ETag over its body, or the 304 to a request that has it already (RFC 9110 §13.1.2). */
export function withEtag(answer: Answer, call: Call): Answer {
  if (answer.status !== 200 || (call.method !== "GET" && call.method !== "HEAD")) return answer;
  const etag = `"${createHash("sha256").update(answer.body).digest("base64url").slice(0, 22)}"`;
  const condition = call.headers["if-none-match"] ?? "";
  const held = new Set(condition.split(",").map((tag) => tag.trim().replace(/^W\//, "")));
  if (!held.has(etag) && !held.has("*")) return { ...answer, headers: { ...answer.headers, etag } };
  return { status: 304, headers: { etag }, body: "" };
}
