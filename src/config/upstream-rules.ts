import { isDeepStrictEqual } from "node:util";
import { isNeverPassed, OWN_TARGETED_FIELD } from "../fields.ts";
import { normaliseParty, RESERVED_ALIASES } from "./upstream-names.ts";
import { checkHeaderName, checkTls, checkTwice, RESERVED_HEADERS } from "./common-rules.ts";
import type { Draft, UpstreamDraft } from "./dependent-defaults.ts";
import type { Reading } from "./reading.ts";
import { formatDuration } from "../units.ts";

export function checkForwardedHeaders(reading: Reading, path: string, headers: unknown): void {
  if (!Array.isArray(headers)) return;
  for (const [index, header] of headers.entries()) {
    const place = `${path}[${index}]`;
    if (header === "*") reading.report(place, '"*" stands alone: it means all headers');
    else if (header === "authorization" || RESERVED_HEADERS.has(header)) {
      reading.report(place, `${header} cannot be forwarded by name`);
    }
  }
}

export function checkAnswerFields(reading: Reading, path: string, names: unknown): void {
  if (!Array.isArray(names)) return;
  for (const [index, name] of names.entries()) {
    const place = `${path}[${index}]`;
    if (name === "*") reading.report(place, '"*" stands alone: it means all fields');
    else if (typeof name === "string" && (isNeverPassed(name) || name === OWN_TARGETED_FIELD)) {
      reading.report(place, `${name} is never sent on`);
    }
  }
}

/** Reports what is wrong between the keys of one upstream. */
export function checkUpstream(reading: Reading, path: string, upstream: UpstreamDraft): void {
  const { timeout, attemptTimeout, auth, agreement, urls } = upstream;
  for (const key of ["admin", "metadata", "contexts"] as const) {
    const needed = agreement?.[key];
    if (needed === undefined || urls === undefined || needed <= Math.max(1, urls.length)) continue;
    reading.report(`${path}.agreement.${key}`, `must not be more than the number of urls (${urls.length})`);
  }
  if (timeout !== undefined && attemptTimeout !== undefined && attemptTimeout > timeout) {
    reading.report(`${path}.attemptTimeout`, `must not be longer than timeout (${formatDuration(timeout)})`);
  }
  if (upstream.name !== undefined && RESERVED_ALIASES.includes(upstream.name)) {
    reading.report(`${path}.name`, `"${upstream.name}" has a meaning of its own in routing.plain: take another name`);
  }
  checkTwice(
    reading,
    "node",
    (upstream.urls ?? []).map((node, index) => [`${path}.urls[${index}]`, typeof node === "string" ? node : node?.url]),
  );
  const takesAuthorization =
    auth?.bearerToken !== undefined ||
    auth?.bearerTokenFile !== undefined ||
    auth?.oauth2 !== undefined ||
    auth?.header?.name === "authorization";
  if ((upstream.forwardAuthorization ?? false) !== false && takesAuthorization) {
    reading.report(`${path}.forwardAuthorization`, "cannot go with auth: both set Authorization");
  }
  checkHeaderName(reading, `${path}.auth.header.name`, auth?.header?.name);
  checkTls(reading, `${path}.tls`, upstream.tls);
  if (reading.isGiven(`${path}.cache.forwardRequestHeaders`)) {
    checkForwardedHeaders(reading, `${path}.cache.forwardRequestHeaders`, upstream.cache?.forwardRequestHeaders);
  }
  if (reading.isGiven(`${path}.cache.forwardResponseHeaders`)) {
    checkAnswerFields(reading, `${path}.cache.forwardResponseHeaders`, upstream.cache?.forwardResponseHeaders);
  }
}

/** What upstreams that share a rate limit have to agree on. */
const SHARED_KEYS = ["requests", "per", "burst", "perEndpoint"] as const;

/** Reports where those of one group say different things; what discovery finds is one of them. */
export function checkRateLimitGroups(reading: Reading, { upstreams, discovery }: Draft): void {
  const written = (upstreams ?? []).map((upstream, index) => {
    return { path: `upstreams[${index}]`, who: `"${upstream?.name ?? "?"}"`, rateLimit: upstream?.rateLimit };
  });
  const found = { path: "discovery.defaults", who: "what is found", rateLimit: discovery?.defaults?.rateLimit };
  const firsts = new Map<string, typeof found>();
  for (const each of [...written, found]) {
    const { rateLimit } = each;
    if (rateLimit?.group === undefined) continue;
    const first = firsts.get(rateLimit.group);
    if (first === undefined) {
      firsts.set(rateLimit.group, each);
      continue;
    }
    for (const key of SHARED_KEYS) {
      if (isDeepStrictEqual(rateLimit[key], first.rateLimit?.[key])) continue;
      const others = `${first.path}.rateLimit.${key}`;
      reading.report(
        `${each.path}.rateLimit.${key}`,
        `is not what ${others} says: ${first.who} and ${each.who} share the group "${rateLimit.group}" and so one limit`,
      );
    }
  }
}

