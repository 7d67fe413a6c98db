import {
  type Clock,
  type Deadline,
  type Duration,
  type Instant,
  withDeadline,
  type MaybePromise,
} from "../../clock.ts";
import type { AuthConfig } from "../../config/schema.ts";
import { type ErrorCode, GatewayError, isClientGone } from "../../errors.ts";
import type { RawAnswer } from "../wire/answer.ts";
import type { ConnectionTarget } from "../wire/socket.ts";
import { Connections } from "../wire/connections.ts";
import { fetchAnswer } from "../wire/awaited-answer.ts";
import { parseJson } from "../../json.ts";

export type OAuthConfig = NonNullable<AuthConfig["oauth2"]>;

/** An answer of a token endpoint is small. */
const MAX_ANSWER = 64 * 1024;
const FETCH_TIMEOUT: Duration = 10_000;
/** RFC 6749 §5.1 lets `expires_in` be left out. */
const DEFAULT_LIFETIME: Duration = 300_000;
/** One that ends at once is asked for no more often than this. */
const LEAST_LIFETIME: Duration = 1_000;
/** A token is refreshed after this share of its life, while the old one still serves. */
const REFRESH_AT = 0.8;
/** After a failure the token endpoint is left alone for so long. */
const COOL_DOWN: Duration = 1_000;
/** Refusals ask for a new token no more often: a registry may refuse single requests whatever the token. */
const RENEW_EVERY: Duration = 10_000;
/** Calls wait for a new token no longer than this while the refused one may still be good. */
const RENEWAL_WAIT: Duration = 1_000;

const FIELDS = [
  "accept",
  "application/json",
  "accept-encoding",
  "identity",
  "content-type",
  "application/x-www-form-urlencoded",
];

interface Token {
  readonly value: string;
  readonly refreshAt: Instant;
  readonly expiresAt: Instant;
}

interface TokenParts {
  readonly upstream: string;
  readonly oauth: OAuthConfig;
  /** The client secret as it is now. */
  readonly secret: () => string;
  readonly tls: ConnectionTarget["tls"];
  readonly httpProxy?: string | undefined;
  readonly clock: Clock;
  /** Called at each fetch: why it brought no token, or undefined. */
  readonly onFetch: (fault: string | undefined) => void;
}

/**
 * An access token by the client credentials grant (RFC 6749 §4.4): cached, fetched ahead of its end, one fetch for all
 * who wait. The secret goes to the token endpoint only, as HTTP Basic authentication (§2.3.1).
 */
export class OAuthToken {
  private readonly parts: TokenParts;
  private readonly url: URL;
  private readonly connections: Connections;
  private token: Token | undefined;
  private fetching: Promise<Token> | undefined;
  private failure: { readonly error: GatewayError; readonly until: Instant } | undefined;
  /** The upstream refused the token: a new one is to take its place. */
  private isRefused = false;
  private renewableAt: Instant = -Infinity;

  constructor(parts: TokenParts) {
    this.parts = parts;
    this.url = new URL(parts.oauth.tokenUrl);
    this.connections = new Connections(
      {
        origin: this.url.origin,
        connectTimeout: FETCH_TIMEOUT,
        httpProxy: parts.httpProxy,
        tls: parts.tls,
      },
      parts.clock,
    );
  }

  /**
   * The access token.
   * @throws {@link GatewayError} 502 or 504 (in the promise) when none can be had.
   */
  current(until: Omit<Deadline, "late">): MaybePromise<string> {
    const now = this.parts.clock.now();
    const token = this.token !== undefined && now < this.token.expiresAt ? this.token : undefined;
    if (token !== undefined && !this.isRefused) {
      if (now >= token.refreshAt) this.fetch().catch(() => undefined);
      return token.value;
    }
    const late = () => this.error("did not answer in time", "upstream_timeout");
    const deadline = token === undefined ? until.deadline : Math.min(until.deadline, now + RENEWAL_WAIT);
    const fetched = withDeadline(this.fetch(), { ...until, deadline, late }, this.parts.clock).then(
      ({ value }) => value,
    );
    if (token === undefined) return fetched;
    // Single requests may be refused for reasons of their own: without a new token the old one goes on.
    return fetched.catch((error: unknown) => {
      if (isClientGone(error)) throw error;
      this.isRefused = false;
      return token.value;
    });
  }

