import { Agent, type Dispatcher } from "undici";
import { onTestFinished } from "vitest";

export interface LoadOptions {
  /** Base URL. */
  readonly url: string;
  /** Requests a second. */
  readonly rate: number;
  /** The request by its number. */
  readonly request: (index: number) => {
    readonly method: "GET" | "POST";
    readonly path: string;
    readonly body?: string;
  };
  readonly connections?: number;
  /** Each request opens a connection of its own. */
  readonly isEachNew?: boolean;
  /** For https: the authority to trust. */
  readonly tls?: { readonly ca: Buffer };
}

export interface LoadReport {
  readonly sent: number;
  /** What became of those that were no 200, by kind. */
  readonly failures: Readonly<Record<string, number>>;
}

/** Requests at a steady rate, over kept connections unless asked otherwise, without retries: what a client sees. Ends with the test at the latest. */
export class SteadyLoad {
  private readonly options: LoadOptions;
  private readonly agent: Agent;
  private readonly running = new Set<Promise<void>>();
  private readonly failures: Record<string, number> = {};
  private readonly timer: NodeJS.Timeout;
  private readonly startedAt = performance.now();
  private sent = 0;
  answered = 0;

  constructor(options: LoadOptions) {
    this.options = options;
    const { connections = 20, isEachNew = false, tls } = options;
    // Without pipelining undici keeps no connection.
    this.agent = new Agent({
      connections,
      pipelining: isEachNew ? 0 : 1,
      ...(tls === undefined ? {} : { connect: tls }),
    });
    this.timer = setInterval(() => this.catchUp(), 5);
    // A test that fails does not get to its end, and the load would be one of all files after it.
    onTestFinished(() => clearInterval(this.timer));
  }

  get failed(): number {
    return Object.values(this.failures).reduce((sum, each) => sum + each, 0);
  }

  /** Sends no more, waits for what runs, and reports. */
  async stop(): Promise<LoadReport> {
    clearInterval(this.timer);
    await Promise.all(this.running);
    await this.agent.close();
    return { sent: this.sent, failures: this.failures };
  }

  private catchUp(): void {
    const due = ((performance.now() - this.startedAt) * this.options.rate) / 1000;
    // After a pause of the machine it does not make up for all at once.
    if (due - this.sent > this.options.rate / 10) this.sent = Math.floor(due - this.options.rate / 10);
    while (this.sent < due) this.begin(this.sent++);
  }

  private begin(index: number): void {
    const done: Promise<void> = this.send(index)
      .then((failure) => {
        if (failure === undefined) this.answered += 1;
        else this.failures[failure] = (this.failures[failure] ?? 0) + 1;
      })
      .finally(() => this.running.delete(done));
    this.running.add(done);
  }

  private async send(index: number): Promise<string | undefined> {
    const { method, path, body } = this.options.request(index);
    const request: Dispatcher.RequestOptions = {
      origin: this.options.url,
      path,
      method,
      ...(body === undefined ? {} : { body, headers: { "content-type": "application/json" } }),
    };
    try {
      const response = await this.agent.request(request);
      const text = await response.body.text();
      return response.statusCode === 200 ? undefined : `${response.statusCode} ${text.slice(0, 200)}`;
    } catch (error) {
      return String((error as { code?: string }).code ?? error);
    }
  }
}
