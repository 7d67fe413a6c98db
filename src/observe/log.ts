import { type DestinationStream, type LevelWithSilent, pino } from "pino";
import type { Clock, Duration } from "../clock.ts";
import type { Logger } from "./log-events.ts";
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
  const logger = pino(
    {
      level,
      base: worker === undefined ? null : { worker },
      timestamp,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: describeError },
    },
    output,
  );
  return Object.assign(logger, {
    request(fields: string): void {
      if (logger.isLevelEnabled("info")) {
        output.write(`{"level":"info"${timestamp()}${base},${fields},"msg":"request"}\n`);
      }
    },
  });
}

/** As pino's own, but made once for all lines of a millisecond, and but for three digits once for those of a second. */
function isoTime(clock: Clock): () => string {
  let last = Number.NaN;
  let second = Number.NaN;
  let start = "";
  let text = "";
  return () => {
    const now = Math.floor(clock.wallNow());
    if (now === last) return text;
    last = now;
    const seconds = Math.floor(now / 1_000);
    if (seconds !== second) {
      second = seconds;
      start = `,"time":"${new Date(seconds * 1_000).toISOString().slice(0, -"000Z".length)}`;
    }
    text = `${start}${String(now - seconds * 1_000).padStart(3, "0")}Z"`;
    return text;
  };
}

/** How long a line may wait for others, and how much may wait: to write a line costs more than to make it. */
const MAX_WAIT: Duration = 5;
const BATCH_CHARACTERS = 8 * 1024;

/** Standard output in whole lines, several in one write. What ends the process has to {@link flush} it. */
class LineBatch implements DestinationStream {
  // Of a text it would make bytes a second time, to know what is left to write. Its type knows texts alone.
  private readonly output = pino.destination({ fd: 1, sync: true, contentMode: "buffer" }) as unknown as {
    write(lines: Buffer): void;
  };
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
    const lines = Buffer.from(this.lines);
    this.lines = "";
    this.output.write(lines);
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
