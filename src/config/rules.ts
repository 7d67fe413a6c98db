import { isDeepStrictEqual } from "node:util";
import { findPairFault } from "./certificates.ts";
import { suggest } from "./problem.ts";
import type { Config, TlsFiles, UpstreamConfig } from "./schema.ts";
import { parseExtraPath } from "./urls.ts";

/** Reports what is wrong with the key at a path. */
export type Report = (path: string, message: string) => void;

/** Request fields that HTTP has a meaning for: of one connection, of the framing, or of what the body is. */
const HTTP_FIELDS = (
  "accept-encoding connection content-encoding content-length content-type expect host keep-alive " +
  "proxy-authorization proxy-connection te trailer transfer-encoding upgrade"
).split(" ");

/** Words of `routing.plain`, which no upstream can have as its name. */
const PLAIN_WORDS = ["aggregate", "off"];

/** Texts of PEM files by absolute path. */
type Texts = ReadonlyMap<string, string>;

/** Reports what is wrong between keys each of which is good by itself. */
export function checkRules(config: Config, texts: Texts, report: Report): void {
  const operators = config.operations.tokens ?? [];
  checkTwice("name", placed("operations.tokens", operators, "name"), report);
  if (config.redis !== undefined) checkOneOf("redis", config.redis, ["url", "cluster", "sentinel"], report);
  checkPair("listen.tls", config.listen.tls, texts, report);
  checkPair("redis.tls", config.redis?.tls, texts, report);
  checkClients(config, report);
  checkRouting(config, report);
  for (const [index, upstream] of config.upstreams.entries()) {
    checkUpstream(`upstreams[${index}]`, upstream, report);
    checkPair(`upstreams[${index}].tls`, upstream.tls, texts, report);
  }
  checkIdentities(config.upstreams, report);
  checkGroups(config.upstreams, report);
  checkPaths(config, report);
}

type Placed = readonly [path: string, value: string];

/** One key of each item of the list at `path`. */
function placed<K extends string>(path: string, items: readonly { readonly [_ in K]?: string }[], key: K): Placed[] {
  return items.map((item, index) => [`${path}[${index}].${key}`, item[key] ?? ""]);
}

/** Reports each value that an earlier one equals. */
function checkTwice(what: string, values: readonly Placed[], report: Report): void {
  const first = new Map<string, string>();
  for (const [path, value] of values) {
    const earlier = first.get(value);
    if (earlier === undefined) first.set(value, path);
    else report(path, `the same ${what} is given at ${earlier}`);
  }
}

/** Reports a group that does not have exactly one of some keys. */
function checkOneOf(path: string, group: object, keys: readonly string[], report: Report): void {
  const given = keys.filter((key) => Object.hasOwn(group, key));
  if (given.length === 1) return;
  report(given[1] === undefined ? path : `${path}.${given[1]}`, `exactly one of ${keys.join(", ")} must be given`);
}

/** Reports a certificate without its key, or with another one. */
function checkPair(path: string, { certFile, keyFile }: TlsFiles = {}, texts: Texts, report: Report): void {
  if (certFile !== undefined && keyFile === undefined) report(`${path}.certFile`, "needs keyFile");
  if (certFile === undefined && keyFile !== undefined) report(`${path}.keyFile`, "needs certFile");
  const [cert, key] = [texts.get(certFile ?? ""), texts.get(keyFile ?? "")];
  const fault = cert === undefined || key === undefined ? undefined : findPairFault(cert, key);
  if (fault !== undefined) report(`${path}.keyFile`, `the file ${keyFile} ${fault}`);
}

function checkClients({ clients, upstreams }: Config, report: Report): void {
  if (clients === undefined) return;
  const known = Object.keys(clients.tiers);
  const tiers: Placed[] = placed("clients.jwt", clients.jwt, "tier").filter(([, tier]) => tier !== "");
  if (clients.anonymous !== false) tiers.push(["clients.anonymous", clients.anonymous]);
  for (const [path, tier] of tiers.filter(([, each]) => !known.includes(each))) {
    report(path, `there is no such tier: clients.tiers has ${known.join(", ") || "none"}${suggest(tier, known)}`);
  }
  checkTwice("issuer", placed("clients.jwt", clients.jwt, "issuer"), report);
  const names = upstreams.map(({ name }) => name);
  for (const [tier, { upstreams: allowed }] of Object.entries(clients.tiers)) {
    for (const [index, name] of allowed.entries()) {
      if (name === "*" || names.includes(name)) continue;
      report(`clients.tiers.${tier}.upstreams[${index}]`, `is the name of no upstream${suggest(name, names)}`);
    }
  }
}

