import { open } from "node:fs/promises";
import type { Clock, Duration, Instant } from "../clock.ts";
import type { Logger } from "./log.ts";

const LOOK_EVERY: Duration = 1_000;
const REMINDER: Duration = 600_000;

/** As long as one can be had for so long, the lack is over. */
const RECOVERY: Duration = 10_000;

/**
 * Says when the process can open no file and no connection any more. Node does not learn of clients that the system turns
 * away for want of a descriptor, so one is asked for every second.
 */
export function watchFileDescriptors(clock: Clock, log: Logger): void {
  let lackedAt: Instant | undefined;
  let saidAt: Instant = -Infinity;
  const look = async (): Promise<void> => {
    const code = await findLack();
    const now = clock.now();
    if (code === undefined) {
      if (lackedAt === undefined || now - lackedAt < RECOVERY) return;
      lackedAt = undefined;
      saidAt = -Infinity;
      log.info({}, "file descriptors can be had again");
      return;
    }
    lackedAt = now;
    if (now - saidAt < REMINDER) return;
    saidAt = now;
    log.error(
      { code },
      "out of file descriptors: raise the limit (ulimit -n, LimitNOFILE) or lower listen.maxConnections",
    );
  };
  const next = (): void => {
    clock.after(LOOK_EVERY, () => void look().finally(next));
  };
  next();
}

/** EMFILE: this process has as many as it may; ENFILE: the machine. Undefined: one could be had. */
async function findLack(): Promise<string | undefined> {
  try {
    const file = await open("/dev/null");
    await file.close();
    return undefined;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === "EMFILE" || code === "ENFILE" ? code : undefined;
  }
}