  /** The upstream refused the token: the next call asks for another one, at most once in 10 s. */
  distrust(): void {
    const now = this.parts.clock.now();
    if (this.token === undefined || now < this.renewableAt) return;
    this.renewableAt = now + RENEW_EVERY;
    this.isRefused = true;
  }

  close(): void {
    this.connections.close();
  }

  private fetch(): Promise<Token> {
    if (this.fetching !== undefined) return this.fetching;
    if (this.failure !== undefined && this.parts.clock.now() < this.failure.until) {
      return Promise.reject(this.failure.error);
    }
    this.fetching = this.fetchAnew().finally(() => {
      this.fetching = undefined;
    });
    return this.fetching;
  }

  private async fetchAnew(): Promise<Token> {
    try {
      const token = readToken(await this.request(), this.parts.clock.now());
      if (token === undefined) throw this.error("gave no access token");
      this.token = token;
      this.isRefused = false;
      this.failure = undefined;
      this.parts.onFetch(undefined);
      return token;
    } catch (reason) {
      const error = reason instanceof GatewayError ? reason : this.error("failed");
      this.failure = { error, until: this.parts.clock.now() + COOL_DOWN };
      this.parts.onFetch(error.message);
      throw error;
    }
  }

  private async request(): Promise<RawAnswer> {
    const { clientId, scope, audience } = this.parts.oauth;
    const form = new URLSearchParams({ grant_type: "client_credentials" });
    if (scope !== undefined) form.set("scope", scope);
    if (audience !== undefined) form.set("audience", audience);
    const { clock, upstream } = this.parts;
    const basic = `${encodeURIComponent(clientId)}:${encodeURIComponent(this.parts.secret())}`;
    const request = {
      method: "POST",
      path: `${this.url.pathname}${this.url.search}`,
      fields: [...FIELDS, "authorization", `Basic ${Buffer.from(basic).toString("base64")}`],
      body: Buffer.from(form.toString()),
    } as const;
    const deadline = clock.now() + FETCH_TIMEOUT;
    const answer = await fetchAnswer(this.connections, request, { clock, upstream, maxBody: MAX_ANSWER, deadline });
    if (!("reason" in answer)) {
      if (answer.status === 200) return answer;
      throw this.error(`answered ${answer.status}${readErrorCode(answer)}`);
    }
    if (answer.reason === "timeout") throw this.error("did not answer in time", "upstream_timeout");
    throw this.error(`failed (${answer.reason})`);
  }

  private error(text: string, code: ErrorCode = "upstream_credentials"): GatewayError {
    const what = `the gateway has no credentials for upstream "${this.parts.upstream}": their token endpoint ${text}`;
    return new GatewayError(code, `${what}; report it to the gateway's operator`);
  }
}

function readObject({ body }: RawAnswer): object | undefined {
  const json = parseJson(body.toString("utf8"));
  return typeof json === "object" && json !== null ? json : undefined;
}

/** The code of an error answer, such as ` (invalid_client)` (RFC 6749 §5.2); nothing where it has none. */
function readErrorCode(answer: RawAnswer): string {
  const { error } = (readObject(answer) ?? {}) as { error?: unknown };
  return typeof error === "string" && /^[a-z_]{1,40}$/.test(error) ? ` (${error})` : "";
}

function readToken(answer: RawAnswer, now: Instant): Token | undefined {
  const json = readObject(answer);
  if (json === undefined) return undefined;
  const { access_token: value, expires_in: seconds } = json as { access_token?: unknown; expires_in?: unknown };
  // What is no field value would break the requests it is sent with.
  if (typeof value !== "string" || !/^[\x21-\x7e]+$/.test(value)) return undefined;
  // Some endpoints send it as text.
  const stated = typeof seconds === "string" ? Number.parseFloat(seconds) : seconds;
  const isStated = typeof stated === "number" && Number.isFinite(stated);
  const lifetime = isStated ? Math.max(stated * 1_000, LEAST_LIFETIME) : DEFAULT_LIFETIME;
  return { value, refreshAt: now + lifetime * REFRESH_AT, expiresAt: now + lifetime };
}
