import { X509Certificate } from "node:crypto";
import { createSecureContext } from "node:tls";

/** The certificates in a PEM text, which may hold keys and parameters besides. */
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;
const KEY = /-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*-----END [A-Z ]*PRIVATE KEY-----/;

/** Unix ms at which the certificates in a PEM text end, in their order; undefined where it holds none, or one that cannot be read. */
export function endsOf(pem: string): readonly [number, ...number[]] | undefined {
  try {
    const [first, ...others] = (pem.match(CERTIFICATE) ?? []).map((text) => new X509Certificate(text).validToDate);
    return first && [first.getTime(), ...others.map((each) => each.getTime())];
  } catch {
    return undefined;
  }
}

/** Finds what is wrong with the PEM text of certificates, as the rest of a sentence about their file. */
export function findCertificateFault(pem: string): string | undefined {
  const begun = pem.split("-----BEGIN CERTIFICATE-----").length - 1;
  if (begun === 0) return "holds no certificate (PEM)";
  const isWhole = pem.match(CERTIFICATE)?.length === begun && endsOf(pem) !== undefined;
  return isWhole ? undefined : "holds a certificate that cannot be read";
}

/** Finds what is wrong with the PEM text of a private key, seen alone. */
export function findKeyFault(pem: string): string | undefined {
  return KEY.test(pem) ? undefined : "holds no private key (PEM)";
}

/** Finds why a key cannot be used with a certificate; undefined when it can. */
export function findPairFault(cert: string, key: string): string | undefined {
  try {
    createSecureContext({ cert, key });
    return undefined;
  } catch (error) {
    const { code = "unknown error" } = error as NodeJS.ErrnoException;
    if (code === "ERR_OSSL_X509_KEY_VALUES_MISMATCH") return "is not the key of the certificate";
    return `cannot be used with the certificate (${code})`;
  }
}
