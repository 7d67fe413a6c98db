import type { X509Certificate } from "node:crypto";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import type { Clock } from "../clock.ts";
import type { ClientsConfig } from "../config/schema.ts";
import { digestOf } from "../digest.ts";
import { GatewayError } from "../errors.ts";
import { type Identity, isClientName, type Tier } from "./client.ts";

export type CertificateName = NonNullable<ClientsConfig["certificates"]>["name"];

// Made once: they say nothing of a certificate.
const UNTRUSTED = new GatewayError(
  "credential_invalid",
  "the client certificate is not of an authority that this gateway trusts, or is not valid: use another, or none",
);
const EXPIRED = new GatewayError("credential_expired", "the client certificate has expired: connect with a new one");
const NO_NAME = new GatewayError(
  "credential_invalid",
  "the client certificate does not name a client as this gateway expects it: with one common name, or a first " +
    "alternative name that is a DNS name, URI or e-mail address; ask the gateway's operator which",
);

/** Whom the certificate of a connection names. */
interface Shown {
  readonly identity: Identity | undefined;
  /** Milliseconds since the Unix epoch: connections may outlive certificates. */
  readonly expiresAt: number;
}

const NONE: Shown = { identity: undefined, expiresAt: Infinity };

/** How certificates name clients, and what these may do. */
export interface CertificateOptions {
  readonly name: CertificateName;
  readonly tier: Tier;
  readonly clock: Clock;
}

/** The clients that show a certificate on their connection. Each is of one tier. */
export class CertificateClients {
  readonly options: CertificateOptions;
  private readonly bySocket = new WeakMap<Socket, Shown>();

  constructor(options: CertificateOptions) {
    this.options = options;
  }

  /**
   * Whom the certificate names that came with a connection; undefined where none came. It is looked at once for each
   * connection: callers hand in the same object for all requests of one.
   */
  at(socket: Socket): Identity | undefined {
    const { identity, expiresAt } = this.bySocket.get(socket) ?? this.look(socket);
    return this.options.clock.wallNow() < expiresAt ? identity : EXPIRED;
  }

  private look(socket: Socket): Shown {
    const shown = this.read(socket);
    this.bySocket.set(socket, shown);
    return shown;
  }

  private read(socket: Socket): Shown {
    // A reload may name certificates together with the TLS of the listener, which begins at the next start.
    if (!(socket instanceof TLSSocket)) return NONE;
    const certificate = socket.getPeerX509Certificate();
    if (certificate === undefined) return NONE;
    if (!socket.authorized) return { identity: UNTRUSTED, expiresAt: Infinity };
    return { identity: this.identityOf(certificate), expiresAt: certificate.validToDate.getTime() };
  }

  private identityOf(certificate: X509Certificate): Identity {
    const { tier } = this.options;
    const name = certificateName(certificate, this.options.name);
    return name === undefined ? NO_NAME : { kind: "certificate", name, tier, id: `certificate:${digestOf(name)}` };
  }
}

/** The name that a certificate gives its holder; undefined where it gives none, several, or one that is no name. */
export function certificateName(certificate: X509Certificate, kind: CertificateName): string | undefined {
  const name = kind === "cn" ? commonName(certificate) : firstAlternativeName(certificate.subjectAltName ?? "");
  return name !== undefined && isClientName(name) ? name : undefined;
}

/** Read from the fields, not from the text of the subject, in which a value could look like another field. */
function commonName(certificate: X509Certificate): string | undefined {
  const { subject } = certificate.toLegacyObject();
  const name: unknown = subject?.CN;
  // Several are a list: they could be read in more than one way.
  return typeof name === "string" ? name : undefined;
}

/** An entry of alternative names, such as `DNS:a.example`, from where the one before ended. */
const ENTRY = /([A-Za-z ]+):("(?:[^"\\]|\\.)*"|[^",]*)(?:, |$)/y;

/**
 * The first DNS name, URI or e-mail address; others, such as addresses, are passed over. Node puts a value into quotes that
 * could be read as several entries: such a name is left out.
 */
function firstAlternativeName(text: string): string | undefined {
  ENTRY.lastIndex = 0;
  while (ENTRY.lastIndex < text.length) {
    const [, type, value] = ENTRY.exec(text) ?? [];
    if (type === undefined || value === undefined) return undefined;
    if (type === "DNS" || type === "URI" || type === "email") return value.startsWith('"') ? undefined : value;
  }
  return undefined;
}
