import { type DestinationStream, type Logger, pino } from "pino";
import { type Clock, settledWithin, systemClock } from "../clock.ts";
import type { Config } from "../config/schema.ts";
import { printable } from "../json.ts";

export type { Logger } from "pino";

/** The log with what its writer tells. */
export interface Log {
  readonly log: Logger;
  /** Lines that were left out since the process began, because nobody read the output or its disk was full. */
  droppedLines(): number;
  /** Writes what waits, for at most 2 s: nobody may read it. */
  flush(): Promise<void>;
}

/** Bytes that are written together, fewer than pino writes at most. A line waits for others {@link FLUSH_EVERY} at most. */
const LEAST_WRITTEN = 16_000;
const FLUSH_EVERY = 100;
/** Bytes that wait for a slow reader; what comes then is dropped. */
const MOST_WAITING = 2 ** 20;

const LONGEST_FLUSH = 2_000;

/** Characters of a line; each foreign text in it is cut before. */
const LONGEST_LINE = 65_536;
const LONGEST_MESSAGE = 500;
const MOST_FRAMES = 12;
const MOST_CAUSES = 5;

/** Fields of which a line never has the value, whoever logs them. */
const SECRET_FIELDS = ["authorization", "proxy-authorization", "x-api-key", "cookie"];
const SECRETS = SECRET_FIELDS.flatMap((name) => [`["${name}"]`, `headers["${name}"]`]);

/**
 * JSON lines with `level` as a word, `time` in ISO 8601 and `msg`. Writing never waits: what a reader doesn't take is dropped
 * and counted. Characters that act on a terminal are escaped, wherever a text came from.
 *
 * @param destination for tests; else standard output
 */
export function createLog(config: Config["log"], destination?: DestinationStream, clock: Clock = systemClock()): Log {
  const output = destination === undefined ? standardOutput() : undefined;
  const log = pino(
    {
      level: config.level,
      base: null,
      timestamp: () => `,"time":"${new Date(clock.wallNow()).toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: describeError },
      redact: { paths: SECRETS, censor: "…" },
      hooks: { streamWrite: (line) => `${printable(inBounds(line.slice(0, -1)), LONGEST_LINE)}\n` },
    },
    output?.stream ?? destination!,
  );
  return { log, droppedLines: () => output?.dropped() ?? 0, flush: () => flushLog(log, clock) };
}

/** Writes what waits, for at most 2 s: nobody may read it. */
export async function flushLog(log: Logger, clock: Clock): Promise<void> {
  const flush = (): Promise<void> => new Promise((resolve) => log.flush(() => resolve()));
  // A flush ends with the write that is under way: what came behind that takes another one.
  await settledWithin(flush().then(flush), LONGEST_FLUSH, clock);
}

/** A line that is cut would be no JSON any more: of one that is too long there stays what it is about. */
function inBounds(line: string): string {
  if (line.length <= LONGEST_LINE) return line;
  const { level, time, msg } = JSON.parse(line) as Readonly<Record<string, unknown>>;
  return JSON.stringify({ level, time, msg: printable(String(msg), LONGEST_MESSAGE), characters: line.length });
}

function standardOutput() {
  let dropped = 0;
  const stream = pino.destination({
    dest: 1,
    sync: false,
    minLength: LEAST_WRITTEN,
    maxLength: MOST_WAITING,
    periodicFlush: FLUSH_EVERY,
  });
  stream.on("drop", () => {
    dropped += 1;
  });
  // pino's own flush, at the exit and behind a fatal line, tries again for ever where nothing can be written.
  stream.flushSync = () => undefined;
  // A full disk: what waits is written again with the next line, or dropped. Behind a reader that is gone, nothing is.
  stream.on("error", ({ code }: NodeJS.ErrnoException) => {
    if (code === "EPIPE") stream.write = (line) => stream.emit("drop", line);
  });
  return { stream, dropped: () => dropped };
}

/** An error as it stands in a line: texts cut, causes as a list. */
function describeError(error: unknown): object {
  if (!(error instanceof Error)) return { message: printable(String(error), LONGEST_MESSAGE) };
  const { code } = error as NodeJS.ErrnoException;
  const frames = (error.stack ?? "").split("\n", 2 * MOST_FRAMES).filter((line) => /^\s+at /.test(line));
  const causes = causesOf(error);
  return {
    type: error.name,
    ...(typeof code === "string" && { code }),
    message: printable(error.message, LONGEST_MESSAGE),
    ...(causes.length > 0 && { causes }),
    stack: frames.slice(0, MOST_FRAMES).map((line) => printable(line.trim())),
  };
}

/** Lists what was behind an error, the nearest first, each cut: `connect ECONNREFUSED 127.0.0.1:1`. */
export function causesOf(error: Error): string[] {
  const causes: string[] = [];
  for (let { cause } = error; cause instanceof Error && causes.length < MOST_CAUSES; cause = cause.cause) {
    causes.push(printable(cause.message || cause.name, LONGEST_MESSAGE));
  }
  return causes;
}
