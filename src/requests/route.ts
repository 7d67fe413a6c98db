import type { FastifyRequest } from "fastify";
import type { Client } from "../clients/client.ts";
import type { Wait } from "../clock.ts";
import { GatewayError } from "../errors.ts";
import { quote } from "../json.ts";
import type { BodyAdmin } from "../spec/body-admin.ts";
import type { Upstream } from "../upstream/upstream.ts";
import type { Snapshot } from "./snapshot.ts";

/**
 * Which registry a request means. Path, header and body have to agree, and nothing leads to another registry than the one that
 * is named: misrouting is the worst that this gateway could do.
 */

/** One place of a request that names a registry. */
interface Naming {
  readonly value: string;
  /** The place in words, for error texts. */
  readonly where: string;
  /** Path and header take an upstream's name, too; it never holds `::`, a party id always does. */
  readonly mayBeAlias: boolean;
}

/** Places of a request that say where it goes. */
interface Named {
  /** Party id or upstream's name in the path, decoded. */
  readonly path: string | undefined;
  /** Party ids in a body. */
  readonly body?: readonly BodyAdmin[];
}

/**
 * The upstream that a request names; undefined where it names none. One that has not told its admin yet is waited for, where
 * a party id has to be compared with it.
 *
 * @param wait for an admin that is to be learned
 * @throws GatewayError 400 where places disagree, 403 for one that the client may not use, 404 for an unknown admin, 503 for
 * one that may yet turn out to be configured; the promise rejects with these, or with why the admin cannot be learned
 */
export function namedUpstream(
  request: FastifyRequest,
  named: Named,
  wait: () => Wait,
): Upstream | Promise<Upstream> | undefined {
  const { snapshot, client } = request.state;
  const namings = namingsOf(request, named);
  const [first] = namings;
  if (first === undefined) return undefined;
  checkParties(namings);
  const upstream = find(snapshot, first);
  if (upstream === undefined) throw unknown(snapshot, namings);
  checkMayUse(client, upstream);
  if (namings.length === 1) return upstream;
  const other = namings.find((each) => (find(snapshot, each) ?? upstream) !== upstream);
  if (other !== undefined) throw disagreement(first, other);
  if (upstream.admin !== undefined || namings.every((each) => matches(upstream, each)))
    return agreed(upstream, namings);
  return upstream.learnAdmin(wait()).then(() => agreed(upstream, namings));
}

/**
 * The upstream of a request that names none: the sole one, or the one that `routing.plain` names; undefined: all of them
 * together, or none, as `routing.plain` says.
 *
 * @throws GatewayError 403 for one that the client may not use
 */
export function plainUpstream({ state }: FastifyRequest): Upstream | undefined {
  const { upstreams, loaded } = state.snapshot;
  const { plain } = loaded.config.routing;
  const isName = plain !== "aggregate" && plain !== "off";
  const upstream = isName ? upstreams.byName(plain) : upstreams.sole;
  if (upstream !== undefined) checkMayUse(state.client, upstream);
  return upstream;
}

/** Whether a client may use the upstream, and see it in what is made of several. */
export function mayUse(client: Client | undefined, { name }: Upstream): boolean {
  return client === undefined || client.allows(name);
}

function checkMayUse(client: Client | undefined, upstream: Upstream): void {
  if (mayUse(client, upstream)) return;
  throw new GatewayError(
    "upstream_forbidden",
    "this client may not use the registry that the request means; use another one, or ask the gateway's operator to allow it",
  );
}

function namingsOf(request: FastifyRequest, { path, body = [] }: Named): Naming[] {
  const { adminHeader } = request.state.snapshot.loaded.config.routing;
  const namings: Naming[] = [];
  if (path !== undefined) namings.push({ value: path, where: "the path", mayBeAlias: true });
  // A header that is there once is never an array or a list, but for those that Node knows to be one.
  if (request.headers[adminHeader] !== undefined) {
    const value = onlyHeader(request.raw.rawHeaders, adminHeader);
    namings.push({ value, where: `the header ${adminHeader}`, mayBeAlias: true });
  }
  for (const { admin, at } of body) namings.push({ value: admin, where: at, mayBeAlias: false });
  return namings;
}

