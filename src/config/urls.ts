/**
 * The base of one node of a registry, to which paths that begin `/registry/` are appended: scheme, host, port and base
 * path, without a trailing slash or `/registry`, credentials, query or fragment.
 */
export type NodeUrl = string;

const HTTP = ["http:", "https:"];
const REDIS = ["redis:", "rediss:"];

/** Why something is not a URL of the wanted kind; undefined when it is. */
function findFault(text: string, protocols: readonly string[]): string | undefined {
  if (!URL.canParse(text)) return `is not a URL: write it in full, such as ${protocols.at(-1)}//host`;
  const url = new URL(text);
  if (!protocols.includes(url.protocol)) return `must begin with ${protocols.map((name) => `${name}//`).join(" or ")}`;
  if (url.hostname === "") return "names no host";
  if (text.includes("#")) return "must have no fragment (#…)";
  return undefined;
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

/** What keeps `text` from being the address of an HTTP proxy; credentials are allowed. */
export function findProxyFault(text: string): string | undefined {
  const fault = findFault(text, HTTP);
  if (fault !== undefined) return fault;
  const { pathname, search } = new URL(text);
  return pathname !== "/" || search !== "" ? "must be scheme, host and port only" : undefined;
}

/** What keeps `text` from being the address of a Redis server; credentials are allowed. */
export function findRedisFault(text: string): string | undefined {
  return findFault(text, REDIS);
}

/** `text` with the credentials of its authority replaced by `***`. */
export function redactUrl(text: string): string {
  if (!URL.canParse(text)) return "***";
  const { username, password } = new URL(text);
  if (username === "" && password === "") return text;
  const user = password === "" ? "***" : `${username}:***`;
  return text.replace(/^([a-z]+:\/\/)[^/?#]*@/i, `$1${user}@`);
}
