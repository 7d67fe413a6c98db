import type { Clock, Deadline, MaybePromise } from "../../clock.ts";
import { certificatesOf, type CertificateStatus, readTls, type TlsMaterial } from "../../config/certificates.ts";
import type { UpstreamConfig } from "../../config/schema.ts";
import { findSecretFault, findTokenFault, readSecret } from "../../config/secret.ts";
import type { FindFault } from "../../config/text-file.ts";
import { type FileWatcher, WatchedFiles } from "../../config/watched-files.ts";
import { GatewayError } from "../../errors.ts";
import type { Fields } from "../../fields.ts";
import { Recurrence } from "../../recurrence.ts";
import type { CredentialKey, CredentialLook } from "../observer.ts";
import { type OAuthConfig, OAuthToken } from "./oauth-token.ts";

/** The gateway's credentials for one upstream. They are sent to its nodes only and never logged. */
export interface Credentials {
  /** Lower-case name of the field that carries them. */
  readonly fieldName: string;
  /**
   * Name and value of that field.
   * @throws GatewayError (in the promise) when they cannot be had.
   */
  fields(until: Omit<Deadline, "late">): MaybePromise<Fields>;
  /** The upstream refused them: look whether there are newer ones. */
  distrust(): void;
  close(): void;
}

/** What the gateway shows to the nodes of one upstream: each goes on with what was good last. */
export interface OwnCredentials {
  /** Those of `auth`; undefined without it. */
  readonly auth: Credentials | undefined;
  /** For handshakes; an error where the files were never any good. */
  readonly tls: () => TlsMaterial | GatewayError;
  /** When what `tls` names ends. */
  certificates(): readonly CertificateStatus[];
  /** Something that is configured was never good: the upstream cannot be called. */
  readonly isLacking: boolean;
  /** Looks for changes no more. */
  close(): void;
  /** For those that take their place: see {@link WatchedFiles}. */
  readonly watches: { readonly secret: WatchedFiles<string> | undefined; readonly tls: WatchedFiles<TlsMaterial> };
}

export interface CredentialParts {
  readonly config: UpstreamConfig;
  readonly files: FileWatcher;
  /** Called at each reading: why what the key names is no good, or undefined; without secrets. */
  readonly onLook: (key: CredentialKey, fault: string | undefined) => void;
  /** What the upstream had before its configuration changed. */
  readonly previous: OwnCredentials | undefined;
}

/** Different faults of one key that are reported before it is good again. */
const MOST_FAULTS = 8;

/** What of the looks at an upstream's credentials is worth a line: a fault once, and that it is over. */
export function credentialLooks(clock: Clock): (key: CredentialKey, fault: string | undefined) => CredentialLook {
  const faults = new Map<CredentialKey, Recurrence>();
  return (key, fault) => {
    if (fault === undefined) return { fault, isNew: faults.delete(key) };
    const recurrence = faults.get(key) ?? new Recurrence(clock, { most: MOST_FAULTS });
    faults.set(key, recurrence);
    return { fault, isNew: recurrence.isDue(fault) };
  };
}

/** Opens what `auth` and `tls` name. What is no good is reported and looked at again; it never throws. */
export function openCredentials(parts: CredentialParts): OwnCredentials {
  const { config } = parts;
  const files = watchTls(parts);
  const tls = () => files.current ?? lacking(config, "tls");
  const secret = watchSecret(parts);
  return {
    auth: secret === undefined ? undefined : createAuth(parts, secret, tls),
    tls,
    certificates() {
      const material = files.current;
      return material === undefined ? [] : certificatesOf(material, "client", "authority");
    },
    get isLacking() {
      return files.current === undefined || (secret !== undefined && secret.current === undefined);
    },
    close() {
      files.close();
      secret?.close();
    },
    watches: { secret, tls: files },
  };
}

function createAuth(
  parts: CredentialParts,
  secret: WatchedFiles<string>,
  tls: OwnCredentials["tls"],
): Credentials | undefined {
  const { auth } = parts.config;
  if (auth?.oauth2 !== undefined) return tokenField(parts, auth.oauth2, { secret, tls });
  if (auth?.header !== undefined) return secretField(parts.config, auth.header.name.toLowerCase(), secret);
  return secretField(parts.config, "authorization", secret);
}

