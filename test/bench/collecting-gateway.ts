import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { run } from "../../src/commands/run.ts";

// The gateway, which says at SIGUSR2 what memory it uses after a garbage collection: without one, what it says is chance.
setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;
process.on("SIGUSR2", () => {
  collect();
  const { heapUsed, external, rss } = process.memoryUsage();
  process.stdout.write(`${JSON.stringify({ collected: { used: heapUsed + external, resident: rss } })}\n`);
});

process.exitCode = await run(process.argv.slice(2));
