import { quote } from "../json.ts";
import type { AbortSignalLike, MaybePromise } from "../clock.ts";
import type { Tier } from "../clients/client.ts";
import { suggest } from "../config/problem.ts";
import { GatewayError } from "../errors.ts";
import type { BodyAdmin } from "../spec/body-admin.ts";
import type { Upstream } from "../upstream/upstream.ts";
import type { Upstreams } from "../upstream/upstreams.ts";
import { clientSignal, type DeadlineOf, type RequestContext, type Snapshot } from "./context.ts";
import { addressForm } from "./target.ts";

/** Everything in one request that may name a registry. */
export interface NamedRegistries {
  /** From the path: a party id or an alias. */
  readonly path: string | undefined;
  /** From the admin header: a party id or an alias. */
  readonly header: string | undefined;
  /** From a factory body: party ids only. */
  readonly body: readonly BodyAdmin[];
}

export interface RoutingRules {
  readonly upstreams: Upstreams;
  readonly prefix: string;
  readonly adminHeader: string;
  /** The id that the info of all registries together names (`aggregate.adminId`), which no registry has. */
  readonly ownAdmin?: string | undefined;
  /** Of the client; undefined where everybody may use everything. */
  readonly tier?: Tier | undefined;
}

export interface ResolveLimits {
  readonly deadline: DeadlineOf;
  readonly signal?: AbortSignalLike;
}

interface Naming {
  readonly value: string;
  /** Where the request names it, for error texts. */
  readonly where: string;
  readonly mayBeAlias: boolean;
}

/**
 * The registry that a request names, or undefined when it names none. All sources must agree; there is no fallback to
 * another registry.
 *
 * An upstream addressed by alias that has not named its admin yet is waited for, within the deadline, before a body is
 * compared with it.
 *
 * @throws GatewayError 400 when sources disagree, 403 for a registry that the client may not use, 404 for an unknown
 * admin, 503 for one that may belong to an upstream that has not named its admin yet, or what waiting for an admin failed
 * with
 */
export function resolveUpstream(
  rules: RoutingRules,
  named: NamedRegistries,
  limits: ResolveLimits,
): MaybePromise<Upstream | undefined> {
  const namings = namingsOf(rules, named);
  const first = namings[0];
  if (first === undefined) return undefined;
  checkParties(namings);
  const upstream = find(rules.upstreams, first);
  if (upstream === undefined) {
    // An unknown admin and a known one are two registries, in whichever order they are named.
    const known = namings.find((each) => find(rules.upstreams, each) !== undefined);
    if (known !== undefined && !rules.upstreams.unlearned) throw disagreement(first, known);
    throw unknownAdmin(rules, first);
  }
  // The alias of a base path or an extra path is not the client's.
  if (named.path !== undefined) checkMayUse(rules.tier, upstream);
  else if (!maySee(rules.tier, upstream)) throw upstreamForbidden(`${quote(first.value)} named in ${first.where}`);
  if (namings.length === 1) return upstream;
  const other = namings.find((each) => (find(rules.upstreams, each) ?? upstream) !== upstream);
  if (other !== undefined) throw disagreement(first, other);
  if (upstream.admin === undefined && namings.some((each) => !matches(upstream, each))) {
    return upstream
      .learnAdmin(limits.deadline(upstream), limits.signal)
      .then(() => agreedUpstream(upstream, first, namings));
  }
  return agreedUpstream(upstream, first, namings);
}

/** Whether a client of this tier may use the upstream, and see it in what is made of several. */
export function maySee(tier: Tier | undefined, { name }: Upstream): boolean {
  return tier === undefined || tier.allows(name);
}

/** @throws GatewayError 403 where a client of this tier may not use the upstream */
export function checkMayUse(tier: Tier | undefined, upstream: Upstream): void {
  if (!maySee(tier, upstream)) throw upstreamForbidden("that this URL stands for");
}

/** The 403 says no more of a registry than the client did. */
function upstreamForbidden(registry: string): GatewayError {
  return new GatewayError(
    "upstream_forbidden",
    `this client may not use the registry ${registry}; use another one, or ask the gateway's operator to allow it`,
  );
}

