import { systemClock } from "../clock.ts";
import { createWorkerServer } from "../gateway.ts";
import { measureLoop } from "../http/workload.ts";
import { createLogger } from "../observe/log.ts";
import { collectProcessMetrics } from "../observe/metrics/process.ts";
import { version } from "../version.ts";
import { channelToPrimary } from "../workers/worker-process.ts";
import { runWorker } from "../workers/worker.ts";
import { EXIT } from "./command-line.ts";
import { handleFaults } from "./faults.ts";

/** What `start` does in a process that its primary started as a worker: serves until the primary says otherwise. */
export async function work(): Promise<number> {
  // A terminal sends its signals to all processes; the primary tells what is to be done.
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, () => {});
  const clock = systemClock();
  await runWorker({
    channel: channelToPrimary(),
    clock,
    createLogger(config, worker) {
      const log = createLogger(config.log.level, { worker, clock });
      handleFaults(log);
      return log;
    },
    createServer(parts) {
      collectProcessMetrics(parts.metrics, parts.registry);
      const residentBytes = () => process.memoryUsage.rss();
      return createWorkerServer(parts, { version, clock, random: Math.random, loop: measureLoop(), residentBytes });
    },
    exit: (how) => process.exit(how === "well" ? EXIT.ok : EXIT.failure),
  });
  return EXIT.ok;
}
