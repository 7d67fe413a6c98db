import type { CancelTimer, Clock, Duration, Instant } from "../clock.ts";
import { readText, type Reloader } from "./reloader.ts";

/** Between two looks at the file. */
const LOOK_EVERY: Duration = 1_000;

/** A text that may be half of one that is being written has to stay the same for so long. */
const DOUBT: Duration = 5_000;

/** A text that is not in use yet, and when it was seen first. */
interface Sight {
  readonly text: string | undefined;
  readonly since: Instant;
}

/**
 * Reloads when the file holds something else than before, however that came about: written in place, renamed over, or
 * behind a symbolic link that changed, as Kubernetes does it; and when a file that it names, without which it could not
 * be used, is another one. A text has to be seen twice in a row, and for a while where it may be half of one, so that a
 * file that is just being written is not taken for a whole one.
 */
export class ConfigWatch {
  private readonly file: string;
  private readonly reloader: Reloader;
  private readonly clock: Clock;
  private cancel: CancelTimer = () => {};
  private isStopped = false;

  constructor(file: string, reloader: Reloader, clock: Clock) {
    this.file = file;
    this.reloader = reloader;
    this.clock = clock;
  }

  start(): void {
    this.next(undefined);
  }

  stop(): void {
    this.isStopped = true;
    this.cancel();
  }

  private next(seen: Sight | undefined): void {
    if (this.isStopped) return;
    this.cancel = this.clock.after(LOOK_EVERY, () => void this.look(seen));
  }

  private async look(seen: Sight | undefined): Promise<void> {
    const text = await readText(this.file);
    if (this.isStopped) return;
    if (this.reloader.hasTried(text)) return this.next(undefined);
    const now = this.clock.now();
    if (seen === undefined || seen.text !== text) return this.next({ text, since: now });
    if (now - seen.since < DOUBT && this.reloader.isDoubtful(text)) return this.next(seen);
    await this.reloader.reload("file");
    this.next(undefined);
  }
}
