import { createHash, hash } from "node:crypto";
import type { Duration, Instant } from "../clock.ts";
import { type ClientKey, describeProblems, readKeysFile } from "../config/keys-file.ts";
import { ConfigError } from "../config/problem.ts";
import { DOUBT, type FileWatcher, versionOf } from "../config/watched-files.ts";
import { isKey } from "./api-key.ts";
import type { Client, Tier } from "./client.ts";

/** What became of the clients when a file was read again: their names, in the order of the file. */
export interface KeyChanges {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  /** Other keys, another expiry, another tier. */
  readonly changed: readonly string[];
}

/** A client of the file. */
export interface KeyHolder {
  readonly name: string;
  readonly tier: string;
  /** When its keys expire, one for each; null: never. */
  readonly expires: readonly (string | null)[];
}

/** Called with what becomes of the keys file. */
export interface KeysObserver {
  /** Other keys are in use than before. */
  keysChanged(changes: KeyChanges): void;
  /** The file was read: what is wrong with it, by line, or undefined where it is in use. */
  keysRead(fault: string | undefined): void;
  /** The file is looked at no more, by this configuration. */
  keysLeft(): void;
}

interface ClientKeysOptions {
  readonly file: string;
  readonly tiers: ReadonlyMap<string, Tier>;
  readonly files: FileWatcher;
  readonly observer: KeysObserver;
  /** Of the configuration before. */
  readonly previous?: ClientKeys | undefined;
}

interface KnownKey {
  readonly expires: number;
  readonly client: Client;
}

/** The clients of a keys file, and their keys, of which nothing but digests is known. */
export class ClientKeys {
  private readonly options: ClientKeysOptions;
  private keys: readonly ClientKey[];
  private digested: { readonly of: readonly ClientKey[]; readonly digest: string } | undefined;
  private clients: ReadonlyMap<string, Client> = new Map();
  /** By the digests of the keys, in hex. */
  private table: ReadonlyMap<string, KnownKey> = new Map();
  /** Of the file, where what it holds was looked at; undefined: not yet. */
  private version: string | undefined;
  /** The file holds fewer keys than those in use since then: it may be half written. */
  private fewerSince: Instant | undefined;
  /** What was wrong with the file when it was read first. */
  private readonly firstFault: string | undefined;
  private unfollow: (() => void) | undefined;

  /**
   * Reads the file. Where it is no good, the keys that `previous` had from it stay in use.
   * @throws {ConfigError} where there are none, or one of them is of a tier that there is no more
   */
  constructor(options: ClientKeysOptions) {
    const { file, tiers, previous } = options;
    this.options = options;
    // Before the content: what is written in between is then found to have changed.
    this.version = versionOf(file);
    const earlier = previous?.options.file === file ? previous.keys : undefined;
    try {
      this.keys = this.read();
      // Reloads, however many, begin no doubt anew.
      this.fewerSince = previous?.fewerSince;
      if (earlier?.every(({ tier }) => tiers.has(tier)) === true && this.isDoubtful(this.keys, earlier)) {
        this.keys = earlier;
        this.version = undefined;
      }
    } catch (error) {
      if (earlier?.every(({ tier }) => tiers.has(tier)) !== true) throw error;
      this.keys = earlier;
      this.firstFault = messageOf(error);
      this.version = undefined;
    }
    this.use(this.keys, previous?.clients ?? new Map());
    if (previous !== undefined) this.report(previous.keys);
  }

  /** Looks at the file from now on. */
  start(): void {
    const { file, files, observer } = this.options;
    // Here, since the configuration before has said only now that it has left the file.
    observer.keysRead(this.firstFault);
    const known = this.version === undefined ? {} : { known: this.version };
    this.unfollow = files.watch({ files: [file], ...known, take: (steadyFor) => this.take(steadyFor) });
  }

  stop(): void {
    this.unfollow?.();
    this.unfollow = undefined;
    this.options.observer.keysLeft();
  }

  /**
   * The client of a key, or what is wrong with the key.
   *
   * @param now wall-clock time, in milliseconds since the Unix epoch
   */
  find(key: string, now: number): Client | "invalid" | "unknown" | "expired" {
    if (!isKey(key)) return "invalid";
    const known = this.table.get(hash("sha256", key, "hex"));
    if (known === undefined) return "unknown";
    return now < known.expires ? known.client : "expired";
  }

