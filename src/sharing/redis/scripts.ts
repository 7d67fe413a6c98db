import type { Cluster, Redis } from "ioredis";

/** A Lua script that Redis runs as one command; without `lua`, a command of Redis's own. */
export interface Script {
  /** For traces. Also the name of the command that the client has for it. */
  readonly name: string;
  readonly lua?: string;
}

export const PUBLISH: Script = { name: "publish" };
export const HDEL: Script = { name: "hdel" };

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
  /** All in one slot of a cluster; of {@link PUBLISH} the channel. */
  readonly keys: readonly string[];
  readonly args: readonly ScriptArgument[];
  /** Strings in the reply come as bytes. */
  readonly binary?: boolean;
}

type Command = (keyCount: number, ...keysAndArgs: readonly ScriptArgument[]) => Promise<unknown>;

/** Runs a script by its digest; one that Redis does not know (it was restarted) is sent in full by the client. */
export function runScript(client: Redis | Cluster, { script, keys, args, binary }: ScriptCall): Promise<unknown> {
  if (script.lua === undefined) return client.call(script.name, ...keys, ...args);
  const commands = client as unknown as Record<string, Command | undefined>;
  if (commands[script.name] === undefined) client.defineCommand(script.name, { lua: script.lua });
  return commands[binary === true ? `${script.name}Buffer` : script.name]!(keys.length, ...keys, ...args);
}
