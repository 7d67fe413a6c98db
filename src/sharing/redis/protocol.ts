import type { Cluster, Redis } from "ioredis";
import { digestOf } from "../../digest.ts";
import { isEpoch } from "../epochs.ts";
import { isObject } from "../../json.ts";
import { type LimitKind, MOST_WINDOWS } from "../limits.ts";

/** How one command to Redis ended. */
export const COMMAND_OUTCOMES = ["ok", "error", "timeout"] as const;
export type CommandOutcome = (typeof COMMAND_OUTCOMES)[number];

/** What is read from Redis, by what it is for: where it is not the gateway's it is taken for absent, and counted. */
export const REDIS_VALUES = [
  "entry",
  "epoch",
  "chain",
  "lease",
  "fact",
  "action",
  "replica",
  "message",
  "pin",
] as const;
export type RedisValue = (typeof REDIS_VALUES)[number];

/** Why it is not the gateway's: by its form, or because its seal does not open. */
export const REJECTIONS = ["form", "seal"] as const;
export type Rejection = (typeof REJECTIONS)[number];

/** Written into the key of each entry: a release that reads entries differently does not find the old ones. */
const ENTRY_FORMAT = 5;

/** Written into the key of each table but epochs, which are the same for all releases. */
const TABLE_FORMAT = 2;

/**
 * The keys in Redis. Where values are sealed, what only such gateways can use has keys of its own, with a `!`: those
 * without a seal key, while there are some, have theirs. Epochs and actions are for all. What is in braces is a hash
 * tag: epochs, chains and entries of one partition share a slot of a cluster, so that one script reads them all.
 */
export class Keys {
  private readonly prefix: string;
  private readonly sealed: "" | "!";

  constructor(prefix: string, areSealed = false) {
    this.prefix = prefix;
    this.sealed = areSealed ? "!" : "";
  }

  /** Epochs: a hash of scope → epoch. */
  epochs(tag: string): string {
    return `${this.prefix}{${tag}}:e`;
  }

  /** The digest of the page that issued a token. */
  chain(tag: string, chain: string): string {
    return `${this.prefix}{${tag}}:c${this.sealed}:${digestOf(chain)}`;
  }

  /** The variants of one resource: a hash of variant → entry. */
  entry(tag: string, id: string): string {
    return `${this.prefix}{${tag}}:${ENTRY_FORMAT}${this.sealed}:${digestOf(id)}`;
  }

  lease(name: string): string {
    return `${this.prefix}l${this.sealed}:${name}`;
  }

  /** The calls that a limit counts. Not sealed: Redis counts them itself. */
  limit(kind: LimitKind, id: string): string {
    return `${this.prefix}n:${kind}:${digestOf(id)}`;
  }

  /** The slots of a client's requests that run at once. */
  slots(name: string): string {
    return `${this.prefix}s:${digestOf(name)}`;
  }

  fact(name: string): string {
    return `${this.prefix}f${this.sealed}:${digestOf(name)}`;
  }

  /** What operators did: a table of target → action. */
  get actions(): string {
    return this.table("actions");
  }

  /** What was found for admins: a table of the admin's digest → pin. */
  get pins(): string {
    return this.table(`pins${this.sealed}`);
  }

  /** The replicas alive: a table of id → what it says of itself. */
  get replicas(): string {
    return this.table("replicas");
  }

  /** The replicas of the release before {@link TABLE_FORMAT}: a sorted set of id → time of the last beat. */
  get earlierReplicas(): string {
    return `${this.prefix}r`;
  }

  /** The one channel that replicas talk on. */
  get channel(): string {
    return `${this.prefix}bus`;
  }

  private table(name: string): string {
    return `${this.prefix}${TABLE_FORMAT}:${name}`;
  }
}

/** A Lua script that Redis runs as one command. */
export interface Script {
  /** For metrics. Also the name of the command that the client has for it. */
  readonly name: string;
  readonly lua: string;
}

/**
 * `no-writes` also runs on a read-only replica and in a full Redis; `allow-oom` writes little and also runs in a full
 * Redis, where purging and leasing must go on.
 */
export type ScriptFlags = "no-writes" | "allow-oom" | "";

export function defineScript(name: string, flags: ScriptFlags, body: string): Script {
  return { name, lua: `#!lua${flags === "" ? "" : ` flags=${flags}`}\n${body.trim()}\n` };
}

/** Lua: a sealed text without its seal. */
export const PLAIN = `
local function plain(text) return text and string.match(text, '^[^!]*') or '' end`;

/** Lua for `now`: Redis's time in milliseconds. */
export const NOW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)`;

/** Lua for `now`: Redis's time in milliseconds with microseconds behind the point. */
export const NOW_MICROSECONDS = `
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000`;

/** Lua for `bounded(key, name, most)`: a field of a hash; '' where it is absent, foreign, or longer than `most` bytes. */
export const BOUNDED = `
local function bounded(key, name, most)
  local size = redis.pcall('HSTRLEN', key, name)
  if type(size) ~= 'number' or size == 0 or size > most then return '' end
  return redis.call('HGET', key, name)
