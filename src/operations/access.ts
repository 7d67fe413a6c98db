import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { isIP } from "node:net";
import type { OperationsConfig, OperationsToken } from "../config/schema.ts";
import { isLoopback } from "../config/urls.ts";
import { GatewayError } from "../errors.ts";
import { quote } from "../json.ts";

/** The operator who asks: named in the log line of a purge. */
export interface Operator {
  readonly name: string;
  readonly isReadonly: boolean;
}

/** The operator where there are no tokens: who reaches a listener on loopback works on this machine. */
const LOCAL: Operator = { name: "local", isReadonly: false };

/** Part of the listener that a path is in: the console is the only one that a link of another page may lead to. */
export type Area = "console" | "data";

/**
 * Says who asks, or refuses. Probes and metrics are not asked for anything.
 *
 * @param config `host` as the listener was bound to, `hosts` and `tokens` of the running configuration
 * @throws GatewayError 421 for a `Host` that is none of the listener's: after DNS rebinding a page reaches 127.0.0.1 by its own
 * name; 403 for what a page of another origin sends, and beyond loopback where no token is configured; 401
 */
export function checkAccess(
  { method, headers, area }: { readonly method: string; readonly headers: IncomingHttpHeaders; readonly area: Area },
  config: OperationsConfig,
): Operator {
  const name = hostName(headers.host ?? "");
  if (isIP(name) === 0 && name !== "localhost" && !config.hosts.some((host) => host.toLowerCase() === name)) {
    const remedy = "ask it by localhost or an IP address, or add the name to operations.hosts";
    throw new GatewayError(
      "misdirected_request",
      `this listener does not answer to the host ${quote(name)}: ${remedy}`,
    );
  }
  const isLinked = method === "GET" && area === "console" && headers["sec-fetch-mode"] === "navigate";
  if (isOfAnotherOrigin(headers) && !isLinked) {
    throw new GatewayError("forbidden", "this listener does nothing for web pages of another origin");
  }
  const { tokens = [] } = config;
  if (tokens.length === 0 && isLoopback(config.host)) return LOCAL;
  if (tokens.length === 0) {
    const text = "this listener can be reached from other machines and has no tokens: configure operations.tokens";
    throw new GatewayError("forbidden", text);
  }
  const operator = operatorOf(headers.authorization ?? "", tokens);
  if (operator !== undefined) return operator;
  const text = "show an operator's token: as Basic (the operator's name and the token) or as Bearer";
  throw new GatewayError("unauthenticated", text);
}

/** @throws GatewayError 403 where the operator may read alone */
export function checkMayChange({ name, isReadonly }: Operator): void {
  if (!isReadonly) return;
  throw new GatewayError("forbidden", `the operator ${quote(name)} may read everything and change nothing`);
}

/** Credentials of other schemes are for a proxy in front (RFC 9110 §11.1). */
function operatorOf(authorization: string, tokens: readonly OperationsToken[]): Operator | undefined {
  const [scheme = "", shown = ""] = authorization.split(/ +/, 2);
  if (/^bearer$/i.test(scheme)) return find(tokens, shown, undefined);
  if (!/^basic$/i.test(scheme)) return undefined;
  const text = Buffer.from(shown, "base64").toString();
  const colon = text.indexOf(":");
  return colon === -1 ? undefined : find(tokens, text.slice(colon + 1), text.slice(0, colon));
}

/** All are compared, by their digests: how long it takes says nothing of any of them. */
function find(tokens: readonly OperationsToken[], shown: string, name: string | undefined): Operator | undefined {
  const digest = digestOf(shown);
  let found: OperationsToken | undefined;
  for (const token of tokens) {
    const isSame = timingSafeEqual(digestOf(token.token), digest);
    if (isSame && (name === undefined || name === token.name)) found ??= token;
  }
  return found === undefined ? undefined : { name: found.name, isReadonly: found.readonly };
}

function digestOf(token: string): Buffer {
  return createHash("sha256").update(token).digest();
}

/** The name in a `Host` field; of `[::1]:9090`, the address without brackets. */
function hostName(host: string): string {
  const name = host.replace(/:[0-9]{0,5}$/, "").toLowerCase();
  return name.startsWith("[") ? name.slice(1, -1) : name.replace(/\.$/, "");
}

/** Whether a page of another origin sends the request, as browsers say; other programs say nothing of it. */
function isOfAnotherOrigin({ host = "", origin, "sec-fetch-site": site }: IncomingHttpHeaders): boolean {
  if (site !== undefined && site !== "same-origin" && site !== "none") return true;
  return origin !== undefined && (URL.parse(origin)?.host ?? "") !== URL.parse(`http://${host}`)?.host;
}
