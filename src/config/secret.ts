import { readFileSync, statSync } from "node:fs";

/** What is wrong with a secret, as the rest of a sentence that begins with where it is from; undefined when it is good. */
export type FindFault = (secret: string) => string | undefined;

/** A secret is one line: whatever it goes into, a line break in it means that something else was read. */
export const findSecretFault: FindFault = (secret) => {
  if (secret === "") return "is empty";
  // oxlint-disable-next-line no-control-regex
  return /[\u0000-\u001f\u007f]/.test(secret) ? "is not one line of text without control characters" : undefined;
};

/** A secret that goes into a header field (RFC 9110 §5.5), where other characters break the request or are mangled. */
export const findTokenFault: FindFault = (secret) =>
  findSecretFault(secret) ??
  (/^[\u0020-\u007e]+$/.test(secret) ? undefined : "holds other than ASCII characters, which a header field cannot");

/**
 * The secret in the file of a `…File` key, without white space around it. Read anew at each call, so that a secret
 * that is rotated in place is picked up.
 * @throws when the file cannot be read, or what it holds is no good. The message names the file and no secret.
 */
export function readSecret(file: string, findFault: FindFault = findSecretFault): string {
  const secret = readFileSync(file, "utf8").trim();
  const fault = findFault(secret);
  if (fault !== undefined) throw new FileFault(file, fault);
  return secret;
}

/** What a file holds is no good. */
export class FileFault extends Error {
  /** The rest of a sentence that begins with the file, or with the key that names it. */
  readonly fault: string;

  constructor(file: string, fault: string) {
    super(`${file} ${fault}`);
    this.name = "FileFault";
    this.fault = fault;
  }
}

/** Why a file could not be used, without its path. */
export function faultOfFile(error: unknown): string {
  if (error instanceof FileFault) return error.fault;
  const code = error instanceof Error && "code" in error ? String(error.code) : "unknown error";
  return code === "ENOENT" ? "is not there" : `cannot be read (${code})`;
}

/** Tells one state of a file from another: rewritten, replaced, or behind a link that was changed. Never throws. */
export function versionOf(file: string): string {
  try {
    const { ino, size, mtimeMs } = statSync(file);
    return `${ino}:${size}:${mtimeMs}`;
  } catch {
    return "absent";
  }
}
