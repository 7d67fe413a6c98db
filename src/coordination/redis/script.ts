import { createHash } from "node:crypto";
import type { Cluster, Redis } from "ioredis";

/** A Lua script that Redis runs as one command. */
export class Script {
  /** For metrics. */
  readonly name: string;
  readonly lua: string;
  readonly sha: string;

  /**
   * `no-writes` also runs on a read-only replica and in a full Redis; `allow-oom` writes little and also runs in a full
   * Redis, where purging and leasing must go on.
   */
  constructor(name: string, flags: "no-writes" | "allow-oom" | "", body: string) {
    this.name = name;
    this.lua = `#!lua${flags === "" ? "" : ` flags=${flags}`}\n${body.trim()}\n`;
    this.sha = createHash("sha1").update(this.lua).digest("hex");
  }
}

/** What a script takes besides its keys. */
export type ScriptArgument = string | number | Buffer;

/** One run of a script. */
export interface ScriptCall {
  readonly script: Script;
  /** All in one slot of a cluster. */
  readonly keys: readonly string[];
  readonly args: readonly ScriptArgument[];
  /** Strings in the reply come as bytes. */
  readonly binary?: boolean;
}

/** Runs a script by its digest; one that Redis does not know (it was restarted) is sent in full. */
export async function runScript(client: Redis | Cluster, call: ScriptCall): Promise<unknown> {
  try {
    return await send(client, call, "evalsha");
  } catch (error) {
    if (!(error instanceof Error) || !error.message.startsWith("NOSCRIPT")) throw error;
    return send(client, call, "eval");
  }
}

function send(client: Redis | Cluster, call: ScriptCall, command: "eval" | "evalsha"): Promise<unknown> {
  const args = [command === "eval" ? call.script.lua : call.script.sha, call.keys.length, ...call.keys, ...call.args];
  return call.binary === true ? client.callBuffer(command, ...args) : client.call(command, ...args);
}
