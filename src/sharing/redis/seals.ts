import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from "node:crypto";
import type { RedisConfig } from "../../config/schema.ts";
import { readSealKeys } from "../../config/secret.ts";
import { type FileWatcher, WatchedFiles } from "../../config/watched-files.ts";
import type { RedisValue } from "./observer.ts";

/** Bytes of an HMAC that are kept: 128 bits, which nobody guesses (RFC 2104 §5). */
export const SEAL_LENGTH = 16;

/** The same in base64url, and before it in texts. */
const TEXT_LENGTH = 22;
const MARK = "!";
const TEXT_SEAL = new RegExp(`${MARK}[\\w-]{${TEXT_LENGTH}}$`);

/** What a text was sealed for: its kind, its key in Redis (or channel), and its place there, which is not in the key. */
export interface SealedPlace {
  readonly kind: RedisValue | "audit";
  readonly key: string;
  readonly field?: string | undefined;
}

/** A text from Redis whose seal is good. */
export interface OpenedText {
  readonly text: string;
  /** It is sealed with a key that is on its way out. */
  readonly isOutdated: boolean;
}

/** The keys in use, the first of which seals. */
interface SealKeys {
  readonly all: readonly KeyObject[];
}

/**
 * Binds what the gateway writes to Redis to where it is written, by HMAC-SHA-256 with a key that Redis does not have
 * (`redis.sealKeyFile`). A value that another party wrote, or moved, does not open. Keys of Redis begin with
 * `keyPrefix`, so a value of another group of gateways does not either. Without a key file nothing is sealed, and what
 * gateways with one wrote for all is read without looking at its seal.
 */
export class Seals {
  private readonly keys: WatchedFiles<SealKeys> | undefined;

  /**
   * @param onRead called at each reading of the key file: why it is no good, or undefined
   * @throws when the key file holds nothing good
   */
  constructor(
    { sealKeyFile }: Pick<RedisConfig, "sealKeyFile">,
    watcher: FileWatcher,
    onRead: (fault?: string) => void,
  ) {
    if (sealKeyFile === undefined) return;
    let fault: string | undefined;
    this.keys = new WatchedFiles<SealKeys>({
      watcher,
      files: [sealKeyFile],
      read: () => ({ all: readSealKeys(sealKeyFile).map((key) => createSecretKey(key)) }),
      onRead(found) {
        fault = found;
        onRead(found);
      },
    });
    if (this.keys.current === undefined) throw new Error(`redis.sealKeyFile cannot be used: ${fault}`);
  }

  get areOn(): boolean {
    return this.keys !== undefined;
  }

  /** Another object after the keys changed. */
  get version(): object | undefined {
    return this.keys?.current;
  }

  close(): void {
    this.keys?.close();
  }

  /** The text with its seal behind it; as it is where nothing is sealed. */
  seal(place: SealedPlace, text: string): string {
    return this.keys === undefined ? text : `${text}${MARK}${this.sealOf(place, text)}`;
  }

  /** The seal alone; empty where nothing is sealed. */
  sealOf(place: SealedPlace, text: string): string {
    const key = this.keys?.current?.all[0];
    return key === undefined ? "" : textSeal(key, place, text);
  }

  /** What was sealed; undefined when it was not, or not for this place or with these keys. */
  open(place: SealedPlace, sealed: string): OpenedText | undefined {
    const mark = sealed.length - TEXT_LENGTH - 1;
    const isSealed = sealed[mark] === MARK;
    // Only what looks like a seal: a text of ours may have the mark in the same place.
    if (this.keys === undefined) return { text: sealed.replace(TEXT_SEAL, ""), isOutdated: false };
    return isSealed ? this.check(place, sealed.slice(0, mark), sealed.slice(mark + 1)) : undefined;
  }

  /** The same where seal and text are apart. */
  check(place: SealedPlace, text: string, seal: string): OpenedText | undefined {
    if (seal.length !== TEXT_LENGTH) return undefined;
    const given = Buffer.from(seal, "latin1");
    const keys = this.keys?.current?.all ?? [];
    const index = keys.findIndex((key) => timingSafeEqual(given, Buffer.from(textSeal(key, place, text), "latin1")));
    return index === -1 ? undefined : { text, isOutdated: index > 0 };
  }

  /** Writes the seal of all that is behind it into the first {@link SEAL_LENGTH} bytes. */
  sealBytes(place: SealedPlace, bytes: Buffer): void {
    const key = this.keys!.current!.all[0]!;
    hmac(key, place).update(bytes.subarray(SEAL_LENGTH)).digest().copy(bytes, 0, 0, SEAL_LENGTH);
  }

  /** Whether the first bytes seal the others. */
  areSealed(place: SealedPlace, bytes: Buffer): boolean {
    if (bytes.length < SEAL_LENGTH) return false;
    const [given, rest] = [bytes.subarray(0, SEAL_LENGTH), bytes.subarray(SEAL_LENGTH)];
    const keys = this.keys?.current?.all ?? [];
    return keys.some((key) => timingSafeEqual(given, hmac(key, place).update(rest).digest().subarray(0, SEAL_LENGTH)));
  }
}

function textSeal(key: KeyObject, place: SealedPlace, text: string): string {
  return hmac(key, place).update(text).digest("base64url").slice(0, TEXT_LENGTH);
}

/** With the length of the place first: no end of one place is the beginning of a value at another. */
function hmac(key: KeyObject, { kind, key: name, field = "" }: SealedPlace) {
  const place = `${kind}\n${name}\n${field}`;
  return createHmac("sha256", key).update(`${Buffer.byteLength(place)}\n${place}`);
}
