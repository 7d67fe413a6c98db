import { RESERVED_ALIASES } from "./upstream-names.ts";
import { checkClients } from "./clients-rules.ts";
import { checkHeaderName, checkTls, checkTwice } from "./common-rules.ts";
import { checkDiscovery } from "./discovery-rules.ts";
import type { Draft } from "./dependent-defaults.ts";
import type { Reading } from "./reading.ts";
import { suggest } from "./problem.ts";
import {
  checkAnswerFields,
  checkFurtherPaths,
  checkForwardedHeaders,
  checkRateLimitGroups,
  checkUpstream,
  checkUpstreams,
} from "./upstream-rules.ts";
import { formatSize } from "../units.ts";

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
  checkRateLimitGroups(reading, draft);
  checkClients(reading, draft);
  checkRouting(reading, draft);
  checkFurtherPaths(reading, draft);
  checkRedis(reading, draft.redis);
  checkForwardedHeaders(reading, "cache.forwardRequestHeaders", draft.cache?.forwardRequestHeaders);
  checkAnswerFields(reading, "cache.forwardResponseHeaders", draft.cache?.forwardResponseHeaders);
  const { maxBytes, maxObject } = draft.cache?.memory ?? {};
  if (maxBytes !== undefined && maxObject !== undefined && maxObject > maxBytes) {
    reading.report("cache.memory.maxObject", `must not be larger than maxBytes (${formatSize(maxBytes)})`);
  }
}
