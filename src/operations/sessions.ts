import { createHash, randomBytes } from "node:crypto";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { clientAddressOf } from "../clients/client-address.ts";
import type { Clock, Duration, Instant } from "../clock.ts";
import { GatewayError } from "../errors.ts";
import { isObject } from "../json.ts";
import type { Logger } from "../observe/log.ts";
import { NO_CREDENTIAL, type OperationsAccess, operatorOf } from "./access.ts";
import type { SessionAnswer } from "./answers.ts";
import type { Identity, Operators } from "./operators.ts";
import { bodyOf } from "./request.ts";

/** From sign-in, however much it is used. */
const LIFETIME: Duration = 12 * 60 * 60 * 1_000;

/** Beyond this number the oldest ends: operators are few, and each sign-in took the token. */
const MAX_SESSIONS = 100;

/** The name of the cookie. Browsers give cookies of a host to all its ports: two gateways of a machine must not mix. */
function cookieName(port: number): string {
  return `registry_gateway_session_${port}`;
}

/** A session that goes on. */
interface Session {
  readonly end: Instant;
  readonly identity: Identity;
}

/**
 * Who signed in to the console: a random secret in each one's cookie, of which only the digest is kept here. A session
 * ends with its token: when that is another in its file, or configured no more.
 */
export class Sessions {
  private readonly clock: Clock;
  private readonly operators: Operators;
  /** Digest of its secret → session, the oldest first. */
  private readonly sessions = new Map<string, { readonly end: Instant; readonly tokenDigest: Buffer }>();

  constructor(clock: Clock, operators: Operators) {
    this.clock = clock;
    this.operators = operators;
  }

  /**
   * Begins a session. Returns the `Set-Cookie` for it.
   *
   * @param identity whose it is
   * @param port of the listener
   * @param isSecure the browser is to send it over TLS alone
   */
  begin({ digest: tokenDigest }: Identity, port: number, isSecure: boolean): string {
    const secret = randomBytes(32).toString("base64url");
    if (this.sessions.size >= MAX_SESSIONS) this.sessions.delete(this.sessions.keys().next().value!);
    this.sessions.set(digestOf(secret), { end: this.clock.now() + LIFETIME, tokenDigest });
    return cookie(port, secret, { isSecure, maxAge: LIFETIME / 1_000 });
  }

  /** The session that a `Cookie` field names; undefined: it names no session that goes on. */
  find(cookies: string | undefined, port: number): Session | undefined {
    for (const secret of secretsIn(cookies, port)) {
      const session = this.sessions.get(digestOf(secret));
      if (session === undefined || this.clock.now() >= session.end) continue;
      const identity = this.operators.findDigest(session.tokenDigest);
      if (identity !== undefined) return { end: session.end, identity };
    }
    return undefined;
  }

  /** Ends what a `Cookie` field names. Returns the `Set-Cookie` by which the browser forgets it. */
  end(cookies: string | undefined, port: number): string {
    for (const secret of secretsIn(cookies, port)) this.sessions.delete(digestOf(secret));
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

/** Wrong tokens in a minute that cost an address nothing: people mistype. */
const FREE_FAILURES = 5;
const FREE_FAILURES_OF_ALL = 100;
const FAILURE_WINDOW: Duration = 60_000;

/** Counts wrong tokens, by address and in all. The right token is never held up: guesses cost only the address that makes them. */
export class SignInFailures {
  private readonly clock: Clock;
  private readonly byBlock = new Map<string, number>();
  private total = 0;
  private endsAt: Instant = -Infinity;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** @throws GatewayError 429 for one too many in this minute */
  count(address: string): void {
    const now = this.clock.now();
    if (now >= this.endsAt) {
      this.byBlock.clear();
      this.total = 0;
      this.endsAt = now + FAILURE_WINDOW;
    }
    const { block } = clientAddressOf(address);
    const count = (this.byBlock.get(block) ?? 0) + 1;
    this.total += 1;
    if (count <= FREE_FAILURES && this.total <= FREE_FAILURES_OF_ALL) {
      this.byBlock.set(block, count);
      return;
    }
    const text = "too many sign-ins with a wrong token: wait a little, then try again with the operations token";
    throw new GatewayError("too_many_sign_ins", text, { retryAfter: Math.ceil((this.endsAt - now) / 1_000) });
  }
}

interface SessionOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly version: string;
  readonly access: OperationsAccess;
}

/** In bytes: a token, as JSON. */
const SIGN_IN_BYTES = 512;

/** `/session`: GET says how things are, POST signs in with the token, DELETE signs out. */
export function addSession(
  app: FastifyInstance,
  sessions: Sessions,
  { clock, log, version, access }: SessionOptions,
): void {
  const failures = new SignInFailures(clock);
  const { operators, isReadonly } = access;
  const answer = (session: Session | undefined): SessionAnswer => ({
    signedIn: !operators.isTokenNeeded || session !== undefined,
    tokenNeeded: operators.isTokenNeeded,
    operator: session?.identity.name ?? null,
    readonly: isReadonly || session?.identity.isReadonly === true,
    version,
    expiresAt: session === undefined ? null : new Date(clock.wallNow() + session.end - clock.now()).toISOString(),
  });
  app.get("/session", async ({ headers, raw }) => answer(sessions.find(headers.cookie, raw.socket.localPort ?? 0)));
  app.post("/session", { bodyLimit: SIGN_IN_BYTES }, async (request, reply) => {
    const { headers, raw } = request;
    const given = tokenOf(request);
    if (!operators.isTokenNeeded) return answer(undefined);
    const { remoteAddress = "", localPort = 0 } = raw.socket;
    // Compared first: the right token is never held up by another address's guesses.
    const identity = operators.find(given);
    if (identity === undefined) {
      failures.count(remoteAddress);
      log.warn({ from: operatorOf(raw, NO_CREDENTIAL).from }, "console sign-in refused");
      throw new GatewayError("unauthenticated", "this is not the operations token");
    }
    log.warn({ ...operatorOf(raw, { shown: "operations token", identity }) }, "console sign-in");
    // Who lies about TLS hurts only their own session: the field can but narrow where the cookie is sent.
    const isSecure = headers["x-forwarded-proto"] === "https";
    sessions.end(headers.cookie, localPort);
    const cookie = sessions.begin(identity, localPort, isSecure);
    return reply.header("set-cookie", cookie).send(answer(sessions.find(cookie, localPort)));
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
