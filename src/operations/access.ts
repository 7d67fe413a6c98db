import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { addressKindOf } from "../clients/client-address.ts";
import type { Config } from "../config/schema.ts";
import { isLoopback } from "../config/urls.ts";
import { GatewayError } from "../errors.ts";
import type { Operator } from "./actions.ts";
import { type Identity, Operators } from "./operators.ts";

/** What a request for more than probes and metrics needs. */
export interface OperationsAccess {
  /** True when the listener can be reached from other machines. */
  readonly isExposed: boolean;
  /** Where there is a token it is needed, on loopback too. */
  readonly operators: Operators;
  /** Names it answers to besides `localhost` and IP addresses: lower case, without a dot at the end. */
  readonly hosts: readonly string[];
  /** Nothing may be changed from here. */
  readonly isReadonly: boolean;
}

/** @throws when the file of a token cannot be read */
export function accessOf(
  { operations }: Config,
  options: ConstructorParameters<typeof Operators>[1],
): OperationsAccess {
  const { host, hosts, readonly: isReadonly } = operations;
  return { isExposed: !isLoopback(host), operators: new Operators(operations, options), hosts, isReadonly };
}

/** By this field a script of the console's own page shows itself: no page of another origin can send it. */
const CONSOLE_FIELD = "x-registry-gateway-console";

/**
 * What a path is. `open`: for probes and Prometheus · `page`: the console's files, which hold no data · `session`:
 * signing in and out · `guarded`: everything else, and what is not there.
 */
export type PathKind = "open" | "page" | "session" | "guarded";

/** How a request showed that it may do something. */
export type Shown = "no token" | "operations token" | "console session";

/** What a request showed, and whose it is. */
export interface Credential {
  readonly shown: Shown;
  /** Undefined: no token is needed. */
  readonly identity: Identity | undefined;
}

export const NO_CREDENTIAL: Credential = { shown: "no token", identity: undefined };

/**
 * Checks that a request may do something here, and was not sent by a web page of another origin in the browser of
 * an operator. Returns what it showed.
 *
 * @param session whose session its cookie names
 * @throws GatewayError 421 for a `Host` that is not one of the listener's names: after DNS rebinding a page reaches
 * 127.0.0.1 by its own name; 403 for a page of another origin, for a cookie without the console's own field, and without
 * a token on an exposed listener; 401 for another token than the configured one, and without one
 */
export function checkAccess(
  headers: IncomingHttpHeaders,
  kind: PathKind,
  { isExposed, operators, hosts }: OperationsAccess,
  session: () => Identity | undefined,
): Credential {
  if (kind === "open") return NO_CREDENTIAL;
  const name = hostName(headers.host ?? "");
  if (isIP(name) === 0 && name !== "localhost" && !hosts.includes(name)) {
    throw new GatewayError(
      "misdirected_request",
      `this listener does not answer to the host ${JSON.stringify(name)}: ask it by localhost or an IP address, or ` +
        "add the name to operations.hosts",
    );
  }
  if (isOfAnotherOrigin(headers) && !(kind === "page" && isNavigation(headers))) {
    throw new GatewayError("forbidden", "this listener does nothing for web pages of another origin");
  }
  if (kind === "page") return NO_CREDENTIAL;
  const token = bearerOf(headers);
  if (headers.cookie !== undefined && token === undefined && headers[CONSOLE_FIELD] !== "1") {
    throw new GatewayError(
      "forbidden",
      "a cookie is taken from the console alone, which sends X-Registry-Gateway-Console: 1 with it: open /console/, or " +
        "ask without cookies",
    );
  }
  if (!operators.isTokenNeeded && isExposed) {
    throw new GatewayError(
      "forbidden",
      "this listener can be reached from other machines: configure operations.tokenFile or operations.tokens",
    );
  }
  if (kind === "session" || !operators.isTokenNeeded) return NO_CREDENTIAL;
  const signedIn = token === undefined ? session() : undefined;
  if (signedIn !== undefined) return { shown: "console session", identity: signedIn };
  const identity = token === undefined ? undefined : operators.find(token);
  if (identity !== undefined) return { shown: "operations token", identity };
  throw new GatewayError("unauthenticated", "this needs the operations token as bearer, or a session of the console");
}

/** The token that a request shows. Credentials of another scheme are for a proxy in front (RFC 9110 §11.1). */
function bearerOf({ authorization = "" }: IncomingHttpHeaders): string | undefined {
  return /^Bearer +(.+)$/i.exec(authorization)?.[1];
}

/** @throws GatewayError 403 where the listener is only to show, or the operator may only read */
export function checkMayAct({ isReadonly }: OperationsAccess, { identity }: Credential): void {
  if (identity?.isReadonly === true) {
    const text = `the operator ${identity.name} may read everything and change nothing: operations.tokens says readonly`;
    throw new GatewayError("forbidden", text);
  }
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

/** Somebody followed a link to the console: the page that has the link sees nothing of what comes. */
function isNavigation(headers: IncomingHttpHeaders): boolean {
  return headers["sec-fetch-mode"] === "navigate" && headers["sec-fetch-dest"] === "document";
}

/** Who sends a request that was let in, by name where there is one: no address and no secret, but which kind of either. */
export function operatorOf({ socket }: IncomingMessage, { shown, identity }: Credential): Operator {
  const by = identity?.name === undefined ? shown : `${identity.name} (${shown})`;
  return { by, from: addressKindOf(socket.remoteAddress ?? "") };
}
