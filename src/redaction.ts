import { createHash } from "node:crypto";

/** Party ids: a name, `::`, and the fingerprint of a key. */
const PARTY = /[^\s"'`,;()<>{}[\]]+::[^\s"'`,;()<>{}[\]]+/g;

/** Addresses: URLs, host names (in lower case: keys such as limits.uri have none) and IP addresses. */
const URL_LIKE = /\b[a-z][a-z0-9+.-]*:\/\/[^\s"'`,;()<>]+/gi;
const IPV4 = /\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b/g;
const IPV6 = /\[?\b(?:[0-9a-f]{1,4}:){2,7}[0-9a-f]{0,4}\]?(?::\d{1,5})?|\[?::1\]?(?::\d{1,5})?/gi;
const HOST = /\b[a-z0-9-]+(?:\.[a-z0-9-]+)+(?::\d{1,5})?\b|\blocalhost(?::\d{1,5})?\b|\b[a-z][a-z0-9-]*:\d{2,5}\b/g;

/** A reason longer than this is cut: it is a sentence, not an answer's text. */
const MAX_LENGTH = 200;

/** A short stable stand-in for an id in a log line: lines about one id can be found, the id can't be read. */
export function hashId(id: string): string {
  return createHash("sha256").update(id).digest("hex").slice(0, 12);
}

/**
 * `text` as it may stand in a log line: party ids as hashes, addresses left out. Reasons come from messages written for
 * the operations listener and from libraries, and a log goes to more people than those.
 */
export function withoutSecrets(text: string): string {
  return text
    .replace(URL_LIKE, "<address>")
    .replace(PARTY, (party) => `party ${hashId(party)}`)
    .replace(IPV4, "<address>")
    .replace(IPV6, "<address>")
    .replace(HOST, "<address>")
    .slice(0, MAX_LENGTH);
}
