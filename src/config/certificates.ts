import { X509Certificate } from "node:crypto";
import { CERTIFICATE, type TlsMaterial } from "./tls-files.ts";

/**
 * What a certificate is for. `listener`: shown to clients · `client_authority`: vouches for theirs · `client`: shown to an
 * upstream · `authority`: vouches for its nodes · `node`: shown by one of these · `redis`, `redis_authority`: the same for
 * Redis.
 */
export const CERTIFICATE_ROLES = [
  "listener",
  "client_authority",
  "client",
  "authority",
  "node",
  "redis",
  "redis_authority",
] as const;
export type CertificateRole = (typeof CERTIFICATE_ROLES)[number];

/** For `/status`: when the first of the certificates in one role ends. */
export interface CertificateStatus {
  readonly role: CertificateRole;
  /** A date and time (RFC 3339). */
  readonly expiresAt: string;
}

/** The own certificate and the authorities of what a handshake is made with. */
export function certificatesOf(
  material: TlsMaterial,
  own: CertificateRole,
  authorities: CertificateRole,
): readonly CertificateStatus[] {
  const found: CertificateStatus[] = [];
  if (material.cert !== undefined) found.push({ role: own, expiresAt: endOf(material.cert) });
  if (material.ca !== undefined) found.push({ role: authorities, expiresAt: endOf(material.ca) });
  return found;
}

/** Of several lists, each role once: with the first end. */
export function firstEnds(lists: readonly (readonly CertificateStatus[])[]): CertificateStatus[] {
  const byRole = new Map<CertificateRole, CertificateStatus>();
  for (const each of lists.flat()) {
    const other = byRole.get(each.role);
    if (other === undefined || each.expiresAt < other.expiresAt) byRole.set(each.role, each);
  }
  return [...byRole.values()];
}

function endOf(pem: string): string {
  return new Date(validityOf(pem).ends).toISOString();
}

/** When all of some certificates are valid; milliseconds since the Unix epoch. */
export interface Validity {
  readonly begins: number;
  readonly ends: number;
}

/** From when the last of the certificates in a PEM text begins until the first of them ends. */
export function validityOf(pem: string): Validity {
  const texts = pem.match(CERTIFICATE) ?? [];
  const all = texts.map((text) => new X509Certificate(text));
  return {
    begins: Math.max(...all.map(({ validFromDate }) => validFromDate.getTime())),
    ends: Math.min(...all.map(({ validToDate }) => validToDate.getTime())),
  };
}

/** Why a certificate is of no use at a time, as the rest of a sentence; undefined where it is valid then. */
export function findTimeFault({ begins, ends }: Validity, now: number): string | undefined {
  if (now >= ends) return `ended on ${new Date(ends).toISOString()}`;
  if (now < begins) return `does not begin before ${new Date(begins).toISOString()}`;
  return undefined;
}
