import { isIP } from "node:net";
import { isHtml } from "../bodies/answer.ts";
import type { Fields } from "../fields.ts";
import { printable } from "../json.ts";

const LONGEST_TEXT = 300;
/** Bytes of a body that are looked at: what comes later would be cut off anyway. */
const LOOKED_AT = 1_024;

const HIDDEN = "<address>";

/** Between words, be they of a sentence, of JSON or of `name=value`. */
const BETWEEN_WORDS = /([\s"'`{}()<>|=,;]+)/;

/** Forms of hosts, with a port or without, and of places in code. Keys (`transfer.instrumentId`) and party ids have none. */
const PRIVATE_FORMS: readonly RegExp[] = [
  /^[a-z][a-z0-9+.-]*:\/\//i,
  /^(?=.*[a-z])[a-z0-9.-]+:\d{2,5}$/i,
  /^[a-z0-9-]+(?:\.[a-z0-9-]+)+\.[a-z]{2,}$/,
  /^[a-z0-9-]+\.(?:com|net|org|io|dev|cloud|network|internal|local|lan)$/,
  /^[^:]*[/\\][^:]*(?::\d+){1,2}$/,
  /\.(?:java|kt|scala|py|go|rs|[cm]?[jt]s)(?::\d+){1,2}$/,
];

/**
 * The readable text of an error that is not in the registry API's form: on one line, shortened, without addresses, since
 * where a registry runs is nobody's business. Empty where there is none: pages for browsers say nothing.
 */
export function errorText(fields: Fields, body: Buffer): string {
  if (isHtml(fields, body)) return "";
  const text = body.toString("utf8", 0, LOOKED_AT).replace(/\s+/g, " ").trim();
  return printable(text, LONGEST_TEXT).split(BETWEEN_WORDS).map(withoutAddress).join("");
}

function withoutAddress(word: string): string {
  const bare = /^((?:[a-z_]+:(?=\S*[.:]))?)(.*?)[.:!?]*$/i.exec(word)?.[2] ?? word;
  for (const each of [word, bare]) {
    if (isAddress(each) || PRIVATE_FORMS.some((form) => form.test(each))) return word.replace(each, HIDDEN);
  }
  return word;
}

/** An IP address, with a port or without. */
function isAddress(word: string): boolean {
  const host = /^\[?([0-9a-f:.]*?)\]?(?::\d{1,5})?$/i.exec(word)?.[1] ?? "";
  return isIP(host) !== 0 || isIP(word) !== 0;
}
