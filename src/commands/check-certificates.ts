import { DAY } from "../clock.ts";
import { readTls, type Validity, validityOf } from "../config/certificates.ts";
import type { Config } from "../config/schema.ts";

/** Days before its end in which a certificate is warned of. */
const SOON = 14;

export interface ListedCertificate extends Validity {
  /** Where the configuration names it. */
  readonly of: string;
  /** Milliseconds since the Unix epoch; the time of looking. */
  readonly now: number;
}

/** The certificates that a configuration shows to clients and registries, with when they end. */
export function listCertificates({ listen, upstreams }: Config, now: number): ListedCertificate[] {
  const files = [
    { of: "listen.tls.certFile", tls: listen.tls },
    ...upstreams.map(({ name, tls }) => ({ of: `upstreams[${name}].tls.certFile`, tls })),
  ];
  return files.flatMap(({ of, tls }) => {
    const { certFile, keyFile } = tls ?? {};
    const { cert } = readTls({ certFile, keyFile });
    return cert === undefined ? [] : [{ of, now, ...validityOf(cert) }];
  });
}

export function warnOfEnds(certificates: readonly ListedCertificate[]): string[] {
  return certificates.flatMap(({ of, begins, ends, now }) => {
    if (now < begins) return [`${of}: does not begin before ${new Date(begins).toISOString()}`];
    const warning = warningOfEnd(ends, now);
    return warning === undefined ? [] : [`${of}: ${warning}`];
  });
}

/** What is to be warned of a certificate that ends then; undefined where there is time. */
export function warningOfEnd(ends: number, now: number): string | undefined {
  if (ends <= now) return `has ended on ${new Date(ends).toISOString()}`;
  const days = Math.floor((ends - now) / DAY);
  return days < SOON ? `ends in ${days} days` : undefined;
}
