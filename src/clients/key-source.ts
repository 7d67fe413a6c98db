import { NotCollected } from "../bodies/collected-body.ts";
import { type Download, download } from "../bodies/download.ts";
import type { Clock, Duration } from "../clock.ts";
import { faultOfFile, readTextFile } from "../config/text-file.ts";
import type { FileWatcher } from "../config/watched-files.ts";
import { lookUp } from "../host-names.ts";
import { readUnrepeatedObject } from "../json.ts";
import { readVerificationKey, type VerificationKey } from "./verification-key.ts";

/** Bytes of the largest set. */
const MAX_SET = 1024 * 1024;
const MAX_KEYS = 100;

/** After this time a fetch is over, whatever it has brought. */
const FETCH_TIMEOUT: Duration = 5_000;

/** After this time a file that is no good is read again; it is, too, whenever it changes. */
const READ_AGAIN: Duration = 5_000;

const MINUTE: Duration = 60_000;
/** How long a fetched set stays fresh: what its answer says, within these bounds. */
const FRESH = { least: 5 * MINUTE, most: 24 * 60 * MINUTE, unsaid: 10 * MINUTE };

/** Keys that an issuer has published. */
export interface PublishedKeys {
  readonly keys: readonly VerificationKey[];
  /** After this time they are to be read again. */
  readonly freshFor: Duration;
}

/** Where the keys of an issuer are. */
export interface KeySource {
  /**
   * Reads them.
   * @throws {@link KeySetFault} when they cannot be had or are no good
   */
  read(): Promise<PublishedKeys>;
  /** How long to wait after that has failed, by the number of failures in a row. */
  retryAfter(failures: number): Duration;
  /** For how long they count after they should have been read again. */
  readonly usableFor: Duration;
  /** Has `read` called when they may be others. Returns what ends it. */
  follow?(read: () => Promise<void>): () => void;
}

/** Why the keys of an issuer cannot be used. */
export class KeySetFault extends Error {
  /** The message is the rest of a sentence that begins with the file or URL; no addresses. */
  constructor(fault: string) {
    super(fault);
    this.name = "KeySetFault";
  }
}

/** A JWK set in a file (RFC 7517 §5): the last good one counts until there is another. */
export function keyFile(file: string, watcher: FileWatcher): KeySource {
  return {
    usableFor: Infinity,
    retryAfter: () => READ_AGAIN,
    async read() {
      return { keys: readFileSet(file), freshFor: Infinity };
    },
    follow(read) {
      return watcher.watch({
        files: [file],
        async take() {
          await read();
          return true;
        },
      });
    },
  };
}

function readFileSet(file: string): readonly VerificationKey[] {
  try {
    return readSet(Buffer.from(readTextFile(file)));
  } catch (error) {
    throw error instanceof KeySetFault ? error : new KeySetFault(faultOfFile(error));
  }
}

/** A JWK set at a URL: the last good one counts for 24 h after it should have been fetched again. */
export function keyUrl(url: string, clock: Clock): KeySource {
  return {
    usableFor: 24 * 60 * MINUTE,
    retryAfter: (failures) => Math.min(10_000 * 2 ** (failures - 1), 5 * MINUTE),
    async read() {
      const { headers, body } = await fetchSet(url, clock);
      return { keys: readSet(body), freshFor: freshnessOf(headers) };
    },
  };
}

async function fetchSet(url: string, clock: Clock): Promise<Download> {
  const accept = "application/jwk-set+json, application/json";
  let answer: Download;
  try {
    answer = await download(url, { clock, accept, timeout: FETCH_TIMEOUT, maxBody: MAX_SET, lookup: lookUp });
  } catch (error) {
    const { message, cause } = error as Error;
    throw cause instanceof NotCollected && cause.fault === "too-large" ? tooLarge() : new KeySetFault(message);
  }
  const { status } = answer;
  if (status >= 300 && status < 400) throw new KeySetFault("redirects, which is not followed");
  if (status !== 200) throw new KeySetFault(`answered ${status}`);
  return answer;
}

function tooLarge(): KeySetFault {
  return new KeySetFault("is larger than 1 MiB");
}

/** `max-age` less the time the answer spent in caches (RFC 9111 §4.2). */
function freshnessOf(headers: Download["headers"]): Duration {
  const directives = (headers["cache-control"] ?? "").toLowerCase();
  const [, seconds] = /(?:^|[\s,])max-age="?(\d{1,10})"?(?=$|[\s,])/.exec(directives) ?? [];
  const isUnstored = /(?:^|[\s,])no-(?:store|cache)(?=$|[\s,=])/.test(directives);
  if (seconds === undefined) return isUnstored ? FRESH.least : FRESH.unsaid;
  const [age] = /^\d{1,10}$/.exec(headers["age"] ?? "0") ?? ["0"];
  const stated = isUnstored ? 0 : (Number(seconds) - Number(age)) * 1_000;
  return Math.min(Math.max(stated, FRESH.least), FRESH.most);
}

/** Keys of a set that are for signatures. Others may stand beside them, but not alone: that is a mistake. */
function readSet(bytes: Buffer): readonly VerificationKey[] {
  if (bytes.length > MAX_SET) throw tooLarge();
  const jwks = readUnrepeatedObject(bytes)?.["keys"];
  if (!Array.isArray(jwks)) throw new KeySetFault('is no JWK set: JSON such as {"keys": […]}, no key in it twice');
  if (jwks.length > MAX_KEYS) throw new KeySetFault(`has ${jwks.length} keys: ${MAX_KEYS} are the most`);
  const found = jwks.map(readVerificationKey);
  const keys = found.filter((each) => typeof each === "object");
  if (jwks.length > 0 && keys.length === 0) {
    const fault = found.find((each) => typeof each === "string");
    throw new KeySetFault(
      fault === undefined ? "has no key for signatures" : `has no good key: key ${found.indexOf(fault) + 1} ${fault}`,
    );
  }
  return keys;
}
