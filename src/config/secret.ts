import { type FindFault, readGoodFile } from "./text-file.ts";

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
  return readGoodFile(file, (text) => findFault(text.trim())).trim();
}

const SEAL_KEY_BYTES = 32;

/** A key in use, and the one that takes or took its place. */
const MOST_SEAL_KEYS = 2;

/** What is wrong with the text of a `sealKeyFile`; repeats nothing of it. */
export const findSealKeyFault: FindFault = (text) => {
  const lines = text.split("\n").map((line) => line.trim());
  while (lines.at(-1) === "") lines.pop();
  for (const [index, line] of lines.entries()) {
    const where = `has on line ${index + 1}`;
    const bytes = Buffer.from(line, "base64");
    if (bytes.length !== SEAL_KEY_BYTES || bytes.toString("base64") !== line) {
      return `${where} what is not 32 bytes in base64: make a key with openssl rand -base64 32`;
    }
    // Of 32 random bytes some 30 differ.
    if (new Set(bytes).size < 16) return `${where} a key that is not random`;
    if (lines.indexOf(line) < index) return `${where} the key of line ${lines.indexOf(line) + 1} again`;
  }
  if (lines.length > MOST_SEAL_KEYS) return `has ${lines.length} keys: give one, or two while it changes`;
  return lines.length === 0 ? "is empty" : undefined;
};

/**
 * The keys in a `sealKeyFile`: what is written is sealed with the first.
 * @throws when the file cannot be read, or what it holds is no good. The message names the file and no secret.
 */
export function readSealKeys(file: string): readonly Buffer[] {
  return readGoodFile(file, findSealKeyFault)
    .trim()
    .split("\n")
    .map((line) => Buffer.from(line.trim(), "base64"));
}
