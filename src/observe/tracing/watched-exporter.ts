import type { ReadableSpan, SpanExporter } from "@opentelemetry/sdk-trace";
import type { Logger } from "../log.ts";

type Done = Parameters<SpanExporter["export"]>[1];

/** Sends spans through another exporter, and logs when that begins to fail and when it works again. */
export class WatchedExporter implements SpanExporter {
  private readonly exporter: SpanExporter;
  private readonly log: Logger;
  private isFailing = false;

  constructor(exporter: SpanExporter, log: Logger) {
    this.exporter = exporter;
    this.log = log;
  }

  export(spans: ReadableSpan[], done: Done): void {
    this.exporter.export(spans, (result) => {
      // Of an enumeration in a package that is not ours to name: 0 is success.
      const code: number = result.code;
      this.note(code !== 0);
      done(result);
    });
  }

  async forceFlush(): Promise<void> {
    await this.exporter.forceFlush?.();
  }

  shutdown(): Promise<void> {
    return this.exporter.shutdown();
  }

  private note(isFailing: boolean): void {
    if (isFailing === this.isFailing) return;
    this.isFailing = isFailing;
    if (isFailing) this.log.warn({}, "traces cannot be sent: the newest are kept, the others dropped");
    else this.log.info({}, "traces are sent again");
  }
}
