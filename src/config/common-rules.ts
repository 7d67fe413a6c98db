import type { Reading } from "./reading.ts";
import { readTls } from "./tls-files.ts";
import type { TlsFiles } from "./tls-files.ts";

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