function checkRouting({ routing: { adminHeader, plain }, upstreams }: Config, report: Report): void {
  if ([...HTTP_FIELDS, "authorization", "x-api-key"].includes(adminHeader)) {
    report("routing.adminHeader", "has another meaning: take another field");
  }
  const known = [...PLAIN_WORDS, ...upstreams.map(({ name }) => name)];
  if (known.includes(plain)) return;
  report("routing.plain", `must be aggregate, off, or the name of an upstream${suggest(plain, known)}`);
}

function checkUpstream(path: string, upstream: UpstreamConfig, report: Report): void {
  const { name, mode, admin, urls, agreement, auth } = upstream;
  if (PLAIN_WORDS.includes(name)) report(`${path}.name`, "has a meaning of its own in routing.plain: take another");
  if (mode === "cache-only" && admin === undefined) {
    report(`${path}.mode`, "needs admin: with cache-only the registry is not asked, not even for its admin");
  }
  const nodes = urls.map((url, index) => [`${path}.urls[${index}]`, url] as const);
  checkTwice("node", nodes, report);
  if (agreement > urls.length) report(`${path}.agreement`, `must be at most the number of urls (${urls.length})`);
  else if (agreement > 1 && admin === undefined) {
    report(`${path}.agreement`, "needs admin: else one node alone says whose registry it is");
  }
  if (auth === undefined) return;
  checkOneOf(`${path}.auth`, auth, ["bearer", "header", "oauth2"], report);
  if (HTTP_FIELDS.includes(auth.header?.name ?? "")) {
    report(`${path}.auth.header.name`, "has a meaning of its own in HTTP: take another field");
  }
  if (upstream.forwardAuthorization !== "off") {
    report(`${path}.forwardAuthorization`, "cannot go with auth: a registry gets one credential");
  }
}

/** A party id whose fingerprint is in lower case: both cases occur and mean the same. */
export function normaliseParty(party: string): string {
  const end = party.lastIndexOf("::");
  return end === -1 ? party : party.slice(0, end) + party.slice(end).toLowerCase();
}

/** Reports names and admins that mean two registries: in a path both stand for one. */
function checkIdentities(upstreams: readonly UpstreamConfig[], report: Report): void {
  const names = placed("upstreams", upstreams, "name");
  const admins = placed("upstreams", upstreams, "admin");
  checkTwice("name", names, report);
  const enabled = admins.filter(([, admin], index) => admin !== "" && upstreams[index]!.enabled);
  const parties = enabled.map(([path, admin]) => [path, normaliseParty(admin)] as const);
  checkTwice("admin", parties, report);
  const places = new Map(names.map(([path, name]) => [name, path]));
  for (const [path, admin] of admins) if (places.has(admin)) report(path, `is the name at ${places.get(admin)}`);
}

/** Reports where upstreams of one group say different numbers. */
function checkGroups(upstreams: readonly UpstreamConfig[], report: Report): void {
  for (const [index, { rateLimit }] of upstreams.entries()) {
    if (rateLimit?.group === undefined) continue;
    const first = upstreams.findIndex((other) => other.rateLimit?.group === rateLimit.group);
    for (const key of ["requests", "burst"] as const) {
      if (isDeepStrictEqual(rateLimit[key], upstreams[first]!.rateLimit![key])) continue;
      const other = `upstreams[${first}].rateLimit.${key}`;
      report(`upstreams[${index}].rateLimit.${key}`, `is not what ${other} says: they are of one group and one limit`);
    }
  }
}

/** Whether a path is `base`, or below it. */
function isWithin(base: string, path: string): boolean {
  return `${path}/`.startsWith(`${base}/`);
}

/** Base paths and extra paths: one means one registry, and none is the gateway's own. */
function checkPaths({ upstreams, routing: { prefix } }: Config, report: Report): void {
  const pathsOf = (key: "basePaths" | "extraPaths"): Placed[] =>
    upstreams.flatMap((each, i) => each[key].map((path, at): Placed => [`upstreams[${i}].${key}[${at}]`, path]));
  const bases = pathsOf("basePaths");
  const extras = pathsOf("extraPaths");
  checkTwice("base path", bases, report);
  checkTwice("extra path", extras, report);
  for (const [place, text] of [...bases, ...extras]) {
    const { path } = parseExtraPath(text);
    if (isWithin(prefix, path)) report(place, "must not be below routing.prefix: it would hide a registry's own");
    const base = bases.find(([, each]) => isWithin(`${each}/registry`, path));
    if (base !== undefined) report(place, `is below the base path at ${base[0]} already`);
  }
}
