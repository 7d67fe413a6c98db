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
  if (fault !== undefined) throw new Error(`${file} ${fault}`);
  return secret;
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
