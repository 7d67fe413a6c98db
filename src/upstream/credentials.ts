import type { Logger } from "pino";
import type { Clock, Wait } from "../clock.ts";
import type { UpstreamAuth } from "../config/schema.ts";
import type { Fields } from "../fields.ts";
import type { Operation } from "../spec/operations.ts";
import { OAuthToken } from "./oauth.ts";

/** The gateway's own credentials for one registry. They go to its nodes alone, and are never logged. */
export class Credentials {
  private readonly fixed: Fields;
  private readonly token: OAuthToken | undefined;
  /** The kind of request that the registry answered 401 last, until it takes one. */
  private refused: "info" | "call" | undefined;

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

  /** Notes the answer to a request that carried them. After a 401 the next call fetches another token, where it is one. */
  answered(operation: Operation, status: number): void {
    const kind = operation === "info" ? "info" : "call";
    if (status === 401) this.token?.refused();
    if (status === 401) this.refused = kind;
    // An info may be had without them: then it says nothing of why a call was refused.
    else if (kind === "call" || this.refused === "info") this.refused = undefined;
  }

  /** Why they are of no use, for people; undefined where all is well. */
  status(): string | undefined {
    return this.token?.fault ?? (this.refused === undefined ? undefined : "the registry refuses it (401)");
  }
}
