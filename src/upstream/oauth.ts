import * as oauth from "oauth4webapi";
import type { Logger } from "pino";
import { Collector } from "../bodies/collect.ts";
import { type Clock, type Duration, type Instant, type Wait, withDeadline } from "../clock.ts";
import type { UpstreamAuth } from "../config/schema.ts";
import { GatewayError } from "../errors.ts";
import type { Fields } from "../fields.ts";

const FETCH_WITHIN: Duration = 10_000;
/** An answer of a token endpoint is small. */
const LARGEST_ANSWER = 64 * 1024;
/** RFC 6749 §5.1 lets `expires_in` be left out. */
const USUAL_LIFE: Duration = 300_000;
/** Share of its life after which a token is renewed, while the old one still serves. */
const RENEW_AT = 0.8;
/** Time for which the token endpoint is left alone after a failure. */
const PAUSE: Duration = 1_000;
/** Least age of a token that a 401 ends: a registry may refuse single requests whatever the token. */
const YOUNGEST_REFUSED: Duration = 10_000;

type Config = NonNullable<UpstreamAuth["oauth2"]>;
type FetchOptions = oauth.CustomFetchOptions<string, URLSearchParams>;
type Token = { readonly fields: Fields; readonly since: Instant; readonly life: Duration };

/** An access token by the client credentials grant (RFC 6749 §4.4): renewed before it ends, one fetch for all who wait. */
export class OAuthToken {
  private readonly config: Config;
  private readonly clock: Clock;
  private readonly log: Logger;
  private token: Token | undefined;
  private lastFault: string | undefined;
  private fetching: Promise<Token> | undefined;
  private pausedUntil: Instant = -Infinity;

  constructor(config: Config, { clock, log }: { clock: Clock; log: Logger }) {
    this.config = config;
    this.clock = clock;
    this.log = log;
  }

  /** Why there is none, for people, without hosts; undefined while one is valid. */
  get fault(): string | undefined {
    return this.age() < (this.token?.life ?? 0) ? undefined : this.lastFault;
  }

  /** The fields that carry it. @throws GatewayError (in the promise) where none can be had, or not in time */
  fields(wait: Wait): Fields | Promise<Fields> {
    const { token } = this;
    const age = this.age();
    if (token === undefined || age >= token.life) {
      return withDeadline(this.fetch(), wait, late, this.clock).then(({ fields }) => fields);
    }
    if (age >= token.life * RENEW_AT) this.fetch().catch(() => {});
    return token.fields;
  }

  /** Notes a 401: the next call fetches another token. */
  refused(): void {
    if (this.age() >= YOUNGEST_REFUSED) this.token = undefined;
  }

  private age(): Duration {
    return this.token === undefined ? Infinity : this.clock.now() - this.token.since;
  }

  private fetch(): Promise<Token> {
    if (this.clock.now() < this.pausedUntil) return Promise.reject(cannotBeHad());
    this.fetching ??= this.ask().finally(() => (this.fetching = undefined));
    return this.fetching;
  }

  private async ask(): Promise<Token> {
    const ending = new AbortController();
    const cancel = this.clock.after(FETCH_WITHIN, () => ending.abort());
    try {
      this.token = tokenOf(await this.request(ending.signal), this.clock.now());
      if (this.lastFault !== undefined) this.log.info("an OAuth2 token can be had again");
      this.lastFault = undefined;
      return this.token;
    } catch (error) {
      const fault = `the token endpoint ${faultOf(error)}`;
      if (fault !== this.lastFault) this.log.warn(`no OAuth2 token can be had: ${fault}`);
      this.lastFault = fault;
      this.pausedUntil = this.clock.now() + PAUSE;
      throw cannotBeHad();
    } finally {
      cancel();
    }
  }

  private async request(signal: AbortSignal): Promise<oauth.TokenEndpointResponse> {
    const { tokenUrl, clientId, clientSecret, scope, audience } = this.config;
    const server = { issuer: tokenUrl, token_endpoint: tokenUrl };
    const client = { client_id: clientId };
    const secret = oauth.ClientSecretBasic(clientSecret);
    const form = { ...(scope !== undefined && { scope }), ...(audience !== undefined && { audience }) };
    // `http://` is the operator's choice, for a token endpoint on the same machine.
    const options = { signal, [oauth.customFetch]: fetchBounded, [oauth.allowInsecureRequests]: true };
    const answer = await oauth.clientCredentialsGrantRequest(server, client, secret, form, options);
    return oauth.processClientCredentialsResponse(server, client, answer);
  }
}

/** Fetches for oauth4webapi; an answer that is too large is not read any further. */
async function fetchBounded(url: string, { signal, ...request }: FetchOptions): Promise<Response> {
  const { body, status, headers } = await fetch(url, { ...request, signal: signal ?? null });
  const collector = new Collector({ limit: LARGEST_ANSWER });
  try {
    for await (const chunk of body ?? []) if (collector.add(Buffer.from(chunk)) !== undefined) throw new RangeError();
    return new Response(Buffer.from(collector.body()), { status, headers });
  } finally {
    collector.release();
  }
}

function tokenOf({ access_token: value, expires_in: seconds }: oauth.TokenEndpointResponse, since: Instant): Token {
  // What is no field value would break the requests that carry it.
  if (!/^[\x21-\x7e]{1,8192}$/.test(value)) throw new SyntaxError("no token");
  const life = seconds === undefined ? USUAL_LIFE : Math.max(seconds, 1) * 1_000;
  return { fields: ["authorization", `Bearer ${value}`], since, life };
}

/** Says what went wrong: of an answer its status alone, and a code in the form of RFC 6749 §5.2. */
function faultOf(error: unknown): string {
  const { status, error: code = "", cause } = error as Partial<oauth.ResponseBodyError>;
  const answered = status ?? (cause instanceof Response ? cause.status : 200);
  if (answered !== 200) return `answered ${answered}${/^[a-z_]{1,40}$/.test(code.slice(0, 41)) ? ` (${code})` : ""}`;
  if (error instanceof RangeError) return "gave an answer of more than 64 KiB";
  if (error instanceof DOMException) return "did not answer in time";
  return error instanceof TypeError ? "cannot be reached" : "gave no access token";
}

function late(): GatewayError {
  return new GatewayError("upstream_timeout", "the gateway's credentials for this registry did not come in time");
}

function cannotBeHad(): GatewayError {
  const text = "the gateway's credentials for this registry cannot be had; report it to the gateway's operator";
  return new GatewayError("upstream_credentials", text);
}
