import { readFileSync } from "node:fs";

/**
 * The secret in the file of a `…File` key, without white space around it. Read anew at each call, so that a secret
 * that is rotated in place is picked up.
 * @throws when the file cannot be read, or holds nothing.
 */
export function readSecret(file: string): string {
  const secret = readFileSync(file, "utf8").trim();
  if (secret === "") throw new Error(`${file} is empty`);
  return secret;
}