/** The value of the admin header. @throws GatewayError 400 when it is there twice or empty */
export function adminHeaderOf(rawHeaders: readonly string[], name: string): string | undefined {
  let value: string | undefined;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]!.length !== name.length || rawHeaders[i]!.toLowerCase() !== name) continue;
    if (value !== undefined) throw new GatewayError("admin_ambiguous", `the header ${name} is there twice`);
    value = rawHeaders[i + 1]!.trim();
  }
  if (value === "")
    throw new GatewayError("admin_missing", `the header ${name} is empty; it takes an instrument admin's party id`);
  return value;
}

/** The 400 for a request whose admin is needed and not named. */
export function adminNotNamed(rules: Pick<RoutingRules, "prefix" | "adminHeader">, bodyMayName: boolean): GatewayError {
  const body = bodyMayName ? ", or name it in choiceArguments" : "";
  return new GatewayError(
    "admin_missing",
    `the request does not say which registry it means: send it to ${addressForm(rules.prefix)} ` +
      `or name the instrument admin in the header ${rules.adminHeader}${body}`,
  );
}

function namingsOf(rules: RoutingRules, named: NamedRegistries): Naming[] {
  const namings: Naming[] = [];
  if (named.path !== undefined) namings.push({ value: named.path, where: "the path", mayBeAlias: true });
  if (named.header !== undefined) {
    namings.push({ value: named.header, where: `the header ${rules.adminHeader}`, mayBeAlias: true });
  }
  for (const { admin, at } of named.body) namings.push({ value: admin, where: at, mayBeAlias: false });
  return namings;
}

/**
 * An alias never holds `::`, a party id always does.
 *
 * @throws GatewayError 400 for two party ids that differ, known or not
 */
function checkParties(namings: readonly Naming[]): void {
  let party: Naming | undefined;
  for (const each of namings) {
    if (each.mayBeAlias && !each.value.includes("::")) continue;
    party ??= each;
    if (each.value !== party.value) throw disagreement(party, each);
  }
}

function find(upstreams: Upstreams, naming: Naming): Upstream | undefined {
  return (naming.mayBeAlias ? upstreams.byName(naming.value) : undefined) ?? upstreams.byAdmin(naming.value);
}

function matches(upstream: Upstream, naming: Naming): boolean {
  return naming.value === upstream.admin || (naming.mayBeAlias && naming.value === upstream.name);
}

function agreedUpstream(upstream: Upstream, first: Naming, namings: readonly Naming[]): Upstream {
  const other = namings.find((each) => !matches(upstream, each));
  if (other !== undefined) throw disagreement(first, other);
  return upstream;
}

function disagreement(one: Naming, other: Naming): GatewayError {
  return new GatewayError(
    "admin_disagreement",
    `the request names two registries: ${quote(one.value)} in ${one.where} and ${quote(other.value)} in ` +
      `${other.where}; every place that names an instrument admin must name the same one`,
  );
}

/** Base paths that an error text names; the catalogue has them all. */
const MOST_NAMED = 20;

function unknownAdmin(rules: RoutingRules, naming: Naming): GatewayError {
  if (naming.value === rules.ownAdmin) return ownAdminNamed(rules, naming);
  if (rules.upstreams.unlearned) {
    return new GatewayError(
      "admin_not_known_yet",
      `no registry is known yet for the instrument admin ${quote(naming.value)} in ${naming.where}, ` +
        "but a configured registry has not answered yet and may be it; try again shortly",
      { retryAfter: 5 },
    );
  }
  return new GatewayError(
    "admin_unknown",
    `this gateway serves no registry of the instrument admin ${quote(naming.value)} named in ${naming.where}; ` +
      "check the party id, or ask the gateway's operator to add the registry" +
      suggestAlias(rules, naming),
  );
}

/** A wallet that takes the info of all registries together for that of one asks for instruments of its admin. */
function ownAdminNamed({ upstreams, tier, prefix }: RoutingRules, { value, where }: Naming): GatewayError {
  const paths = upstreams.all.filter((each) => maySee(tier, each)).map(({ name }) => `${prefix}/${name}`);
  const more = paths.length > MOST_NAMED ? `, and ${paths.length - MOST_NAMED} more` : "";
  return new GatewayError(
    "admin_unknown",
    `${quote(value)} in ${where} is this gateway's own id, which the info of all registries together names: no registry has ` +
      `it. Use the base URL of one registry: ${paths.slice(0, MOST_NAMED).join(", ")}${more}`,
  );
}

