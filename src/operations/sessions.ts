import { createHash, randomBytes } from "node:crypto";
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Clock, Duration, Instant } from "../clock.ts";
import { GatewayError } from "../errors.ts";
import { isObject } from "../json.ts";
import type { Logger } from "../observe/log.ts";
import { isSame, type OperationsAccess } from "./access.ts";
import type { SessionAnswer } from "./answers.ts";
import { operatorOf } from "./audit.ts";
import { bodyOf } from "./request-body.ts";

/** From sign-in, however much it is used. */
const LIFETIME: Duration = 12 * 60 * 60 * 1_000;

/** Beyond so many the oldest ends: operators are few, and each sign-in took the token. */
const MAX_SESSIONS = 100;

/** The name of the cookie. Browsers give cookies of a host to all its ports: two gateways of a machine must not mix. */
function cookieName(port: number): string {
  return `registry_gateway_session_${port}`;
}

/** Who signed in to the console: a random secret in each one's cookie, of which only the digest is kept here. */
export class Sessions {
  private readonly clock: Clock;
  /** Digest → end, the oldest first. */
  private readonly ends = new Map<string, Instant>();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /**
   * Begins a session. Returns the `Set-Cookie` for it.
   *
   * @param port of the listener
   * @param isSecure the browser is to send it over TLS alone
   */
  begin(port: number, isSecure: boolean): string {
    const secret = randomBytes(32).toString("base64url");
    if (this.ends.size >= MAX_SESSIONS) this.ends.delete(this.ends.keys().next().value!);
    this.ends.set(digestOf(secret), this.clock.now() + LIFETIME);
    return cookie(port, secret, { isSecure, maxAge: LIFETIME / 1_000 });
  }

  /** When the session that a `Cookie` field names ends; undefined: it names none. */
  endOf(cookies: string | undefined, port: number): Instant | undefined {
    for (const secret of secretsIn(cookies, port)) {
      const end = this.ends.get(digestOf(secret));
      if (end !== undefined && this.clock.now() < end) return end;
    }
    return undefined;
  }

  /** Ends what a `Cookie` field names. Returns the `Set-Cookie` by which the browser forgets it. */
  end(cookies: string | undefined, port: number): string {
    for (const secret of secretsIn(cookies, port)) this.ends.delete(digestOf(secret));
    return cookie(port, "", { isSecure: false, maxAge: 0 });
  }
}

function cookie(
  port: number,
  value: string,
  { isSecure, maxAge }: { readonly isSecure: boolean; readonly maxAge: number },
): string {
  const fields = `${cookieName(port)}=${value}; Path=/; Max-Age=${maxAge}; HttpOnly; SameSite=Strict`;
  return isSecure ? `${fields}; Secure` : fields;
}

/** Another site of the same host may have planted one of the same name: all are looked at, and Node bounds the field. */
function secretsIn(cookies: string | undefined, port: number): string[] {
  const start = `${cookieName(port)}=`;
  const pairs = (cookies ?? "").split(";").map((pair) => pair.trim());
  return pairs.filter((pair) => pair.startsWith(start)).map((pair) => pair.slice(start.length));
}

/** What is looked up by its digest cannot be found out by the time that it takes. */
function digestOf(secret: string): string {
  return createHash("sha256").update(secret).digest("base64url");
}

/** So many wrong tokens in a row cost an address nothing: people mistype. */
const FREE_FAILURES = 5;
const FIRST_PAUSE: Duration = 500;
const LONGEST_PAUSE: Duration = 8_000;

/** An address that was quiet for so long begins anew. */
const FORGOTTEN_AFTER: Duration = 600_000;

/** Beyond so many the one that failed longest ago is forgotten. */
const MAX_ADDRESSES = 1_000;

interface Failures {
  readonly count: number;
  readonly last: Instant;
  readonly pausedUntil: Instant;
}

/** Slows down who tries tokens, by address: after a failure the next try is looked at only after a pause that grows. */
export class SignInPace {
  private readonly clock: Clock;
  private readonly failures = new Map<string, Failures>();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** @throws GatewayError 429 while the address is to pause: what it sent is not even compared */
  check(address: string): void {
    const { pausedUntil = -Infinity } = this.failures.get(networkOf(address)) ?? {};
    const left = pausedUntil - this.clock.now();
    if (left <= 0) return;
    const text = "too many sign-ins from this address failed: wait a little, then try again with the operations token";
    throw new GatewayError("too_many_sign_ins", text, { retryAfter: Math.ceil(left / 1_000) });
  }

