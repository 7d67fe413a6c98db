import { createHash } from "node:crypto";
import { type DestinationStream, type Logger, pino } from "pino";

export type { Logger } from "pino";

/** JSON lines: `level` as a word, `time` in ISO 8601, `msg`. */
export function createLogger(level: string, destination?: DestinationStream): Logger {
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    destination ?? pino.destination({ fd: 1, sync: true }),
  );
}

/** A short stable stand-in for an id in a log line: lines about one id can be found, the id can't be read. */
export function hashId(id: string): string {
  return createHash("sha256").update(id).digest("hex").slice(0, 12);
}

/** What may be logged of an error's cause: its code or class, never its text, which holds hosts and addresses. */
export function causeOf(error: unknown): string | undefined {
  let cause = error;
  while (cause instanceof Error && cause.cause instanceof Error) cause = cause.cause;
  if (!(cause instanceof Error)) return undefined;
  const { code } = cause as NodeJS.ErrnoException;
  return typeof code === "string" ? code : cause.name;
}
