import { isDeepStrictEqual } from "node:util";
import { HOP_BY_HOP, isNeverPassed, OWN_TARGETED_FIELD } from "../fields.ts";
import { RESERVED_ALIASES } from "./alias.ts";
import { checkClients } from "./clients-rules.ts";
import { checkKeyPair, checkTwice } from "./common-rules.ts";
import { checkDiscovery } from "./discovery-rules.ts";
import type { Draft, UpstreamDraft } from "./dependent-defaults.ts";
import type { Reading } from "./reading.ts";
import { suggest } from "./suggestion.ts";
import { formatDuration, formatSize } from "../units.ts";

/** Request headers that are HTTP's own: of one connection, of the framing, or of what the body is. */
const RESERVED_HEADERS: ReadonlySet<string> = new Set([
  ...HOP_BY_HOP,
  "accept-encoding",
  "content-encoding",
  "content-length",
  "content-type",
  "expect",
  "host",
  "proxy-authorization",
]);

/** Reports a header that means something to HTTP already. */
function checkHeaderName(reading: Reading, path: string, name: string | undefined): void {
  if (name !== undefined && RESERVED_HEADERS.has(name)) {
    reading.report(path, `${name} has a meaning of its own in HTTP: take another header`);
  }
}

/** A party id whose fingerprint is in lower case: both cases occur and mean the same. */
function normaliseParty(party: string): string {
  const end = party.lastIndexOf("::");
  return end === -1 ? party : party.slice(0, end) + party.slice(end).toLowerCase();
}

function checkForwardedHeaders(reading: Reading, path: string, headers: unknown): void {
  if (!Array.isArray(headers)) return;
  for (const [index, header] of headers.entries()) {
    const place = `${path}[${index}]`;
    if (header === "*") reading.report(place, '"*" stands alone: it means all headers');
    else if (header === "authorization" || RESERVED_HEADERS.has(header)) {
      reading.report(place, `${header} cannot be forwarded by name`);
    }
  }
}

function checkAnswerFields(reading: Reading, path: string, names: unknown): void {
  if (!Array.isArray(names)) return;
  for (const [index, name] of names.entries()) {
    const place = `${path}[${index}]`;
    if (name === "*") reading.report(place, '"*" stands alone: it means all fields');
    else if (typeof name === "string" && (isNeverPassed(name) || name === OWN_TARGETED_FIELD)) {
      reading.report(place, `${name} is never sent on`);
    }
  }
}

function checkTls(reading: Reading, path: string, tls: UpstreamDraft["tls"]): void {
  const isGiven = (key: string) => reading.isGiven(`${path}.${key}`);
  if (isGiven("keyFile") !== isGiven("certFile")) {
    const [given, missing] = isGiven("keyFile") ? ["keyFile", "certFile"] : ["certFile", "keyFile"];
    reading.report(`${path}.${given}`, `needs ${missing}`);
  }
  checkKeyPair(reading, path, tls);
}

/** User and password that a URL holds, as text to compare; empty without. */
function loginIn({ username, password }: URL): string {
  return `${username}:${password}`.replace(/^:$/, "");
}

function checkRedisNodes(reading: Reading, nodes: readonly (string | undefined)[]): void {
  const given = nodes.flatMap((url, index) =>
    url === undefined ? [] : [{ path: `redis.cluster.nodes[${index}]`, url: new URL(url) }],
  );
  const [first] = given;
  for (const { path, url } of given) {
    // All nodes, those that the cluster announces too, are spoken to in one way and with one login.
    if (url.protocol !== first!.url.protocol) {
      reading.report(
        path,
        `mixes redis:// and rediss:// with ${first!.path}: a cluster has TLS on all nodes or on none`,
      );
    }
    if (loginIn(url) !== loginIn(first!.url)) {
      reading.report(
        path,
        `has another login than ${first!.path}: give one for all, as redis.username and passwordFile`,
      );
    }
  }
}

function checkRedis(reading: Reading, redis: Draft["redis"]): void {
  const { url, cluster, username, password, passwordFile } = redis ?? {};
  checkTls(reading, "redis.tls", redis?.tls);
  checkRedisNodes(reading, cluster?.nodes ?? []);
  const given = ["username", "password", "passwordFile"].filter((key) => reading.isGiven(`redis.${key}`));
  const [key] = given;
  if (key === undefined) return;
  if (given.includes("password") && given.includes("passwordFile")) {
    reading.report("redis.passwordFile", "give password or passwordFile, not both");
  }
  if (username !== undefined && password === undefined && passwordFile === undefined && given.length === 1) {
    reading.report("redis.username", "needs password or passwordFile");
  }
  const urls = [url, ...(cluster?.nodes ?? [])].filter((each) => each !== undefined);
  if (urls.some((each) => loginIn(new URL(each)) !== "")) {
    reading.report(`redis.${key}`, "the URL holds a login already: give it once");
  }
}