  /** Those of the file, whether they have called or not. */
  holders(): KeyHolder[] {
    const expiries = Map.groupBy(this.keys, ({ name }) => name);
    return [...expiries].map(([name, keys]) => ({
      name,
      tier: keys[0]!.tier,
      expires: keys.map(({ expires }) => (expires === undefined ? null : new Date(expires).toISOString())),
    }));
  }

  /** Stands for the keys in use. */
  get digest(): string {
    if (this.digested?.of !== this.keys) {
      const all = createHash("sha256");
      for (const key of this.keys) all.update(JSON.stringify(key));
      this.digested = { of: this.keys, digest: all.digest("base64url").slice(0, 22) };
    }
    return this.digested.digest;
  }

  private read(): readonly ClientKey[] {
    const { file, tiers } = this.options;
    return readKeysFile(file, [...tiers.keys()]);
  }

  private use(keys: readonly ClientKey[], before: ReadonlyMap<string, Client>): void {
    const { tiers } = this.options;
    const clients = new Map<string, Client>();
    const table = new Map<string, KnownKey>();
    for (const { name, tier: tierName, digest, expires = Infinity } of keys) {
      const tier = tiers.get(tierName)!;
      const known = clients.get(name) ?? before.get(name);
      const client = known?.tier === tier ? known : ({ kind: "key", name, tier, id: `key:${name}` } as const);
      table.set(digest, { expires, client });
      clients.set(name, client);
    }
    this.keys = keys;
    this.clients = clients;
    this.table = table;
  }

  private report(before: readonly ClientKey[]): void {
    const changes = compare(before, this.keys);
    if (Object.values(changes).some((names) => names.length > 0)) this.options.observer.keysChanged(changes);
  }

  /** Puts the file to use, or says why not; false where it is too early to say. */
  private take(steadyFor: Duration): boolean {
    // A look that had begun before the stop.
    if (this.unfollow === undefined) return true;
    const { observer } = this.options;
    let keys: readonly ClientKey[];
    try {
      keys = this.read();
    } catch (error) {
      // What cannot be read, as there are no descriptors left, is read again and again.
      if (steadyFor >= DOUBT) observer.keysRead(messageOf(error));
      return false;
    }
    if (this.isDoubtful(keys, this.keys)) return false;
    const before = this.keys;
    this.use(keys, this.clients);
    observer.keysRead(undefined);
    this.report(before);
    return true;
  }

  /** A file that is just being written holds fewer at first. */
  private isDoubtful(keys: readonly ClientKey[], before: readonly ClientKey[]): boolean {
    const now = this.options.files.clock.now();
    if (keys.length < before.length) this.fewerSince ??= now;
    else this.fewerSince = undefined;
    const isDoubtful = this.fewerSince !== undefined && now - this.fewerSince < DOUBT;
    if (!isDoubtful) this.fewerSince = undefined;
    return isDoubtful;
  }
}

function messageOf(error: unknown): string {
  return error instanceof ConfigError ? describeProblems(error.problems).join("; ") : String(error);
}

function compare(before: readonly ClientKey[], now: readonly ClientKey[]): KeyChanges {
  const [old, next] = [groupByName(before), groupByName(now)];
  const names = [...next.keys()];
  return {
    added: names.filter((name) => !old.has(name)),
    removed: [...old.keys()].filter((name) => !next.has(name)),
    changed: names.filter((name) => old.has(name) && old.get(name) !== next.get(name)),
  };
}

/** All that is said of each client, as text to compare. */
function groupByName(keys: readonly ClientKey[]): ReadonlyMap<string, string> {
  const texts = new Map<string, string[]>();
  for (const { name, tier, digest, expires } of keys) {
    const text = `${tier} ${digest} ${expires ?? ""}`;
    const others = texts.get(name);
    if (others === undefined) texts.set(name, [text]);
    else others.push(text);
  }
  return new Map([...texts].map(([name, all]) => [name, all.toSorted().join("\n")]));
}