/**
 * Base paths say which registry is meant: one of them must not mean two, nor be below another or `routing.prefix`. An extra
 * path must be at neither, but where the base path is of the same upstream.
 */
export function checkFurtherPaths(reading: Reading, { upstreams, routing, discovery }: Draft): void {
  const written = (upstreams ?? []).map((upstream, index) => ({
    index,
    basePaths: placesOf(`upstreams[${index}].basePaths`, upstream?.basePaths),
    extraPaths: placesOf(`upstreams[${index}].extraPaths`, upstream?.extraPaths),
  }));
  const ofFound = placesOf("discovery.defaults.extraPaths", discovery?.defaults?.extraPaths);
  const all = [...written, { index: -1, basePaths: [], extraPaths: ofFound }];
  const bases = all.flatMap(({ index, basePaths }) => basePaths.map(([place, path]) => ({ index, place, path })));
  checkTwice(
    reading,
    "base path",
    bases.map(({ place, path }) => [place, path]),
  );
  const prefix = routing?.prefix;
  for (const [place, path] of all.flatMap(({ basePaths, extraPaths }) => [...basePaths, ...extraPaths])) {
    if (prefix !== undefined && isWithin(prefix, path)) {
      reading.report(place, "must not be below routing.prefix, where registries have their base URLs");
    }
  }
  for (const { place, path } of bases) {
    const above = bases.find((other) => other.path !== path && isWithin(other.path, path));
    if (above !== undefined) reading.report(place, `must not be below the base path at ${above.place}`);
  }
  for (const { index, extraPaths } of all) {
    checkTwice(reading, "extra path", extraPaths);
    for (const [place, path] of extraPaths) {
      const other = bases.find((base) => base.index !== index && isWithin(base.path, path));
      if (other !== undefined)
        reading.report(place, `must not be below another upstream's base path at ${other.place}`);
    }
  }
}

/** Each path with its place; those that are none are reported elsewhere. */
function placesOf(
  key: string,
  paths: readonly (string | undefined)[] = [],
): (readonly [place: string, path: string])[] {
  return paths.flatMap((path, at) => (path === undefined ? [] : [[`${key}[${at}]`, path] as const]));
}

/** Whether a path is `base`, or below it. */
function isWithin(base: string, path: string): boolean {
  return `${path}/`.startsWith(`${base}/`);
}

/** Reports what is wrong in each upstream, and between several. */
export function checkUpstreams(reading: Reading, upstreams: readonly (UpstreamDraft | undefined)[]): void {
  const all = upstreams.map((upstream, index) => ({ path: `upstreams[${index}]`, upstream: upstream ?? {} }));
  for (const { path, upstream } of all) checkUpstream(reading, path, upstream);
  checkTwice(
    reading,
    "name",
    all.map(({ path, upstream }) => [`${path}.name`, upstream.name]),
  );
  checkTwice(
    reading,
    "admin",
    all.map(({ path, upstream: { admin } }) => [`${path}.admin`, admin && normaliseParty(admin)]),
  );
  for (const { path, upstream } of all) {
    const namesake = all.find((other) => other.upstream.name !== undefined && other.upstream.name === upstream.admin);
    // In a path either may stand for the registry: one word must not mean two of them.
    if (namesake !== undefined) reading.report(`${path}.admin`, `is the name at ${namesake.path}.name`);
  }
  if (upstreams.length === 0 && !reading.isGiven("discovery") && !reading.hasProblem("upstreams")) {
    const isGiven = reading.isGiven("upstreams");
    reading.report("upstreams", isGiven ? "is empty: give at least one" : "is missing: it must be a list of upstreams");
  }
  if (
    upstreams.length > 0 &&
    !reading.isGiven("discovery") &&
    upstreams.every((upstream) => upstream?.enabled === false)
  ) {
    reading.report("upstreams", "every upstream is disabled: enable at least one");
  }
}