function checkUpstream(reading: Reading, path: string, upstream: UpstreamDraft): void {
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

function checkRateLimitGroups(
  reading: Reading,
  upstreams: readonly { readonly path: string; readonly upstream: UpstreamDraft }[],
): void {
  const firsts = new Map<string, (typeof upstreams)[number]>();
  for (const each of upstreams) {
    const { rateLimit } = each.upstream;
    if (rateLimit?.group === undefined) continue;
    const first = firsts.get(rateLimit.group);
    if (first === undefined) {
      firsts.set(rateLimit.group, each);
      continue;
    }
    for (const key of SHARED_KEYS) {
      if (isDeepStrictEqual(rateLimit[key], first.upstream.rateLimit?.[key])) continue;
      const others = `${first.path}.rateLimit.${key}`;
      const names = [first.upstream.name, each.upstream.name].map((name) => `"${name ?? "?"}"`).join(" and ");
      reading.report(
        `${each.path}.rateLimit.${key}`,
        `is not what ${others} says: ${names} share the group "${rateLimit.group}" and so one limit`,
      );
    }
  }
}

/** Base paths say which registry is meant: one of them must not mean two, nor be below another or `routing.prefix`. */
function checkBasePaths(reading: Reading, { upstreams, routing }: Draft): void {
  const given = (upstreams ?? []).flatMap((upstream, index) =>
    (upstream?.basePaths ?? []).map((path, at) => [`upstreams[${index}].basePaths[${at}]`, path] as const),
  );
  checkTwice(reading, "base path", given);
  const prefix = routing?.prefix;
  for (const [place, path] of given) {
    if (path === undefined) continue;
    if (prefix !== undefined && `${path}/`.startsWith(`${prefix}/`)) {
      reading.report(place, "must not be below routing.prefix, where registries have their base URLs");
    }
    const above = given.find(([, other]) => other !== undefined && path.startsWith(`${other}/`));
    if (above !== undefined) reading.report(place, `must not be below the base path at ${above[0]}`);
  }
}

function checkUpstreams(reading: Reading, upstreams: readonly (UpstreamDraft | undefined)[]): void {
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
  checkRateLimitGroups(reading, all);
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

function checkRouting(reading: Reading, { routing, upstreams }: Draft): void {
  const { plain, prefix, adminHeader } = routing ?? {};
  checkHeaderName(reading, "routing.adminHeader", adminHeader);
  const names = (upstreams ?? []).map((upstream) => upstream?.name).filter((name) => name !== undefined);
  const known = [...RESERVED_ALIASES, ...names];
  if (plain !== undefined && upstreams !== undefined && !known.includes(plain)) {
    reading.report(
      "routing.plain",
      `${reading.speak("routing.plain")} is no upstream: it must be aggregate, off or a name${suggest(plain, known)}`,
    );
  }
  if (prefix === undefined) return;
  if (prefix === "/registry" || prefix.startsWith("/registry/")) {
    reading.report("routing.prefix", "must not be below /registry, where requests without an admin in their path go");
  }
  if (prefix.split("/").some((segment) => segment === "." || segment === "..")) {
    reading.report("routing.prefix", "must not have segments . or ..");
  }
}

function checkListeners(reading: Reading, { listen, operations }: Draft): void {
  if (reading.isGiven("operations.token") && reading.isGiven("operations.tokenFile")) {
    reading.report("operations.tokenFile", "give token or tokenFile, not both");
  }
  checkTwice(
    reading,
    "name",
    (operations?.tokens ?? []).map((each, index) => [`operations.tokens[${index}].name`, each?.name]),
  );
  const hosts = [listen?.host, operations?.host];
  const overlap = hosts[0] === hosts[1] || hosts.includes("0.0.0.0") || hosts.includes("::");
  if (listen?.port !== undefined && listen.port !== 0 && listen.port === operations?.port && overlap) {
    reading.report("operations.port", `is the port of the public listener too (${listen.port}): take another`);
  }
}

/** Reports what is wrong between keys, each of which is good by itself. */
export function checkRules(reading: Reading, draft: Draft): void {
  checkListeners(reading, draft);
  checkUpstreams(reading, draft.upstreams ?? []);
  checkDiscovery(reading, draft.discovery);
  if (draft.discovery !== undefined) checkUpstream(reading, "discovery.defaults", draft.discovery.defaults ?? {});
  checkClients(reading, draft);
  checkRouting(reading, draft);
  checkBasePaths(reading, draft);
  checkRedis(reading, draft.redis);
  checkForwardedHeaders(reading, "cache.forwardRequestHeaders", draft.cache?.forwardRequestHeaders);
  checkAnswerFields(reading, "cache.forwardResponseHeaders", draft.cache?.forwardResponseHeaders);
  const { maxBytes, maxObject } = draft.cache?.memory ?? {};
  if (maxBytes !== undefined && maxObject !== undefined && maxObject > maxBytes) {
    reading.report("cache.memory.maxObject", `must not be larger than maxBytes (${formatSize(maxBytes)})`);
  }
}
