import { monitorEventLoopDelay } from "node:perf_hooks";
import { optionsOfParent, tellParent } from "../bench/parent.ts";
import { Wallets, type WalletsOptions, type WalletsResult } from "./wallets.ts";

export type WalletsCommand = { readonly do: "begin"; readonly begin: number } | { readonly do: "purged" };

export interface WalletsReply extends WalletsResult {
  /** Of a core, over the day. */
  readonly cpu: number;
  /** Milliseconds that the event loop was late, at most 99 times of 100: what latencies may be too long by. */
  readonly lateness: number;
}

const options = optionsOfParent() as WalletsOptions;
let wallets: Wallets | undefined;

async function play(begin: number): Promise<void> {
  wallets = new Wallets(options, begin);
  const delays = monitorEventLoopDelay({ resolution: 1 });
  delays.enable();
  const startedAt = process.cpuUsage();
  const result = await wallets.play();
  const { user, system } = process.cpuUsage(startedAt);
  const cpu = (user + system) / 1000 / (Date.now() - begin);
  tellParent({ ...result, cpu, lateness: delays.percentile(99) / 1e6 - 1 } satisfies WalletsReply);
}

process.on("message", (command: WalletsCommand) => {
  if (command.do === "purged") wallets?.notePurge();
  else void play(command.begin);
});
tellParent({ port: 0 });
