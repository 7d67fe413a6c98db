import { readFileSync } from "node:fs";
import type { Clock } from "../clock.ts";
import type { UpstreamConfig } from "../config/schema.ts";
import { readSecret } from "../config/secret.ts";
import type { MaybePromise } from "../coordinator/coordinator.ts";
import { fieldValue } from "../fields.ts";
import type { Fields } from "../fields.ts";
import type { TlsMaterial } from "./link.ts";
import { OAuthToken } from "./oauth-token.ts";
import type { OAuthConfig } from "./oauth-token.ts";
import type { Patience } from "./patience.ts";
import { WatchedFiles } from "./watched-files.ts";

/** The gateway's credentials for one upstream. They are sent to its nodes only and never logged. */
export interface Credentials {
  /** Lower-case name of the field that carries them. */
  readonly fieldName: string;
  /**
   * Name and value of that field.
   * @throws GatewayError (in the promise) when they cannot be had.
   */
  fields(patience: Omit<Patience, "late">): MaybePromise<Fields>;
  /** The upstream refused them: look whether there are newer ones. */
  distrust(): void;
  close(): void;
}

/**
 * Whether a 401 or 403 to a request with these fields is about the gateway: it showed its own credentials, or its client
 * certificate. Where a client's Authorization went along, it is about the client.
 */
export function isOwnRefusal({ auth, tls, forwardAuthorization }: UpstreamConfig, clientFields: Fields): boolean {
  if (auth === undefined && tls?.certFile === undefined) return false;
  return !(forwardAuthorization && fieldValue(clientFields, "authorization") !== undefined);
}

interface CredentialParts {
  readonly config: UpstreamConfig;
  readonly clock: Clock;
  /** Without secrets. */
  readonly onFailure: (why: string) => void;
}

/**
 * The credentials that `auth` names; undefined without `auth`.
 * @throws when a secret file cannot be read.
 */
export function openCredentials(parts: CredentialParts): Credentials | undefined {
  const { auth } = parts.config;
  if (auth === undefined) return undefined;
  const bearer = auth.bearerToken ?? auth.bearerTokenFile;
  if (bearer !== undefined) {
    const secret = watchSecret(parts, auth.bearerToken, auth.bearerTokenFile);
    return secretField("authorization", secret, (token) => `Bearer ${token}`);
  }
  if (auth.header !== undefined) {
    const { name, value, valueFile } = auth.header;
    return secretField(name.toLowerCase(), watchSecret(parts, value, valueFile), (text) => text);
  }
  return auth.oauth2 === undefined ? undefined : tokenField(parts, auth.oauth2);
}

/** What a TLS handshake with the upstream's nodes uses, read anew when its files change. */
export function watchTls({ config, clock, onFailure }: CredentialParts): WatchedFiles<TlsMaterial> {
  const { caFile, certFile, keyFile } = config.tls ?? {};
  const read = (file: string | undefined) => (file === undefined ? undefined : readFileSync(file, "utf8"));
  return new WatchedFiles<TlsMaterial>({
    clock,
    files: [caFile, certFile, keyFile].filter((file) => file !== undefined),
    read: () => ({ ca: read(caFile), cert: read(certFile), key: read(keyFile) }),
    onFailure: () => onFailure("a file of tls cannot be read; the last good ones stay in use"),
  });
}

function watchSecret({ clock, onFailure }: CredentialParts, value?: string, file?: string): WatchedFiles<string> {
  return new WatchedFiles({
    clock,
    files: file === undefined ? [] : [file],
    read: () => (file === undefined ? (value ?? "") : readSecret(file)),
    onFailure: () => onFailure("a secret file of auth cannot be read; the last good secret stays in use"),
  });
}

function secretField(fieldName: string, secret: WatchedFiles<string>, write: (secret: string) => string): Credentials {
  const toFields = (value: string): Fields => [fieldName, write(value)];
  return {
    fieldName,
    fields() {
      const current = secret.current();
      return current instanceof Promise ? current.then(toFields) : toFields(current);
    },
    distrust: () => secret.distrust(),
    close: () => undefined,
  };
}

function tokenField(parts: CredentialParts, oauth: OAuthConfig): Credentials {
  const secret = watchSecret(parts, oauth.clientSecret, oauth.clientSecretFile);
  const { caFile } = parts.config.tls ?? {};
  const token = new OAuthToken({
    upstream: parts.config.name,
    oauth,
    secret: () => secret.current(),
    ca: caFile === undefined ? undefined : readFileSync(caFile, "utf8"),
    httpProxy: parts.config.httpProxy,
    clock: parts.clock,
    onFailure: parts.onFailure,
  });
  const toFields = (value: string): Fields => ["authorization", `Bearer ${value}`];
  return {
    fieldName: "authorization",
    fields(patience) {
      const current = token.current(patience);
      return current instanceof Promise ? current.then(toFields) : toFields(current);
    },
    distrust() {
      token.distrust();
      secret.distrust();
    },
    close: () => token.close(),
  };
}
