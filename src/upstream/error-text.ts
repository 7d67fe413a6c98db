/** Longest text taken over from an upstream's error, in characters. */
const MAX_TEXT = 300;

/** So much of a body is looked at: what comes later would be cut off anyway. */
const MAX_LOOKED_AT = 8 * 1024;

/** Whether a body is a page for browsers and not an answer of a registry. */
export function isHtml(contentType: string | undefined, body: Buffer): boolean {
  if (contentType !== undefined && /html/i.test(contentType)) return true;
  return /^\s*<(!doctype|html|head|body)/i.test(body.toString("latin1", 0, 64));
}

/** The readable text of an error body: without markup, on one line, shortened. Empty when there is none. */
export function readErrorText(body: Buffer): string {
  const text = body
    .toString("utf8", 0, MAX_LOOKED_AT)
    .replace(/<(script|style)\b[\s\S]*?(<\/\1\s*>|$)/gi, " ")
    .replace(/<[^>]*>?/g, " ")
    // eslint-disable-next-line no-control-regex -- control characters are what is removed
    .replace(/[\s\x00-\x1f\x7f]+/g, " ")
    .trim();
  return text.length <= MAX_TEXT ? text : `${text.slice(0, MAX_TEXT).trimEnd()}…`;
}
