import { createHash, timingSafeEqual } from "node:crypto";
import type { Config } from "../config/schema.ts";
import { findTokenFault, readSecret } from "../config/secret.ts";
import { type FileWatcher, WatchedFiles } from "../config/watched-files.ts";
import type { Logger } from "../observe/log.ts";
import type { Metrics } from "../observe/metrics.ts";

/** Who showed a token. */
export interface Identity {
  /** Of `operations.tokens`; undefined: the token is `operations.token` or of `tokenFile`. */
  readonly name: string | undefined;
  /** May read everything, and change nothing. */
  readonly isReadonly: boolean;
  /** Of the token: a session ends when its token is in use no more. */
  readonly digest: Buffer;
}

/** A token as it is configured. */
interface TokenSource {
  readonly name: string | undefined;
  readonly isReadonly: boolean;
  readonly read: () => string | undefined;
  readonly file: WatchedFiles<string> | undefined;
}

interface OperatorsOptions {
  readonly files: FileWatcher;
  readonly log: Logger;
  readonly metrics?: Pick<Metrics, "operationsTokenUnusable">;
}

/** The operators' tokens. Files are read again when they change; what was good last stays while one is no good. */
export class Operators {
  private readonly sources: readonly TokenSource[];
  private readonly faulty = new Map<string, string>();

  /** @throws when a file cannot be read */
  constructor(
    { token, tokenFile, tokens }: Pick<Config["operations"], "token" | "tokenFile" | "tokens">,
    options: OperatorsOptions,
  ) {
    const ofFile = (name: string | undefined, path: string, isReadonly: boolean): TokenSource => {
      const file = this.watch(name, path, options);
      return { name, isReadonly, file, read: () => file.current };
    };
    options.metrics?.operationsTokenUnusable.set(0);
    this.sources = [
      ...(tokenFile === undefined ? [] : [ofFile(undefined, tokenFile, false)]),
      ...(token === undefined ? [] : [{ name: undefined, isReadonly: false, file: undefined, read: () => token }]),
      ...tokens.map((each) => ofFile(each.name, each.tokenFile, each.readonly)),
    ];
  }

  /** There is a token, and so it is needed. */
  get isTokenNeeded(): boolean {
    return this.sources.length > 0;
  }

  /** Names of operators whose files are no good, with what is wrong. */
  get faults(): ReadonlyMap<string, string> {
    return this.faulty;
  }

  /** Looks for changes of the files no more. */
  close(): void {
    for (const { file } of this.sources) file?.close();
  }

  /** Whose token it is. All are compared, by their digests: how long it takes says nothing about any of them. */
  find(token: string): Identity | undefined {
    return this.findDigest(digestOf(token));
  }

  /** Whose token has this digest now. Two operators with one token may do what both of them may. */
  findDigest(digest: Buffer): Identity | undefined {
    let found: Identity | undefined;
    for (const { name, isReadonly, read } of this.sources) {
      const token = read();
      const isSame = token !== undefined && timingSafeEqual(digestOf(token), digest);
      if (isSame && (found === undefined || isReadonly)) found = { name, isReadonly, digest };
    }
    return found;
  }

  private watch(
    name: string | undefined,
    file: string,
    { files, log, metrics }: OperatorsOptions,
  ): WatchedFiles<string> {
    const read = () => readSecret(file, findTokenFault);
    // At the start a file that is no good is an error; later it is one that is being written.
    read();
    const who = name ?? "operations.tokenFile";
    return new WatchedFiles({
      watcher: files,
      files: [file],
      read,
      onRead: (fault) => {
        if (fault === this.faulty.get(who)) return;
        if (fault === undefined) this.faulty.delete(who);
        else {
          this.faulty.set(who, fault);
          log.warn({ operator: who, fault }, "operations token cannot be used");
        }
        metrics?.operationsTokenUnusable.set(this.faulty.size === 0 ? 0 : 1);
      },
    });
  }
}

function digestOf(token: string): Buffer {
  return createHash("sha256").update(token).digest();
}
