import type { LoadCommand, LoadPlan, LoadReply, LoadResult } from "./load-plan.ts";
import { LoadConnection } from "./load-connection.ts";
import { optionsOfParent, tellParent } from "./parent.ts";

/** A run in progress: hands out request numbers and notes when answers came. */
class LoadRun {
  private readonly plan: LoadPlan;
  private readonly connections: readonly LoadConnection[];
  private readonly request: (number: number) => string;
  private readonly latencies: Float64Array;
  private sent = 0;
  private answered = 0;
  private waiting: LoadConnection[] = [];
  private readonly done: (result: LoadResult) => void;
  private readonly startedAt = performance.now();

  constructor(plan: LoadPlan, connections: readonly LoadConnection[], done: (result: LoadResult) => void) {
    this.plan = plan;
    this.connections = connections;
    this.done = done;
    this.latencies = new Float64Array(plan.count);
    const [before, after] = plan.request.split("{n}");
    this.request = after === undefined ? () => plan.request : (number) => before + String(number) + after;
  }

  start(): void {
    // At a pace, connections do not begin in the same moment either: that is a burst, and one in a hundred of a short run.
    for (const connection of this.connections) {
      if (this.plan.pause === undefined) this.next(connection);
      else setTimeout(() => this.next(connection), this.plan.pause * Math.random());
    }
  }

  private next(connection: LoadConnection): void {
    const { count, from = 0, numbering, period = Infinity } = this.plan;
    if (this.sent === count) return;
    const step = numbering === "wave" ? Math.floor(this.sent / this.connections.length) : this.sent;
    this.sent += 1;
    const sentAt = performance.now();
    connection.ask(this.request(from + (step % period)), () => this.note(connection, performance.now() - sentAt));
  }

  private note(connection: LoadConnection, latency: number): void {
    this.latencies[this.answered] = latency;
    this.answered += 1;
    if (this.answered === this.plan.count) this.finish();
    else if (this.plan.numbering === "wave") this.endOfWave(connection);
    else if (this.plan.pause === undefined) this.next(connection);
    // Half as long to half as long again: clients do not march in step.
    else setTimeout(() => this.next(connection), this.plan.pause * (0.5 + Math.random()));
  }

  private endOfWave(connection: LoadConnection): void {
    this.waiting.push(connection);
    if (this.waiting.length < this.connections.length) return;
    const all = this.waiting;
    this.waiting = [];
    for (const each of all) this.next(each);
  }

  private finish(): void {
    const elapsed = performance.now() - this.startedAt;
    const sorted = this.latencies.sort();
    const quantile = (share: number) => sorted[Math.floor((sorted.length - 1) * share)]!;
    const holding = this.connections.reduce((sum, each) => sum + each.holding, 0) / this.plan.count;
    this.done({ elapsed, p50: quantile(0.5), p99: quantile(0.99), holding });
  }
}

let open: { plan: LoadPlan; connections: LoadConnection[] } | undefined;

async function openConnections(plan: LoadPlan): Promise<void> {
  const { port, expected } = plan;
  const connections = Array.from({ length: plan.connections }, () => new LoadConnection({ port, expected, fail }));
  open = { plan, connections };
  await Promise.all(connections.map((connection) => connection.connected));
  reply({ opened: true });
}

function run(): void {
  const { plan, connections } = open!;
  new LoadRun(plan, connections, (result) => {
    close();
    reply({ result });
  }).start();
}

function fail(error: string): void {
  if (open === undefined) return;
  close();
  reply({ error });
}

function close(): void {
  for (const connection of open?.connections ?? []) connection.close();
  open = undefined;
}

function reply(message: LoadReply): void {
  tellParent(message);
}

optionsOfParent();
process.on("message", (command: LoadCommand) => {
  if (command.do === "run") run();
  else openConnections(command.plan).catch((error: unknown) => fail(String(error)));
});
tellParent({ port: 0 });