function onlyHeader(rawHeaders: readonly string[], name: string): string {
  const values = rawHeaders.filter((_text, i) => i % 2 === 1 && rawHeaders[i - 1]!.toLowerCase() === name);
  if (values.length > 1) throw new GatewayError("admin_ambiguous", `the header ${name} is there twice; send it once`);
  const value = values[0]!.trim();
  if (value !== "") return value;
  throw new GatewayError("admin_missing", `the header ${name} is empty; it takes an instrument admin's party id`);
}

/** Two party ids that differ disagree, known or not. */
function checkParties(namings: readonly Naming[]): void {
  const parties = namings.filter(({ value, mayBeAlias }) => !mayBeAlias || value.includes("::"));
  const other = parties.find(({ value }) => value !== parties[0]!.value);
  if (other !== undefined) throw disagreement(parties[0]!, other);
}

function find({ upstreams }: Snapshot, { value, mayBeAlias }: Naming): Upstream | undefined {
  return (mayBeAlias ? upstreams.byName(value) : undefined) ?? upstreams.byAdmin(value);
}

function matches({ admin, name }: Upstream, { value, mayBeAlias }: Naming): boolean {
  return value === admin || (mayBeAlias && value === name);
}

function agreed(upstream: Upstream, namings: readonly Naming[]): Upstream {
  const other = namings.find((each) => !matches(upstream, each));
  if (other === undefined) return upstream;
  throw disagreement(namings.find((each) => each !== other) ?? other, other);
}

function disagreement(one: Naming, other: Naming): GatewayError {
  return new GatewayError(
    "admin_disagreement",
    `the request names two registries: ${quote(one.value)} in ${one.where} and ${quote(other.value)} in ` +
      `${other.where}; every place that names an instrument admin must name the same one`,
  );
}

/** An unknown admin and a known one are two registries, in whichever order they are named. */
function unknown(snapshot: Snapshot, namings: readonly Naming[]): GatewayError {
  const naming = namings[0]!;
  const { upstreams, loaded } = snapshot;
  if (upstreams.hasUnlearned) {
    return new GatewayError(
      "admin_not_known_yet",
      `no registry is known yet for the instrument admin ${quote(naming.value)} in ${naming.where}, but a configured ` +
        "registry has not named its admin yet and may be it; try again in 5 s",
      { retryAfter: 5 },
    );
  }
  const other = namings.find((each) => find(snapshot, each) !== undefined);
  if (other !== undefined) return disagreement(naming, other);
  return new GatewayError(
    "admin_unknown",
    `this gateway serves no registry of the instrument admin ${quote(naming.value)} named in ${naming.where}; check it, ` +
      `see / for the registries that there are (${loaded.config.routing.prefix}/{admin}), or ask the gateway's operator to add it`,
  );
}

/** Base URLs that an error text names; `/` has them all. */
const MOST_NAMED = 20;

/** Base URLs of the registries that a client may use, for error texts. */
export function baseUrls({ snapshot, client }: FastifyRequest["state"]): string {
  const { prefix } = snapshot.loaded.config.routing;
  const bases = snapshot.upstreams.all.filter((each) => mayUse(client, each)).map(({ name }) => `${prefix}/${name}`);
  const more = bases.length > MOST_NAMED ? ` and ${bases.length - MOST_NAMED} more (see /)` : "";
  return `${bases.slice(0, MOST_NAMED).join(", ")}${more}`;
}

/** The 400 for a request whose registry is needed and not named. */
export function adminNotNamed({ state }: FastifyRequest, bodyMayName: boolean): GatewayError {
  const { adminHeader } = state.snapshot.loaded.config.routing;
  const body = bodyMayName ? ", or name it in choiceArguments" : "";
  return new GatewayError(
    "admin_missing",
    `the request does not say which registry it means; use the base URL of one registry (${baseUrls(state)}), or name the ` +
      `instrument admin in the header ${adminHeader}${body}`,
  );
}
