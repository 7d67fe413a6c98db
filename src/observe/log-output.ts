import { constants, fstatSync, openSync, write, writeSync } from "node:fs";
import { Socket } from "node:net";
import type { DestinationStream } from "pino";
import { type Clock, type Duration, type Instant, settledWithin } from "../clock.ts";

const STDOUT = 1;
const STDERR = 2;

/** How long a line may wait for others, and how much may wait: to write a line costs more than to make it. */
const MAX_WAIT: Duration = 5;
const BATCH_CHARACTERS = 8 * 1024;

/** Beyond this number of characters that wait, lines are dropped: some thousand lines wait by then. */
const MOST_WAITING = 1024 * 1024;

/** Until what could not be written is tried again: a reader that is slow, and a disk that is full. */
const SLOW: Duration = 50;
const FULL: Duration = 1_000;

const REMINDER: Duration = 60_000;

/** At the end of the process a write that the kernel has may take this long. */
const LAST_WRITE: Duration = 1_000;

/** At the end of the process a reader gets this number of chances, 10 ms each, to take what is left. */
const LAST_CHANCES = 20;

/** Where text goes, without ever waiting in a thread. */
interface Destination {
  readonly fd: number;
  /** Calls `done` when some of the bytes were taken, or none. One write at a time. */
  write(bytes: Uint8Array, done: (error: NodeJS.ErrnoException | null, taken: number) => void): void;
}

/**
 * Standard output in whole lines, several in one write, and one write at a time. Nobody waits for it: what a full disk or
 * a reader that stalls does not take is dropped beyond a MiB, and counted. What ends the process has to {@link flush} it.
 */
export class LogOutput implements DestinationStream {
  /** Lines that were not written and never will be. */
  dropped = 0;
  private readonly clock: Clock;
  private readonly destination: Destination;
  private complaints: Destination | undefined;
  /** Standard error has not taken the last line about dropped ones. */
  private isComplaining = false;
  private lines = "";
  /** Not written yet of the write before. */
  private rest: Buffer = Buffer.alloc(0);
  private isScheduled = false;
  /** A write is with the kernel. */
  private isWriting = false;
  /** Ends the wait for the write that the kernel has, after which no other one is begun. */
  private onWritten: (() => void) | undefined;
  private fault = "it is not read";
  private remindedAt: Instant = -Infinity;

  constructor(clock: Clock, fd = STDOUT) {
    this.clock = clock;
    this.destination = destinationOf(fd);
  }

  write(line: string): void {
    if (this.lines.length + line.length > MOST_WAITING) {
      this.drop();
      return;
    }
    this.lines += line;
    const isDue = this.lines.length >= BATCH_CHARACTERS && this.rest.length === 0;
    if (isDue && !this.isWriting) this.writeNext();
    else this.schedule(MAX_WAIT);
  }

  /** Writes what waits after the write that the kernel has, so that lines stay in order: at the end of the process alone. */
  async end(): Promise<void> {
    if (this.isWriting) {
      const written = new Promise<void>((resolve) => {
        this.onWritten = resolve;
      });
      await settledWithin(written, LAST_WRITE, this.clock);
    }
    this.flush();
  }

  /** Writes what waits before it returns, as much as is taken: at the end of the process alone. */
  flush(): void {
    let left = Buffer.concat([this.isWriting ? Buffer.alloc(0) : this.rest, Buffer.from(this.lines)]);
    this.lines = "";
    this.rest = Buffer.alloc(0);
    for (let chances = LAST_CHANCES; left.length > 0 && chances > 0;) {
      try {
        left = left.subarray(writeSync(this.destination.fd, left));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "EAGAIN") return;
        chances -= 1;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
      }
    }
  }

  /** What pino calls after a line of level fatal. */
  flushSync(): void {
    this.flush();
  }

  private schedule(wait: Duration): void {
    if (this.isScheduled || this.isWriting) return;
    this.isScheduled = true;
    this.clock.after(wait, () => {
      this.isScheduled = false;
      if (!this.isWriting) this.writeNext();
    });
  }

  private writeNext(): void {
    if (this.rest.length === 0) {
      this.rest = Buffer.from(this.lines);
      this.lines = "";
    }
    if (this.rest.length === 0) return;
    this.isWriting = true;
    this.destination.write(this.rest, (error, bytes) => {
      this.isWriting = false;
      if (error === null) this.rest = this.rest.subarray(bytes);
      if (this.onWritten !== undefined) return this.onWritten();
      if (error === null) {
        if (this.rest.length > 0 || this.lines !== "") this.writeNext();
        return;
      }
      const isSlow = error.code === "EAGAIN";
      this.fault = isSlow ? "it is not read" : String(error.code);
      this.schedule(isSlow ? SLOW : FULL);
    });
  }

  private drop(): void {
    this.dropped += 1;
    const now = this.clock.now();
    if (now - this.remindedAt < REMINDER) return;
    this.remindedAt = now;
    if (this.isComplaining) return;
    this.isComplaining = true;
    const text = `registry-gateway: standard output takes no more log lines (${this.fault}): ${this.dropped} dropped so far\n`;
    this.complaints ??= destinationOf(STDERR);
    this.complaints.write(Buffer.from(text), () => {
      this.isComplaining = false;
    });
  }
}

/**
 * What a descriptor leads to, in the way that never waits: a write that waits would hold a thread that files and names
 * need, and keep the process from its end.
 */
function destinationOf(fd: number): Destination {
  try {
    const stat = fstatSync(fd);
    if (stat.isFIFO()) {
      // The same pipe, opened anew: only this file is changed by it, for others may share the one that was inherited.
      return fileAt(openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK));
    }
    return stat.isSocket() ? socketAt(fd) : fileAt(fd);
  } catch {
    return fileAt(fd);
  }
}

function fileAt(fd: number): Destination {
  return { fd, write: (bytes, done) => write(fd, bytes, (error, taken) => done(error, taken)) };
}

/** Such as that of systemd's journal. */
function socketAt(fd: number): Destination {
  const socket = new Socket({ fd, readable: false, writable: true });
  // The writer gets it.
  socket.on("error", () => undefined);
  socket.unref();
  return {
    fd,
    write: (bytes, done) => socket.write(bytes, (error) => done(error ?? null, error ? 0 : bytes.length)),
  };
}
