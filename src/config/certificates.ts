import { X509Certificate } from "node:crypto";
import { createSecureContext } from "node:tls";
import { FileFault, type FindFault, readGoodFile } from "./text-file.ts";

/** PEM texts for a TLS handshake. */
export interface TlsMaterial {
  /** Trusted instead of the system's authorities. */
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
}

/** The files of a `tls` group. */
export interface TlsFiles {
  readonly caFile?: string | undefined;
  readonly certFile?: string | undefined;
  readonly keyFile?: string | undefined;
}

/** The certificates in a PEM text, which may hold keys, parameters and lists of revoked ones besides. */
const CERTIFICATE =
  /-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----[^-]*(-----END (?:TRUSTED |X509 )?CERTIFICATE-----)?/g;

/** What is wrong with the PEM text of certificates, as the rest of a sentence; undefined when it is good. */
export function findCertificateFault(pem: string): string | undefined {
  const found = [...pem.matchAll(CERTIFICATE)];
  if (found.length === 0) return "holds no certificate (PEM)";
  if (found.some(([, end]) => end === undefined)) return "ends within a certificate";
  return found.every(([text]) => isCertificate(text)) ? undefined : "holds a certificate that cannot be read";
}

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).raw.length > 0;
  } catch {
    return false;
  }
}

/** What is wrong with the PEM text of a key, seen alone. */
export function findKeyFault(pem: string): string | undefined {
  return /-----BEGIN [A-Z ]*PRIVATE KEY-----[^]*-----END [A-Z ]*PRIVATE KEY-----/.test(pem)
    ? undefined
    : "holds no private key (PEM)";
}

/** Why the key cannot be used with the certificate; undefined when it can. */
function findPairFault({ cert, key }: TlsMaterial): string | undefined {
  if (cert === undefined || key === undefined) return undefined;
  try {
    createSecureContext({ cert, key });
    return undefined;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ERR_OSSL_X509_KEY_VALUES_MISMATCH") return "is not the key of the certificate";
    return `cannot be used with the certificate (${code ?? "unknown error"})`;
  }
}

/**
 * What the files hold now.
 * @throws when one cannot be read or is no good, or the key is not the certificate's. The message names the file.
 */
export function readTls({ caFile, certFile, keyFile }: TlsFiles): TlsMaterial {
  const read = (name: keyof TlsMaterial, file: string | undefined, findFault: FindFault): TlsMaterial =>
    file === undefined ? {} : { [name]: readGoodFile(file, findFault) };
  const material = {
    ...read("ca", caFile, findCertificateFault),
    ...read("cert", certFile, findCertificateFault),
    ...read("key", keyFile, findKeyFault),
  };
  const fault = findPairFault(material);
  if (fault !== undefined) throw new FileFault(keyFile ?? certFile ?? "", fault);
  return material;
}

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
