import { isIP, isIPv4 } from "node:net";
import ipaddr from "ipaddr.js";
import { ENDPOINTS } from "../spec/operations.ts";

// The `find…Fault` functions say why a text is not of the wanted kind, as the rest of a sentence that begins with it;
// undefined when it is. They do not repeat it: it may hold a login.

/** Advice for URLs with a password, which one of these characters breaks. */
const ENCODE = "; in a password, write # as %23, / as %2F, ? as %3F, @ as %40 and % as %25";

function findUrlFault(text: string, protocols: readonly string[], hint = ""): string | undefined {
  if (!URL.canParse(text)) return `is not a URL: write it in full, such as ${protocols.at(-1)}//host${hint}`;
  const { protocol, hostname } = new URL(text);
  if (!protocols.includes(protocol)) return `must begin with ${protocols.map((name) => `${name}//`).join(" or ")}`;
  if (hostname === "") return "names no host";
  return text.includes("#") ? `must have no fragment (#…)${hint}` : undefined;
}

/** An address over HTTP without a login: a token endpoint. */
export function findEndpointFault(text: string): string | undefined {
  const login = "must hold no user and no password: they have keys of their own";
  return findUrlFault(text, ["http:", "https:"]) ?? (hasLogin(text) ? login : undefined);
}

/** Paths of the standard as people copy them: below them there is no registry. */
const FAMILIES = [...new Set(ENDPOINTS.map(({ segments }) => segments[0]))].join("|");
const STANDARD_PATH = new RegExp(`/(?:${FAMILIES})/v[0-9]+(?:/|$)`);

export function findNodeUrlFault(text: string): string | undefined {
  const fault = findEndpointFault(text);
  if (fault !== undefined) return fault;
  if (text.includes("?")) return "must have no query (?…)";
  const isEndpoint = STANDARD_PATH.test(new URL(text).pathname);
  return isEndpoint ? "ends in a path of the standard: give the base URL, before /registry/…" : undefined;
}

/** A node's URL without the slash and the `/registry` that lists of registries often have at its end. */
export function normaliseNodeUrl(text: string): string {
  const { origin, pathname } = new URL(text);
  return origin + pathname.replace(/(?:\/+registry)?\/*$/, "");
}

/** The address of an issuer's public keys: over TLS, or on this machine. */
export function findJwksUrlFault(text: string): string | undefined {
  const unsafe = "must begin with https://: without TLS, others could put their own keys in place of the issuer's";
  return findEndpointFault(text) ?? (isReadable(text) ? unsafe : undefined);
}

function findServerFault(text: string, protocols: readonly string[], path: RegExp): string | undefined {
  const hint = text.includes("@") ? ENCODE : "";
  const fault = findUrlFault(text, protocols, hint);
  if (fault !== undefined) return fault;
  const { username, password, pathname } = new URL(text);
  if (/%(?![0-9A-Fa-f]{2})/.test(username + password)) return `has a % that encodes nothing${hint}`;
  return !text.includes("?") && path.test(pathname) ? undefined : `must be scheme, host and port only${hint}`;
}

export function findProxyFault(text: string): string | undefined {
  return findServerFault(text, ["http:", "https:"], /^\/?$/);
}

export function findRedisFault(text: string): string | undefined {
  return findServerFault(text, ["redis:", "rediss:"], /^(?:\/\d*)?$/);
}

export function findHostPortFault(text: string): string | undefined {
  const isPair = /^(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$/.test(text) && URL.canParse(`redis://${text}`);
  return isPair ? undefined : "is not of the form host:port";
}

/** An address, or a range of them (RFC 4632, RFC 4291 §2.3). */
export function findCidrFault(text: string): string | undefined {
  const isRange = text.includes("/") ? ipaddr.isValidCIDR(text) : isIP(text) !== 0;
  return isRange ? undefined : "is not an address or a range such as 10.0.0.0/8 or fd00::/8";
}

export function findOriginFault(text: string): string | undefined {
  const isOrigin = text === "*" || (URL.canParse(text) && /^https?:/.test(text) && new URL(text).origin === text);
  return isOrigin ? undefined : 'is not an origin such as https://wallet.example, or "*"';
}

/** First segments of the gateway's own paths. */
const OWN = new Set(["registry", "catalog", "docs", "openapi.json"]);

export function findPathFault(text: string): string | undefined {
  const segments = text.split("/").slice(1);
  const isPath = /^(?:\/[A-Za-z0-9._~-]+)+$/.test(text) && !segments.includes(".") && !segments.includes("..");
  if (!isPath) return "is not a path such as /api/x/v0: letters, digits and . _ ~ - between slashes, none at the end";
  return OWN.has(segments[0]!) ? `is a path of the gateway's own: /${segments[0]}` : undefined;
}

export function findBasePathFault(text: string): string | undefined {
  return findPathFault(text) ?? (text.endsWith("/registry") ? "must end before /registry" : undefined);
}

/** Method and path of `/path`, `/path/*` or `POST /path`. */
export function parseExtraPath(text: string): { readonly method: "GET" | "POST"; readonly path: string } {
  return text.startsWith("POST ") ? { method: "POST", path: text.slice(5) } : { method: "GET", path: text };
}

export function findExtraPathFault(text: string): string | undefined {
  return findPathFault(parseExtraPath(text).path.replace(/\/\*$/, ""));
}

function hasLogin(text: string): boolean {
  const { username, password } = new URL(text);
  return username !== "" || password !== "";
}

/** A URL with its login replaced. */
export function redactLogin(text: string): string {
  return hasLogin(text) ? text.replace(/^([a-z]+:\/\/)[^/?#]*@/i, "$1…@") : text;
}

/** Whether only this machine can reach a listener on `host`. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || (isIPv4(host) && host.startsWith("127."));
}

/** Whether what is exchanged with `url` can be read or altered on its way: in the clear, and beyond this machine. */
export function isReadable(url: string): boolean {
  const { protocol, hostname } = new URL(url);
  return protocol === "http:" && !isLoopback(hostname.replace(/^\[(.*)\]$/, "$1"));
}
