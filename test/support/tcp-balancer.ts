import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { onTestFinished } from "vitest";

export interface Backend {
  readonly port: number;
  /** Asked every 50 ms; the balancer sends new connections to those alone that answer with 200. */
  readonly probe: string;
}

/** A small TCP balancer: round robin over the backends whose probe is well; connections that exist stay. Ends with the test at the latest. */
export class TcpBalancer {
  private readonly server: Server;
  private readonly sockets = new Set<Socket>();
  private readonly healthy = new Set<Backend>();
  private readonly timer: NodeJS.Timeout;
  private backends: readonly Backend[];
  private turn = 0;

  constructor(backends: readonly Backend[]) {
    this.backends = backends;
    this.server = createServer({ pauseOnConnect: true }, (client) => this.accept(client));
    this.timer = setInterval(() => void this.probeAll(), 50);
    onTestFinished(() => this.stop());
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  async start(): Promise<void> {
    await this.probeAll();
    await new Promise<void>((resolve) => {
      this.server.listen(0, "127.0.0.1", resolve);
    });
  }

  /** From now on there are these backends. */
  use(backends: readonly Backend[]): void {
    this.backends = backends;
    for (const backend of this.healthy) if (!backends.includes(backend)) this.healthy.delete(backend);
  }

  isHealthy(backend: Backend): boolean {
    return this.healthy.has(backend);
  }

  stop(): void {
    clearInterval(this.timer);
    this.server.close();
    for (const socket of this.sockets) socket.destroy();
  }

  private accept(client: Socket): void {
    const candidates = this.backends.filter((backend) => this.healthy.has(backend));
    const backend = candidates[this.turn++ % Math.max(1, candidates.length)];
    if (backend === undefined) {
      client.destroy();
      return;
    }
    const upstream = connect(backend.port, "127.0.0.1");
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      this.sockets.add(one);
      one.once("close", () => {
        this.sockets.delete(one);
        other.destroySoon();
      });
      one.on("error", () => one.destroy());
    }
    client.pipe(upstream);
    upstream.pipe(client);
  }

  private async probeAll(): Promise<void> {
    await Promise.all(
      this.backends.map(async (backend) => {
        const isWell = await fetch(backend.probe).then(
          ({ ok }) => ok,
          () => false,
        );
        if (isWell && this.backends.includes(backend)) this.healthy.add(backend);
        else this.healthy.delete(backend);
      }),
    );
  }
}