/** A 502 for calls that cannot be made. */
function lacking({ name }: UpstreamConfig, key: "auth" | "tls"): GatewayError {
  const text = `the gateway has no good credentials for upstream "${name}": look at the files of its ${key}`;
  return new GatewayError("upstream_credentials", `${text}; report it to the gateway's operator`, {
    proxyError: "proxy_configuration_error",
  });
}

function watchTls({ config, files, onLook, previous }: CredentialParts): WatchedFiles<TlsMaterial> {
  const { caFile, certFile, keyFile } = config.tls ?? {};
  return new WatchedFiles<TlsMaterial>({
    watcher: files,
    files: [caFile, certFile, keyFile].filter((file) => file !== undefined),
    read: () => readTls({ caFile, certFile, keyFile }),
    previous: previous?.watches.tls,
    onRead: (fault) => onLook("tls", fault),
  });
}

interface SecretSource {
  readonly key: CredentialKey;
  readonly value?: string | undefined;
  readonly file?: string | undefined;
  readonly findFault: FindFault;
}

function secretSource({ auth }: UpstreamConfig): SecretSource | undefined {
  if (auth?.header !== undefined) {
    const { value, valueFile: file } = auth.header;
    return { key: "auth.header.valueFile", value, file, findFault: findTokenFault };
  }
  if (auth?.oauth2 !== undefined) {
    const { clientSecret: value, clientSecretFile: file } = auth.oauth2;
    return { key: "auth.oauth2.clientSecretFile", value, file, findFault: findSecretFault };
  }
  if (auth === undefined) return undefined;
  const { bearerToken: value, bearerTokenFile: file } = auth;
  return { key: "auth.bearerTokenFile", value, file, findFault: findTokenFault };
}

function watchSecret({ config, files, onLook, previous }: CredentialParts): WatchedFiles<string> | undefined {
  const source = secretSource(config);
  if (source === undefined) return undefined;
  const { key, value, file, findFault } = source;
  return new WatchedFiles({
    watcher: files,
    files: file === undefined ? [] : [file],
    read: () => (file === undefined ? (value ?? "") : readSecret(file, findFault)),
    previous: file === undefined ? undefined : previous?.watches.secret,
    onRead: (fault) => onLook(key, fault),
  });
}

function secretField(config: UpstreamConfig, fieldName: string, secret: WatchedFiles<string>): Credentials {
  const prefix = config.auth?.header === undefined ? "Bearer " : "";
  return {
    fieldName,
    fields() {
      const { current } = secret;
      return current === undefined ? Promise.reject(lacking(config, "auth")) : [fieldName, `${prefix}${current}`];
    },
    distrust: () => secret.readNow(),
    close: () => undefined,
  };
}

function tokenField(
  { config, files, onLook }: CredentialParts,
  oauth: OAuthConfig,
  { secret, tls }: { readonly secret: WatchedFiles<string>; readonly tls: OwnCredentials["tls"] },
): Credentials {
  const token = new OAuthToken({
    upstream: config.name,
    oauth,
    secret() {
      if (secret.current === undefined) throw lacking(config, "auth");
      return secret.current;
    },
    tls: () => onlyAuthorities(tls()),
    httpProxy: config.httpProxy,
    clock: files.clock,
    onFetch: (fault) => onLook("auth.oauth2.tokenUrl", fault),
  });
  const toFields = (value: string): Fields => ["authorization", `Bearer ${value}`];
  return {
    fieldName: "authorization",
    fields(until) {
      const current = token.current(until);
      return current instanceof Promise ? current.then(toFields) : toFields(current);
    },
    distrust() {
      token.distrust();
      secret.readNow();
    },
    close: () => token.close(),
  };
}

/** A client certificate is for the registry, not for its login. */
function onlyAuthorities(tls: TlsMaterial | GatewayError): TlsMaterial | GatewayError {
  if (tls instanceof GatewayError) return tls;
  return tls.ca === undefined ? {} : { ca: tls.ca };
}
