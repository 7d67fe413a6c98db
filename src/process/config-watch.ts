import type { CancelTimer, Clock, Duration } from "../clock.ts";
import { readText, type Reloader } from "./reloader.ts";

/** Between two looks at the file. */
const LOOK_EVERY: Duration = 1_000;

/**
 * Reloads when the file holds something else than before, however that came about: written in place, renamed over, or
 * behind a symbolic link that changed, as Kubernetes does it. A text has to be seen twice in a row, so that a file that
 * is just being written is not taken for a bad one.
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

  private next(seen: { readonly text: string | undefined } | undefined): void {
    if (this.isStopped) return;
    this.cancel = this.clock.after(LOOK_EVERY, () => void this.look(seen));
  }

  private async look(seen: { readonly text: string | undefined } | undefined): Promise<void> {
    const text = await readText(this.file);
    if (this.isStopped) return;
    if (this.reloader.hasTried(text)) return this.next(undefined);
    if (seen === undefined || seen.text !== text) return this.next({ text });
    await this.reloader.reload("file");
    this.next(undefined);
  }
}
