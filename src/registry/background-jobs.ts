/** Work that nobody waits for: one job per key at a time, few at once, and none beyond a bounded queue. */
export class BackgroundJobs {
  private readonly concurrency: number;
  private readonly maxQueued: number;
  private readonly waiting = new Map<string, () => Promise<void>>();
  private readonly running = new Map<string, Promise<void>>();
  private isStopped = false;

  constructor({ concurrency, maxQueued }: { readonly concurrency: number; readonly maxQueued: number }) {
    this.concurrency = concurrency;
    this.maxQueued = maxQueued;
  }

  /** Runs `job` soon, unless one of its key runs or waits already, or too many wait. It must not reject. */
  add(key: string, job: () => Promise<void>): void {
    if (this.isStopped || this.waiting.has(key) || this.running.has(key)) return;
    if (this.waiting.size >= this.maxQueued) return;
    this.waiting.set(key, job);
    this.startNext();
  }

  /** Forgets what waits, and resolves when what runs has ended. */
  async stop(): Promise<void> {
    this.isStopped = true;
    this.waiting.clear();
    await Promise.all(this.running.values());
  }

  private startNext(): void {
    for (const [key, job] of this.waiting) {
      if (this.running.size >= this.concurrency) return;
      this.waiting.delete(key);
      const run = job().finally(() => {
        this.running.delete(key);
        this.startNext();
      });
      this.running.set(key, run);
    }
  }
}
