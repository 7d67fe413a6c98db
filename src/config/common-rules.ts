import { HOP_BY_HOP } from "../fields.ts";
import type { Reading } from "./reading.ts";
import { readTls, type TlsFiles } from "./certificates.ts";

/** Reports every value that an earlier one of the list equals. */
export function checkTwice(
  reading: Reading,
  what: string,
  values: readonly (readonly [path: string, value: string | undefined])[],
): void {
  const first = new Map<string, string>();
  for (const [path, value] of values) {
    if (value === undefined) continue;
    const earlier = first.get(value);
    if (earlier === undefined) first.set(value, path);
    else reading.report(path, `the same ${what} is given at ${earlier}`);
  }
}

/** Reports a key that is not that of the certificate. */
export function checkKeyPair(reading: Reading, path: string, tls: TlsFiles | undefined): void {
  if (tls?.certFile === undefined || tls.keyFile === undefined) return;
  // What is wrong with one of them alone was reported.
  if (["caFile", "certFile", "keyFile"].some((key) => reading.hasProblem(`${path}.${key}`))) return;
  try {
    readTls(tls);
  } catch (error) {
    reading.reportFile(`${path}.keyFile`, error instanceof Error ? error.message : String(error));
  }
}

/** Request headers that are HTTP's own: of one connection, of the framing, or of what the body is. */
export const RESERVED_HEADERS: ReadonlySet<string> = new Set([
  ...HOP_BY_HOP,
  "accept-encoding",
  "content-encoding",
  "content-length",
  "content-type",
  "expect",
  "host",
  "proxy-authorization",
]);

/** Reports a header that means something to HTTP already. */
export function checkHeaderName(reading: Reading, path: string, name: string | undefined): void {
  if (name !== undefined && RESERVED_HEADERS.has(name)) {
    reading.report(path, `${name} has a meaning of its own in HTTP: take another header`);
  }
}

/** Reports a certificate without its key, or with another one. */
export function checkTls(reading: Reading, path: string, tls: TlsFiles | undefined): void {
  const isGiven = (key: string) => reading.isGiven(`${path}.${key}`);
  if (isGiven("keyFile") !== isGiven("certFile")) {
    const [given, missing] = isGiven("keyFile") ? ["keyFile", "certFile"] : ["certFile", "keyFile"];
    reading.report(`${path}.${given}`, `needs ${missing}`);
  }
  checkKeyPair(reading, path, tls);
}
