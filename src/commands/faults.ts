import type { Logger } from "../observe/log.ts";
import { EXIT } from "./command-line.ts";

/**
 * What becomes of faults that nothing caught. After an exception nobody knows what was left half done, so the process
 * ends and is started anew. A promise that failed unheard left nothing half done but its own work: serving goes on.
 */
export function handleFaults(log: Logger): void {
  // Lines wait for others for a moment: however the process ends, they are written first.
  process.on("exit", () => log.flush());
  process.on("uncaughtException", (error) => {
    log.fatal({ err: error }, "unexpected error");
    process.exit(EXIT.failure);
  });
  process.on("unhandledRejection", (reason) => {
    log.error({ err: reason }, "unexpected rejection");
  });
}
