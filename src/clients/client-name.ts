/** Characters of the longest name. */
const MAX_NAME = 200;

/**
 * What no name has: control and format characters, halves of characters, line and paragraph separators. They hide in a
 * log or break its lines. Spaces neither begin nor end it, so that names that look the same are the same.
 */
const UNFIT = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]|^\s|\s$/u;

/** Names that log lines and metrics have for those who are not known. */
const RESERVED: ReadonlySet<string> = new Set(["anonymous", "none"]);

/** Whether a token or certificate may name a client so. */
export function isClientName(name: string): boolean {
  return name !== "" && name.length <= MAX_NAME && !UNFIT.test(name) && !RESERVED.has(name);
}
