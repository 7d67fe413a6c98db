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
export const CERTIFICATE =
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
