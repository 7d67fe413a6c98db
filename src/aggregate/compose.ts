import type { ListedPage } from "../bodies/page.ts";
import { makeEntityTag } from "../cache/conditional.ts";
import { directivesOf } from "../cache/freshness.ts";
import type { CacheOutcome, Entry, Found } from "../cache/types.ts";
import type { Clock, Duration, Instant } from "../clock.ts";
import { GatewayError } from "../errors.ts";
import { fieldValue } from "../fields.ts";
import { membersAt, printable } from "../json.ts";
import type { Registry, RegistryWait } from "../registry/registry.ts";

/** An answer made of several registries' answers. */
export interface Composed {
  /** To be sent as any other; never stored. */
  readonly found: Found;
  /** Names of the registries that failed and are left out: for `X-Registry-Partial`. */
  readonly missing: readonly string[];
}

/** Bytes of a registry's error that texts of ours repeat. */
const MAX_SAID = 200;

/** Outcomes from the best to the worst: a composed answer has that of its worst part. */
const OUTCOMES: readonly CacheOutcome[] = ["hit", "stale", "revalidated", "miss"];

/**
 * Makes a 200 of `body`, as old as the oldest of its `parts`. Clients may keep it as long as each of them, and not at all where
 * registries are `missing`.
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

/** The time for which a client may keep one part from now on; undefined: not at all. */
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

/** The name of a registry in page tokens: the party id of its admin, or its alias while that is not known. */
export function identityOf({ upstream }: Registry): string {
  return upstream.admin ?? upstream.name;
}

/** Bounds a wait by the registry's own `timeout`: the others have to be asked in what is left. */
export function boundedWait(registry: Registry, wait: RegistryWait, clock: Clock): RegistryWait {
  return { ...wait, deadline: Math.min(wait.deadline, clock.now() + registry.upstream.config.timeout) };
}

/** A page of a registry's listing. */
interface Page {
  readonly found: Found;
  readonly listed: ListedPage;
  /** Token of the page after it, as the registry issued it; undefined: it is the last one. */
  readonly next: string | undefined;
}

/**
 * Gets a page of a registry's listing.
 *
 * @param pageSize as written in a query; undefined: the configured one
 * @param token as the registry issued it; undefined: the first page
 * @throws GatewayError
 */
export async function getPage(
  registry: Registry,
  { pageSize, token }: { readonly pageSize?: string | undefined; readonly token: string | undefined },
  wait: RegistryWait,
): Promise<Page> {
  const pageToken = token === undefined ? undefined : encodeURIComponent(token);
  const found = await registry.get({ operation: "instruments", pageSize, pageToken }, wait);
  if (found.entry.status !== 200) throw unexpectedStatus(registry.upstream.name, found.entry);
  const listed = registry.readPage(found.entry);
  // A page that goes on with itself would never end.
  const next = listed.nextPageToken === token ? undefined : listed.nextPageToken;
  return { found, listed, next };
}

/** Whether what was thrown is about one registry, so that others may still answer. */
export function isRegistryFailure(error: unknown): error is GatewayError {
  return error instanceof GatewayError && error.code !== "client_gone";
}

/** Makes the 502 for a registry that is needed and fails: it names the registry. */
export function failureOf(name: string, { code, message, retryAfter, proxyError, cause }: GatewayError): GatewayError {
  const named = message.includes(`"${name}"`) ? message : `the registry "${name}" fails: ${message}`;
  const text = `${named}; with ?partial=true it is left out`;
  return new GatewayError(code, text, { status: 502, retryAfter, proxyError, cause });
}

/** Makes the failure of a registry that answered with a status that is of no use here. */
export function unexpectedStatus(name: string, { status, body }: Entry): GatewayError {
  const said = printable(body.toString("utf8", 0, MAX_SAID));
  return new GatewayError("upstream_invalid", `the registry "${name}" answers ${status}: ${said}`);
}

/** Joins the elements of a JSON array, each in pieces, to the pieces of the whole, with commas between. */
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
 * Adds `admin` to a registry's own text of an instrument, as the last member. An `admin` that it has already goes: of two,
 * parsers take the one or the other. All other bytes stay. Gives the text in pieces.
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
  for (const member of membersAt(text, begin - 1)) {
    if (member.key !== "admin") kept += text.slice(end, member.end);
    end = member.end;
  }
  // Each member has the comma before it.
  return Buffer.from(text.slice(0, begin) + kept.replace(/^\s*,/, "") + text.slice(end));
}