end`;

/** Lua: what is under the first key gives way when it is of another type, which no command of ours can read. */
export function clearForeign(type: "hash" | "string" | "zset"): string {
  return `
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= '${type}' and kind ~= 'none' then redis.call('DEL', KEYS[1]) end`;
}

/** What a script takes besides its keys. */
type ScriptArgument = string | number | Buffer;

/** One run of a script. */
export interface ScriptCall {
  readonly script: Script;
  /** All in one slot of a cluster. */
  readonly keys: readonly string[];
  readonly args: readonly ScriptArgument[];
  /** Strings in the reply come as bytes. */
  readonly binary?: boolean;
}

type Command = (keyCount: number, ...keysAndArgs: readonly ScriptArgument[]) => Promise<unknown>;

/** Runs a script by its digest; one that Redis does not know (it was restarted) is sent in full by the client. */
export function runScript(client: Redis | Cluster, { script, keys, args, binary }: ScriptCall): Promise<unknown> {
  const commands = client as unknown as Record<string, Command | undefined>;
  if (commands[script.name] === undefined) client.defineCommand(script.name, { lua: script.lua });
  return commands[binary === true ? `${script.name}Buffer` : script.name]!(keys.length, ...keys, ...args);
}

/** What replicas tell each other. Each is told once and may be lost: nothing may depend on its arrival but speed. */
export type Message =
  /** The scope of the partition behind `tag` has a new epoch since `at` (Redis's clock). */
  | {
      readonly kind: "epoch";
      readonly tag: string;
      readonly scope: string;
      readonly epoch: string;
      readonly at: number;
    }
  /** The table behind `tag` is to be read: a replica wrote rows, or mended epochs as far as it knew. */
  | { readonly kind: "look"; readonly tag: string }
  /** A token was issued by a page with other contents than before. */
  | { readonly kind: "chain"; readonly tag: string; readonly chain: string; readonly digest: string }
  | { readonly kind: "lease"; readonly name: string; readonly outcome: string }
  /** A replica took calls of the limit behind `key` that are beyond its share of these windows. */
  | {
      readonly kind: "borrowed";
      readonly key: string;
      readonly by: string;
      readonly windows: readonly { readonly name: string; readonly per: number; readonly count: number }[];
    }
  /** What a process announced to all. */
  | { readonly kind: "news"; readonly news: string };

/** Longer than every message: a scope may be of an id as long as a URL may be. */
export const LONGEST_MESSAGE = 2 ** 21;

/** The longest window of a rate limit that the configuration allows, and some. */
const LONGEST_WINDOW = 90_000_000;

/** A message as a list that {@link parseMessage} reads. */
export function formatMessage(message: Message): string {
  const { kind, ...rest } = message;
  return JSON.stringify([kind, ...Object.values(rest)]);
}

/** The message in `text`, or undefined: it is foreign, or of another version of this program. */
export function parseMessage(text: string): Message | undefined {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!Array.isArray(json)) return undefined;
  const parts: readonly unknown[] = json;
  const [kind, first, second, third, at] = parts;
  if (kind === "look" && typeof first === "string") return { kind, tag: first };
  if (kind === "news" && typeof first === "string") return { kind, news: first };
  if (typeof first !== "string" || typeof second !== "string") return undefined;
  if (kind === "lease") return { kind, name: first, outcome: second };
  if (kind === "borrowed") {
    return isBorrowed(third) ? { kind, key: first, by: second, windows: third } : undefined;
  }
  if (typeof third !== "string") return undefined;
  if (kind === "chain") return isChainDigest(third) ? { kind, tag: first, chain: second, digest: third } : undefined;
  if (kind !== "epoch" || !isEpoch(third) || typeof at !== "number" || !Number.isFinite(at)) return undefined;
  return { kind, tag: first, scope: second, epoch: third, at };
}

type Borrowed = Extract<Message, { kind: "borrowed" }>["windows"];

function isBorrowed(windows: unknown): windows is Borrowed {
  if (!Array.isArray(windows) || windows.length > MOST_WINDOWS) return false;
  return windows.every((each: unknown) => {
    if (!isObject(each)) return false;
    const { name, per, count } = each;
    const isLength = typeof per === "number" && per > 0 && per <= LONGEST_WINDOW;
    const isCount = typeof count === "number" && Number.isSafeInteger(count) && count > 0;
    return isLength && isCount && typeof name === "string" && name.length <= 16;
  });
}

/** Whether `text` can stand for the contents of pages, see `Coordinator.issueChain`. */
export function isChainDigest(text: string): boolean {
  return /^[\w-]{1,64}$/.test(text);
}
