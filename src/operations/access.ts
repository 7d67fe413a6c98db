import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { isIP } from "node:net";
import type { Config } from "../config/schema.ts";
import { readSecret } from "../config/secret.ts";
import { isLoopback } from "../config/urls.ts";
import { GatewayError } from "../errors.ts";

/** What a request for more than probes and metrics needs. */
export interface OperationsAccess {
  /** True when the listener can be reached from other machines. */
  readonly isExposed: boolean;
  /** Needed where there is one, on loopback too. */
  readonly token: string | undefined;
  /** Names it answers to besides `localhost` and IP addresses: lower case, without a dot at the end. */
  readonly hosts: readonly string[];
  /** Nothing may be changed from here. */
  readonly isReadonly: boolean;
}

/** @throws when the file of the token cannot be read */
export function accessOf({ operations }: Config): OperationsAccess {
  const { host, hosts, token, tokenFile, readonly: isReadonly } = operations;
  const secret = tokenFile === undefined ? token : readSecret(tokenFile);
  return { isExposed: !isLoopback(host), token: secret, hosts, isReadonly };
}

/**
 * Checks that a request may do something here, and was not sent by a web page of another origin in the browser of
 * an operator.
 *
 * @throws GatewayError 421 for a `Host` that is none of the listener's names: after DNS rebinding a page reaches
 * 127.0.0.1 by its own name; 403 for a page of another origin, and without a token on an exposed listener; 401 for
 * another token than the configured one
 */
export function checkAccess(headers: IncomingHttpHeaders, { isExposed, token, hosts }: OperationsAccess): void {
  const name = hostName(headers.host ?? "");
  if (isIP(name) === 0 && name !== "localhost" && !hosts.includes(name)) {
    throw new GatewayError(
      "misdirected_request",
      `this listener does not answer to the host ${JSON.stringify(name)}: ask it by localhost or an IP address, or ` +
        "add the name to operations.hosts",
    );
  }
  if (isOfAnotherOrigin(headers)) {
    throw new GatewayError("forbidden", "this listener does nothing for web pages of another origin");
  }
  if (token !== undefined) checkToken(headers.authorization ?? "", token);
  else if (isExposed) {
    throw new GatewayError(
      "forbidden",
      "this listener can be reached from other machines: configure operations.tokenFile",
    );
  }
}

/** @throws GatewayError 403 where the listener is only to show */
export function checkMayAct({ isReadonly }: OperationsAccess): void {
  if (!isReadonly) return;
  throw new GatewayError(
    "forbidden",
    "operations.readonly is true: this listener changes nothing. Set it to false and start the gateway anew",
  );
}

/** The name in a `Host` field; of `[::1]:9090`, the address without brackets. */
function hostName(host: string): string {
  const name = host.replace(/:[0-9]*$/, "").toLowerCase();
  return name.startsWith("[") ? name.slice(1, -1) : name.replace(/\.$/, "");
}

/** What browsers say of the page that sends a request; other programs say neither. */
function isOfAnotherOrigin({ host = "", origin, "sec-fetch-site": site }: IncomingHttpHeaders): boolean {
  if (site !== undefined && site !== "same-origin" && site !== "none") return true;
  return origin !== undefined && URL.parse(origin)?.host !== URL.parse(`http://${host}`)?.host;
}

/** @throws GatewayError 401 for another token */
function checkToken(given: string, token: string): void {
  if (!isSame(given, `Bearer ${token}`))
    throw new GatewayError("unauthenticated", "this needs the operations token as bearer");
}

/** Compares digests: their length says nothing about the token, and comparing them takes the same time always. */
function isSame(one: string, other: string): boolean {
  const digest = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(one), digest(other));
}
