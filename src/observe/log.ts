import { type DestinationStream, type LevelWithSilent, pino } from "pino";
import type { Clock, Duration } from "../clock.ts";
import type { LogEvent, Logger } from "./log-events.ts";
import { withoutSecrets } from "./redaction.ts";

export type { Logger } from "./log-events.ts";

export interface LoggerOptions {
  /** The worker that it is the log of. */
  readonly worker?: number;
  /** With it, lines wait for others; without it, each is written by itself. */
  readonly clock?: Clock;
  /** Standard output where there is none. */
  readonly destination?: DestinationStream;
}

/**
 * JSON lines, each with `level` as a word, `time` in ISO 8601, `msg` and the fields that `LOG_EVENTS` lists for
 * that message; of a worker, its number in `worker`.
 */
export function createLogger(level: LevelWithSilent, { worker, clock, destination }: LoggerOptions = {}): Logger {
  const output = destination ?? (clock === undefined ? pino.destination({ fd: 1, sync: true }) : new LineBatch(clock));
  const timestamp = clock === undefined ? pino.stdTimeFunctions.isoTime : isoTime(clock);
  const base = worker === undefined ? "" : `,"worker":${worker}`;
  return pino(
    {
      level,
      base: worker === undefined ? null : { worker },
      timestamp,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: describeError },
      hooks: {
        // The line of a request is the one that is written all the time, and its fields are plain: pino takes four times
        // as long to make it.
        logMethod(args, method, level) {
          const [fields, event] = args as unknown as [object, LogEvent];
          if (event !== "request" || level !== INFO) return method.apply(this, args);
          const line = JSON.stringify(fields);
          output.write(`{"level":"info"${timestamp()}${base},${line.slice(1, -1)},"msg":"request"}\n`);
        },
      },
    },
    output,
  );
}

const INFO = pino.levels.values["info"]!;

/** As pino's own, but made once for all lines of a millisecond. */
function isoTime(clock: Clock): () => string {
  let last = 0;
  let text = "";
  return () => {
    const now = Math.floor(clock.wallNow());
    if (now !== last) {
      last = now;
      text = `,"time":"${new Date(now).toISOString()}"`;
    }
    return text;
  };
}

/** How long a line may wait for others, and how much may wait: to write a line costs more than to make it. */
const MAX_WAIT: Duration = 5;
const BATCH_CHARACTERS = 8 * 1024;

/** Standard output in whole lines, several in one write. What ends the process has to {@link flush} it. */
class LineBatch implements DestinationStream {
  private readonly output = pino.destination({ fd: 1, sync: true });
  private readonly clock: Clock;
  private lines = "";
  private isWaiting = false;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  write(line: string): void {
    this.lines += line;
    if (this.lines.length >= BATCH_CHARACTERS) this.flush();
    else if (!this.isWaiting) {
      this.isWaiting = true;
      this.clock.after(MAX_WAIT, () => {
        this.isWaiting = false;
        this.flush();
      });
    }
  }

  /** Writes what waits. Not by sonic-boom's own buffer: what flushes that also waits for the disk. */
  flush(): void {
    if (this.lines === "") return;
    this.output.write(this.lines);
    this.lines = "";
  }

  /** What pino calls after a line of level fatal. */
  flushSync(): void {
    this.flush();
  }
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