/** The alias that was meant, where it is near; nothing is said of upstreams that are not enabled, or not for the client. */
function suggestAlias({ upstreams, tier }: RoutingRules, { value, mayBeAlias }: Naming): string {
  if (!mayBeAlias || value.includes("::")) return "";
  return suggest(
    value,
    upstreams.all.filter((each) => maySee(tier, each)).map(({ name }) => name),
  );
}

/** What a request says besides its path of where it goes. */
export interface NamedBeside {
  /** See {@link adminHeaderOf}. */
  readonly header: string | undefined;
  readonly body?: readonly BodyAdmin[] | undefined;
}

/** See {@link resolveUpstream}: what a request's path, header and body name, by the rules of its snapshot and its client. */
export function namedUpstream(
  context: RequestContext,
  { header, body = [] }: NamedBeside,
  deadline: DeadlineOf,
): MaybePromise<Upstream | undefined> {
  const { snapshot, client } = context;
  const { config, upstreams } = snapshot;
  const { prefix, adminHeader } = config.routing;
  const rules = { upstreams, prefix, adminHeader, ownAdmin: config.aggregate.adminId, tier: client?.tier };
  return resolveUpstream(rules, { path: pathOf(context), header, body }, { deadline, signal: clientSignal(context) });
}

/** Which part of a request that names a registry does so: the first of path, header and body, which all agree. */
export function namedBy(context: RequestContext, header: string | undefined): "path" | "header" | "body" {
  if (pathOf(context) !== undefined) return "path";
  return header === undefined ? "body" : "header";
}

function pathOf({ target }: RequestContext): string | undefined {
  return target instanceof Error || target.kind === "local" ? undefined : target.registry;
}

/** What said which registry a request goes to: a part of it, the configuration, or `routing.learn` and `probe`. */
type RoutedBy = "path" | "header" | "body" | "plain" | "learned" | "probe";

/**
 * Lets a request go to an upstream, and notes why: for the log, at level debug alone.
 *
 * @throws GatewayError 403 where its client may not use the upstream, 503 for one that is disabled: what is stored may be
 * another one's
 */
export function routeTo(context: RequestContext, upstream: Upstream, by: RoutedBy): void {
  checkMayUse(context.client?.tier, upstream);
  context.upstream = upstream;
  if (upstream.isDisabled) throw upstream.whyNone();
  const { log } = context.services.observers;
  if (!log.isLevelEnabled("debug")) return;
  const { id, operation } = context;
  log.debug({ requestId: id, operation, upstream: upstream.name, by }, "request routed");
}

/** True where the plain base URL stands for all registries together. */
export function isAggregate({ upstreams, config }: Snapshot): boolean {
  return config.routing.plain === "aggregate" && upstreams.areSeveral;
}

/** True where a request that names no registry goes to one all the same. */
export function hasPlainUpstream(snapshot: Snapshot): boolean {
  return findPlainUpstream(snapshot) !== undefined;
}

/**
 * The registry of a request that names none: the one that `routing.plain` names, else the sole one.
 *
 * @param bodyMayName the request is a factory call, whose body could have named its admin
 * @throws GatewayError 400 that says how to name the registry, 503 while others than the only one that is known may be found
 */
export function plainUpstream(snapshot: Snapshot, bodyMayName: boolean): Upstream {
  const upstream = findPlainUpstream(snapshot);
  if (upstream !== undefined) return upstream;
  const { upstreams, config } = snapshot;
  if (config.routing.plain !== "aggregate" || !upstreams.isSearching) throw adminNotNamed(config.routing, bodyMayName);
  throw new GatewayError(
    "admin_not_known_yet",
    "the request does not say which registry it means, and not all registries behind this gateway are found yet; name " +
      "the instrument admin, or try again shortly",
    { retryAfter: 5 },
  );
}

/** One that is named and not in use has no other in its place. */
function findPlainUpstream({ upstreams, config }: Snapshot): Upstream | undefined {
  const { plain } = config.routing;
  if (plain !== "aggregate" && plain !== "off") return upstreams.byName(plain);
  return upstreams.sole;
}
