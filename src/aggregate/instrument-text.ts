import { type MemberSpan, memberSpans, skipSpace } from "../json.ts";

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
  const spans = members.flatMap(([key]) => memberSpans(text, 0, key)).sort((a, b) => a.keyStart - b.keyStart);
  const rest = withoutMembers(text, spans);
  const own = members.map(([key, json]) => `"${key}":${json}`).join(",");
  return EMPTY.test(rest) ? `{${own}${rest}` : `{${own},${rest}`;
}

const EMPTY = /^[ \t\r\n]*\}/;

/** What stands behind the opening brace but for these members, each with one of the commas around it. */
function withoutMembers(text: string, spans: readonly MemberSpan[]): string {
  const kept: string[] = [];
  let from = text.indexOf("{") + 1;
  for (const { keyStart, end } of spans) {
    kept.push(text.slice(from, keyStart));
    from = skipSpace(text, end);
    // Behind a comma that goes, the space goes too.
    if (text[from] === ",") from = skipSpace(text, from + 1);
    else {
      // The last of all: the comma before it goes.
      const before = kept.join("").trimEnd();
      return (before.endsWith(",") ? before.slice(0, -1) : before) + text.slice(end);
    }
  }
  return kept.join("") + text.slice(from);
}
