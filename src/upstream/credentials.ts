import type { Logger } from "pino";
import type { Clock, Wait } from "../clock.ts";
import type { UpstreamAuth } from "../config/schema.ts";
import type { Fields } from "../fields.ts";
import { OAuthToken } from "./oauth.ts";

/** The gateway's own credentials for one registry. They go to its nodes alone, and are never logged. */
export class Credentials {
  private readonly fixed: Fields;
  private readonly token: OAuthToken | undefined;

  private constructor(fixed: Fields, token?: OAuthToken) {
    this.fixed = fixed;
    this.token = token;
  }

  static create(auth: UpstreamAuth | undefined, parts: { clock: Clock; log: Logger }): Credentials {
    const { bearer, header, oauth2 } = auth ?? {};
    if (oauth2 !== undefined) return new Credentials([], new OAuthToken(oauth2, parts));
    if (header !== undefined) return new Credentials([header.name.toLowerCase(), header.value]);
    return new Credentials(bearer === undefined ? [] : ["authorization", `Bearer ${bearer}`]);
  }

  /**
   * The fields that carry them, names in lower case; none without `auth`.
   *
   * @throws GatewayError (in the promise) `upstream_credentials`, `upstream_timeout`, `client_gone`
   */
  fields(wait: Wait): Fields | Promise<Fields> {
    return this.token?.fields(wait) ?? this.fixed;
  }

  /** Notes that the registry answered 401: the next call fetches another token, where it is one. */
  refused(): void {
    this.token?.refused();
  }

  /** Why there are none, for people; undefined where all is well. */
  status(): string | undefined {
    return this.token?.fault;
  }
}
