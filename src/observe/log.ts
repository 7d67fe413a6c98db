import { type DestinationStream, type LevelWithSilent, pino } from "pino";
import { type Clock, systemClock } from "../clock.ts";
import { toPrintableJson } from "../words/printable.ts";
import type { Logger } from "./log-events.ts";
import { LogOutput } from "./log-output.ts";
import { withoutSecrets } from "./redaction.ts";

export type { Logger } from "./log-events.ts";

export interface LoggerOptions {
  readonly clock?: Clock;
  /** Standard output where there is none. */
  readonly destination?: DestinationStream;
}

/**
 * JSON lines, each with `level` as a word, `time` in ISO 8601, `msg` and the fields that `LOG_EVENTS` lists for
 * that message.
 */
export function createLogger(
  level: LevelWithSilent,
  { clock = systemClock(), destination }: LoggerOptions = {},
): Logger {
  const output = destination ?? new LogOutput(clock);
  const logger = pino(
    {
      level,
      base: null,
      timestamp: () => `,"time":"${new Date(clock.wallNow()).toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: describeError },
      hooks: { streamWrite: toPrintableJson },
    },
    output,
  );
  const own = output instanceof LogOutput ? output : undefined;
  return Object.assign(logger, { droppedLines: () => own?.dropped ?? 0, end: async () => own?.end() });
}

/** An error as it may stand in a line: messages can hold addresses and ids, the places in a stack can't. */
function describeError(error: unknown): object {
  if (!(error instanceof Error)) return { type: typeof error };
  const { code } = error as NodeJS.ErrnoException;
  const frames = (error.stack ?? "").split("\n").filter((line) => /^\s+at /.test(line));
  return { type: error.name, code, message: withoutSecrets(error.message), stack: frames.map((line) => line.trim()) };
}

/** What may be logged of an error's cause: its code or class, never its text, which holds hosts and addresses. */
export function causeOf(error: unknown): string | undefined {
  let cause = error;
  while (cause instanceof Error && cause.cause instanceof Error) cause = cause.cause;
  if (!(cause instanceof Error)) return undefined;
  const { code } = cause as NodeJS.ErrnoException;
  return typeof code === "string" ? code : cause.name;
}