  failed(address: string): void {
    const now = this.clock.now();
    const network = networkOf(address);
    const before = this.failures.get(network);
    const count = before !== undefined && now - before.last < FORGOTTEN_AFTER ? before.count + 1 : 1;
    const pause = count < FREE_FAILURES ? 0 : FIRST_PAUSE * 2 ** Math.min(10, count - FREE_FAILURES);
    // Put in anew: the map is in the order of the last failures.
    this.failures.delete(network);
    if (this.failures.size >= MAX_ADDRESSES) this.failures.delete(this.failures.keys().next().value!);
    this.failures.set(network, { count, last: now, pausedUntil: now + Math.min(pause, LONGEST_PAUSE) });
  }

  succeeded(address: string): void {
    this.failures.delete(networkOf(address));
  }
}

/** An IPv4 address, or the 64 bits of an IPv6 address that name a network: a host has all addresses of it. */
function networkOf(address: string): string {
  const plain = address.replace(/^::ffff:(?=\d+\.)/, "");
  if (!plain.includes(":")) return plain;
  const [head, tail] = plain.split("::").map((half) => half.split(":").filter((group) => group !== ""));
  const zeros = Array.from({ length: Math.max(0, 8 - head!.length - (tail?.length ?? 0)) }, () => "0");
  return [...head!, ...(tail === undefined ? [] : [...zeros, ...tail])].slice(0, 4).join(":");
}

interface SessionOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly version: string;
  readonly access: OperationsAccess;
}

/** `/session`: GET says how things are, POST signs in with the token, DELETE signs out. */
export function addSession(
  app: FastifyInstance,
  sessions: Sessions,
  { clock, log, version, access }: SessionOptions,
): void {
  const pace = new SignInPace(clock);
  const { token, isReadonly } = access;
  const answer = (end: Instant | undefined): SessionAnswer => ({
    signedIn: token === undefined || end !== undefined,
    tokenNeeded: token !== undefined,
    readonly: isReadonly,
    version,
    expiresAt: end === undefined ? null : new Date(clock.wallNow() + end - clock.now()).toISOString(),
  });
  app.get("/session", async ({ headers, raw }) => answer(sessions.endOf(headers.cookie, raw.socket.localPort ?? 0)));
  app.post("/session", async (request, reply) => {
    const { headers, raw } = request;
    const given = tokenOf(request);
    if (token === undefined) return answer(undefined);
    const { remoteAddress = "", localPort = 0 } = raw.socket;
    const { from } = operatorOf(raw, "console session");
    pace.check(remoteAddress);
    if (!isSame(given, token)) {
      pace.failed(remoteAddress);
      log.warn({ from }, "console sign-in refused");
      throw new GatewayError("unauthenticated", "this is not the operations token");
    }
    pace.succeeded(remoteAddress);
    log.info({ from }, "console sign-in");
    // Who lies about TLS hurts only their own session: the field can but narrow where the cookie is sent.
    const isSecure = headers["x-forwarded-proto"] === "https";
    sessions.end(headers.cookie, localPort);
    const cookie = sessions.begin(localPort, isSecure);
    const end = sessions.endOf(cookie, localPort);
    return reply.header("set-cookie", cookie).send(answer(end));
  });
  app.delete("/session", async ({ headers, raw }, reply) => {
    reply.header("set-cookie", sessions.end(headers.cookie, raw.socket.localPort ?? 0));
    return answer(undefined);
  });
}

/** @throws GatewayError 400 for a body of another form */
function tokenOf(request: FastifyRequest): string {
  const body = bodyOf(request);
  const isForm = isObject(body) && Object.keys(body).length === 1 && typeof body["token"] === "string";
  if (isForm) return body["token"] as string;
  throw new GatewayError(
    "invalid_request",
    'the sign-in is not valid: it is a JSON object with "token" alone, as text',
  );
}
