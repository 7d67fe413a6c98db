import { isIPv4 } from "node:net";

/**
 * The base of one node of a registry, to which paths that begin `/registry/` are appended: scheme, host, port and base
 * path, without a trailing slash or `/registry`, credentials, query or fragment.
 */
export type NodeUrl = string;

const HTTP = ["http:", "https:"];
const REDIS = ["redis:", "rediss:"];

/** For URLs that may hold a password, which breaks them where it has one of these characters in it. */
const ENCODE = "; in a password, percent-encode # as %23, / as %2F, ? as %3F, @ as %40 and % as %25";

/** A node in the configuration: its URL, or that with its weight. */
export type NodeEntry = NodeUrl | NodeAddress;

export interface NodeAddress {
  readonly url: NodeUrl;
  /** Its share of the calls in relation to the other nodes. 0: used only when no other can be. */
  readonly weight: number;
}

/** A node with its weight, which is 1 where none is given. */
export function nodeAddressOf(node: NodeEntry): NodeAddress {
  return typeof node === "string" ? { url: node, weight: 1 } : node;
}

/** Why something is not a URL of the wanted kind; undefined when it is. */
function findFault(text: string, protocols: readonly string[]): string | undefined {
  const hint = text.includes("@") ? ENCODE : "";
  if (!URL.canParse(text)) return `is not a URL: write it in full, such as ${protocols.at(-1)}//host${hint}`;
  const url = new URL(text);
  if (!protocols.includes(url.protocol)) return `must begin with ${protocols.map((name) => `${name}//`).join(" or ")}`;
  if (url.hostname === "") return "names no host";
  if (text.includes("#")) return `must have no fragment (#…)${hint}`;
  return undefined;
}

export const URL_PATH_PATTERN = "^(/[A-Za-z0-9._~-]+)+$";
const URL_PATH = new RegExp(URL_PATH_PATTERN);

/** The gateway's own pages, and where the standard's API is. */
const OWN_SEGMENTS: ReadonlySet<string> = new Set(["catalog", "docs", "openapi.json", "registry"]);

/** What keeps `text` from being a further path of the public listener; undefined when it may be one. */
export function findUrlPathFault(text: string): string | undefined {
  if (!URL_PATH.test(text)) {
    return "is not a path such as /api/x/v0: slashes with letters, digits and . _ ~ - between them, no slash at its end";
  }
  const segments = text.slice(1).split("/");
  if (segments.some((segment) => segment === "." || segment === "..")) return "must not have segments . or ..";
  if (segments.some((segment) => segment.toLowerCase() === "registry")) {
    return "must not name registry: below it is the API of the standard, which is there without this key";
  }
  return OWN_SEGMENTS.has(segments[0]!) ? `is a path of the gateway's own: /${segments[0]}` : undefined;
}

/** User and password of a URL as they are sent; undefined where they are not encoded as they must be. */
function loginOf({ username, password }: URL): readonly [username: string, password: string] | undefined {
  try {
    return [decodeURIComponent(username), decodeURIComponent(password)];
  } catch {
    return undefined;
  }
}

/** Why a URL is not that of a server that one may log in to; undefined when it is. */
function findServerFault(text: string, protocols: readonly string[], path: RegExp): string | undefined {
  const fault = findFault(text, protocols);
  if (fault !== undefined) return fault;
  const url = new URL(text);
  const hint = text.includes("@") ? ENCODE : "";
  if (loginOf(url) === undefined) return `has a % that encodes nothing${hint}`;
  if (url.search !== "" || text.includes("?")) return `must have no query (?…)${hint}`;
  return path.test(url.pathname) ? undefined : `must be scheme, host and port only${hint}`;
}

function hasCredentials(text: string): boolean {
  const url = new URL(text);
  return url.username !== "" || url.password !== "";
}

const CREDENTIALS = "must hold no user or password: use the keys of auth";

/** What keeps `text` from being the base of a node; undefined when it may be one. */
export function findNodeUrlFault(text: string): string | undefined {
  const fault = findFault(text, HTTP);
  if (fault !== undefined) return fault;
  if (hasCredentials(text)) return CREDENTIALS;
  return text.includes("?") ? "must have no query (?…)" : undefined;
}

/** The normal form of a valid node URL. Base paths survive; published lists often end in `/registry/`. */
export function normaliseNodeUrl(text: string): NodeUrl {
  const url = new URL(text);
  const path = url.pathname
    .replace(/\/+$/, "")
    .replace(/\/registry$/, "")
    .replace(/\/+$/, "");
  return url.origin + path;
}

/** What keeps `text` from being an HTTP address without credentials (a token or trace endpoint). */
export function findEndpointFault(text: string): string | undefined {
  const fault = findFault(text, HTTP);
  if (fault !== undefined) return fault;
  return hasCredentials(text) ? "must hold no user or password" : undefined;
}

/**
 * Names the group (`rateLimit.group`) of all that is found behind the one host of these nodes; undefined where they have
 * several. No name that a configuration may give is this one.
 */
export function hostGroupOf(nodes: readonly NodeEntry[]): string | undefined {
  const [host, ...others] = new Set(nodes.map((node) => new URL(nodeAddressOf(node).url).host));
  return host === undefined || others.length > 0 ? undefined : `host:${host}`;
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

/** What keeps `text` from being where an issuer's public keys are; undefined when they may be had there. */
export function findJwksUrlFault(text: string): string | undefined {
  const fault = findEndpointFault(text);
  if (fault !== undefined) return fault;
  return isReadable(text)
    ? "must begin with https://: without TLS, others could put their own keys in place of the issuer's"
    : undefined;
}

/** What keeps `text` from being the address of an HTTP proxy; credentials are allowed. */
export function findProxyFault(text: string): string | undefined {
  return findServerFault(text, HTTP, /^\/?$/);
}

/** What keeps `text` from being the address of a Redis server; credentials and the number of a database are allowed. */
export function findRedisFault(text: string): string | undefined {
  return findServerFault(text, REDIS, /^(\/\d*)?$/);
}

/** `text` with the credentials of its authority replaced by `***`. */
export function redactUrl(text: string): string {
  if (!URL.canParse(text)) return "***";
  const { username, password } = new URL(text);
  if (username === "" && password === "") return text;
  const user = password === "" ? "***" : `${username}:***`;
  return text.replace(/^([a-z]+:\/\/)[^/?#]*@/i, `$1${user}@`);
}

/** `text` with its query, in which a token may be, replaced by `***`. */
export function redactQuery(text: string): string {
  return text.replace(/\?.*$/s, "?***");
}

/** What paths of token and trace endpoints are made of; anything else in one may be a key. */
const PATH_WORDS: ReadonlySet<string> = new Set(
  ["", "api", "auth", "connect", "oauth", "oauth2", "oidc", "openid-connect", "otlp", "protocol", "realms"].concat([
    "token",
    "traces",
    "v1",
    "v2",
  ]),
);

/** `text` with `***` for the query and what is no usual word in its path, where some services want a key. */
export function redactPath(text: string): string {
  if (!URL.canParse(text)) return "***";
  const { origin, pathname, search } = new URL(text);
  const path = pathname.split("/").map((part) => (PATH_WORDS.has(part) ? part : "***"));
  const redacted = `${origin}${path.join("/")}${search === "" ? "" : "?***"}`;
  return redacted.includes("***") ? redacted : text;
}
