import type { Config } from "./schema.ts";

/** A line of the keys file. */
export interface ClientKey {
  readonly name: string;
  readonly tier: string;
  /** SHA-256 of the key, base64url. */
  readonly digest: string;
  /** Milliseconds since the epoch. */
  readonly expires?: number;
}

/** A configuration with the texts of all files that it names, read at one moment: a reload takes all of it or nothing. */
export interface LoadedConfig {
  readonly config: Config;
  /** Texts of `certFile`, `keyFile`, `caFile`, by absolute path. */
  readonly texts: ReadonlyMap<string, string>;
  /** Keys in `clients.keysFile`; none without it. */
  readonly keys: readonly ClientKey[];
  /** Twelve hex digits that stand for the effective configuration without its secrets. */
  readonly digest: string;
  /** Sentences for operators: what is allowed and probably not meant. */
  readonly warnings: readonly string[];
  /** Absolute paths of the configuration and of every file it names: a change of one is read again. */
  readonly files: readonly string[];
}
