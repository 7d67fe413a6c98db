import { createHash } from "node:crypto";
import { htmlAnswer, jsonAnswer, type Answer } from "./answer.ts";
import { ContextBodies } from "./bodies.ts";
import type { Call } from "./call-log.ts";
import type { Catalogue } from "./catalogue.ts";
import { REFUSALS, type ErrorStyle } from "./error-style.ts";
import { supportedApis } from "./instrument.ts";
import { selectPage, type Paging } from "./paging.ts";
import { type CheckedBody, checkBody } from "./request-check.ts";
import type { Route } from "./route.ts";
import { refuseArguments } from "./strict-arguments.ts";

/** What a registry's answers depend on. */
export interface RegistryFacts {
  admin: string;
  seed: number;
  style: ErrorStyle;
  catalogue: Catalogue;
  paging: Paging;
  /** Whether the admin in a body is looked at. */
  checksBodyAdmin: boolean;
  supportsV2: boolean;
  /** A path that it does not have is 404 in its own words, or as the web page of a framework. */
  unknownPaths: "own" | "html";
  contracts: (id: string) => boolean;
  /** Whether factory calls must name instruments that it has, and say what is transferred. */
  isStrict: boolean;
  /** The round that is open now. */
  round: () => number;
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
        return jsonAnswer(200, { adminId: admin, supportedApis: supportedApis(this.facts.supportsV2) });
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
    const page = selectPage(catalogue, new URL(url, "http://registry").searchParams, paging);
    if ("refusal" in page) return jsonAnswer(400, { error: page.refusal });
    // One family says null where there is no further page, the other nothing.
    const isNull = page.nextPageToken === undefined && style === "splice" && paging.style !== "ignores-paging";
    return jsonAnswer(200, { ...page, ...(isNull ? { nextPageToken: null } : {}) });
  }

  private factory(call: Call, route: Route, admin: string): Answer {
    const result = checkBody(call, this.bodyRules(this.facts.checksBodyAdmin ? admin : undefined), true);
    if ("refused" in result) return result.refused;
    const { choiceArguments, excludeDebugFields } = result.checked;
    const refused = this.facts.isStrict ? this.refuse(route, choiceArguments) : undefined;
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
