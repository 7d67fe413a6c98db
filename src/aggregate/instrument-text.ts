import { memberSpans, type Span } from "../spec/json-scan.ts";

/** Whether a JSON text, accepted by `JSON.parse`, is that of an object. */
export function isObjectText(text: string): boolean {
  return BEGINS_OBJECT.test(text);
}

const BEGINS_OBJECT = /^[ \t\r\n]*\{/;

/**
 * The text of a JSON object with members put in front. Members of the same keys that it had, wherever they stand and
 * however often, are taken out; everything else stays as it was, byte for byte.
 *
 * @param text an object, accepted by `JSON.parse`
 * @param members keys (plain ASCII, nothing to escape) and the JSON text of their values
 */
export function withMembers(text: string, members: readonly (readonly [key: string, json: string])[]): string {
  let rest = text.slice(text.indexOf("{") + 1);
  for (const [key] of members) rest = withoutMember(`{${rest}`, key).slice(1);
  const own = members.map(([key, json]) => `"${key}":${json}`).join(",");
  return EMPTY.test(rest) ? `{${own}${rest}` : `{${own},${rest}`;
}

const EMPTY = /^[ \t\r\n]*\}/;

function withoutMember(text: string, key: string): string {
  let kept = text;
  // From the last to the first, so that the positions of those still to go stay true.
  for (const span of memberSpans(text, 0, key).toReversed()) kept = cut(kept, span);
  return kept;
}

/** Cuts a member out, given its value: with its key, and with one of the commas around it. */
function cut(text: string, { start, end }: Span): string {
  const colon = text.lastIndexOf(":", start - 1);
  const keyEnd = text.lastIndexOf('"', colon);
  const keyStart = openingQuote(text, keyEnd);
  const next = SPACE_COMMA.exec(text.slice(end));
  if (next !== null) return text.slice(0, keyStart) + text.slice(end + next[0].length);
  const before = text.slice(0, keyStart).trimEnd();
  return (before.endsWith(",") ? before.slice(0, -1) : before) + text.slice(end);
}

/** Behind a comma that goes, the space goes too. */
const SPACE_COMMA = /^[ \t\r\n]*,[ \t\r\n]*/;

/** The quote that opens the key which `keyEnd` closes: the nearest before it that is not escaped. */
function openingQuote(text: string, keyEnd: number): number {
  let at = text.lastIndexOf('"', keyEnd - 1);
  while (isEscaped(text, at)) at = text.lastIndexOf('"', at - 1);
  return at;
}

function isEscaped(text: string, at: number): boolean {
  let backslashes = 0;
  while (text[at - 1 - backslashes] === "\\") backslashes++;
  return backslashes % 2 === 1;
}
