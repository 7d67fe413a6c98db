import { makeEntityTag } from "../cache/conditional.ts";
import { directivesOf } from "../cache/freshness.ts";
import type { CacheOutcome, Entry, Found } from "../cache/types.ts";
import type { Duration, Instant } from "../clock.ts";
import { GatewayError } from "../errors.ts";
import { fieldValue } from "../fields.ts";
import { membersAt, printable } from "../json.ts";
import type { Registry } from "../registry/registry.ts";

/** An answer made of several registries' answers. */
export interface Composed {
  /** To be sent as any other; never stored. */
  readonly found: Found;
  /** Names of the registries that failed and are left out: for `X-Registry-Partial`. */
  readonly missing: readonly string[];
}

/** Bytes of a registry's error that are repeated. */
const MAX_SAID = 200;

/** From the best to the worst. */
const OUTCOMES: readonly CacheOutcome[] = ["hit", "stale", "revalidated", "miss", "bypass"];

/**
 * A 200 out of `parts`, as old as the oldest of them. Clients may keep it for as long as each of them, and not at all where it
 * is not whole.
 */
export function compose(body: Buffer, parts: readonly Found[], missing: readonly string[], now: Instant): Composed {
  const entries = parts.map(({ entry }) => entry);
  const bornAt = Math.min(now, ...entries.map((entry) => entry.bornAt));
  const freshUntil = Math.min(...entries.map((entry) => entry.freshUntil));
  const until = Number.isFinite(freshUntil) ? freshUntil : now;
  const keep = missing.length > 0 ? undefined : Math.min(...entries.map((entry) => clientLifetime(entry, now) ?? -1));
  const worst = parts.toSorted((one, other) => OUTCOMES.indexOf(other.outcome) - OUTCOMES.indexOf(one.outcome))[0];
  const entry: Entry = {
    status: 200,
    fields: ["content-type", "application/json", "cache-control", cacheControl(keep, now - bornAt)],
    body,
    etag: makeEntityTag(body),
    validators: undefined,
    clientTtl: 0,
    bornAt,
    freshUntil: until,
    refreshUntil: until,
    errorUntil: until,
    epoch: 0,
    generation: 0,
  };
  const outcome = worst?.outcome ?? "hit";
  const forward = worst?.detail.forward;
  return {
    found: { entry, outcome, detail: { ...(forward && { forward }), stored: false, reason: "composed" } },
    missing,
  };
}

/** How much longer a client may keep one part; undefined: not at all. */
function clientLifetime(entry: Entry, now: Instant): Duration | undefined {
  const value = fieldValue(entry.fields, "cache-control");
  if (value === undefined) return Math.max(0, Math.min(entry.clientTtl, entry.freshUntil - now));
  const says = directivesOf(value);
  if (says.has("no-store") || says.has("private")) return undefined;
  if (says.has("no-cache")) return 0;
  return Math.max(0, (says.get("max-age") ?? 0) - (now - entry.bornAt));
}

function cacheControl(keep: Duration | undefined, age: Duration): string {
  if (keep === undefined || keep < 0) return "no-store";
  const seconds = Math.floor((age + keep) / 1_000);
  return keep < 1_000 || !Number.isFinite(keep) ? "no-cache" : `max-age=${seconds}`;
}

/** The party id of a registry's admin, or its alias while that is not known: what a page token names it by. */
export function identityOf({ upstream }: Registry): string {
  return upstream.admin ?? upstream.name;
}

/** Whether what was thrown is about a registry, and says nothing about the others. */
export function isRegistryFailure(error: unknown): error is GatewayError {
  return error instanceof GatewayError && error.code !== "client_gone";
}

/** The 502 that is answered where the registry `name` is needed and fails: it names the registry. */
export function failureOf(name: string, { code, message, retryAfter, proxyError, cause }: GatewayError): GatewayError {
  const named = message.includes(name) ? message : `the registry "${name}" fails: ${message}`;
  const text = `${named}; with ?partial=true it is left out`;
  return new GatewayError(code, text, { status: 502, retryAfter, proxyError, cause });
}

/** The failure of a registry that answered with a status that is of no use. */
export function unexpectedStatus(name: string, { status, body }: Entry): GatewayError {
  const said = printable(body.toString("utf8", 0, MAX_SAID));
  return new GatewayError("upstream_invalid", `the registry "${name}" answers ${status}: ${said}`);
}

/** Elements of a JSON array, each in its own pieces, as the pieces of the whole with commas between. */
export function joined(elements: readonly (readonly Buffer[])[]): Buffer[] {
  const comma = Buffer.from(",");
  const pieces: Buffer[] = [];
  for (const element of elements) {
    if (pieces.length > 0) pieces.push(comma);
    pieces.push(...element);
  }
  return pieces;
}

/**
 * A registry's own text of an instrument with its admin as the last member, all other bytes unchanged. One that it has already
 * goes: of two, parsers take the one or the other.
 */
export function withAdmin(instrument: Buffer, admin: string): readonly Buffer[] {
  const mayHaveOne = instrument.includes('"admin"') || instrument.includes("\\u");
  const bytes = mayHaveOne ? withoutAdmin(instrument) : instrument;
  return [bytes.subarray(0, bytes.lastIndexOf("}")), Buffer.from(`,"admin":${JSON.stringify(admin)}}`)];
}

function withoutAdmin(instrument: Buffer): Buffer {
  const text = instrument.toString("utf8");
  const begin = text.indexOf("{") + 1;
  let end = begin;
  let kept = "";
  for (const member of membersAt(text, 0)) {
    if (member.key !== "admin") kept += text.slice(end, member.end);
    end = member.end;
  }
  // Each member has the comma before it.
  return Buffer.from(text.slice(0, begin) + kept.replace(/^\s*,/, "") + text.slice(end));
}
