import { createHash } from "node:crypto";
import { isIPv6 } from "node:net";
import { asData, type Schema } from "../config/keys.ts";
import { configSchema } from "../config/schema.ts";

/** What has several colons: party ids (a name, `::`, and the fingerprint of a key) and IPv6 addresses. */
const COLONS = /[^\s"'`,;()<>{}[\]]*:[^\s"'`,;()<>{}[\]]*:[^\s"'`,;()<>{}[\]]*/g;

const URL_LIKE = /\b[a-z][a-z0-9+.-]*:\/\/[^\s"'`,;()<>]+/gi;
const IPV4 = /\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b/g;
const HOST = /\b[a-z0-9-]+(?:\.[a-z0-9-]+)+(?::\d{1,5})?\b|\blocalhost(?::\d{1,5})?\b|\b[a-z][a-z0-9-]*:\d{2,5}\b/;

/** A file, which has a dot as hosts do: a path that begins with one slash, or with dots before it. */
const FILE = /(?<![^\s"'`(])\.{0,2}\/(?!\/)[^\s"'`,;()<>]+/;
const FILE_OR_HOST = new RegExp(`(${FILE.source})|${HOST.source}`, "g");

const ADDRESS = "<address>";

/** Keys of the configuration look like host names: `tracing.endpoint`, and `concurrency.max` of an upstream. */
const KEYS: ReadonlySet<string> = new Set(keysBelow(asData(configSchema)));

function keysBelow({ properties = {} }: Schema): string[] {
  return Object.entries(properties).flatMap(([key, schema]) => {
    const below = keysBelow(schema).map((name) => `${key}.${name}`);
    return [key].concat(below, schema.items === undefined ? [] : keysBelow(schema.items));
  });
}

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
    .replace(URL_LIKE, ADDRESS)
    .replace(COLONS, (word) => {
      if (isIPv6(word)) return ADDRESS;
      return word.includes("::") ? `party ${hashId(word)}` : word;
    })
    .replace(IPV4, ADDRESS)
    .replace(FILE_OR_HOST, (name, file?: string) => (file !== undefined || KEYS.has(name) ? name : ADDRESS))
    .slice(0, MAX_LENGTH);
}
