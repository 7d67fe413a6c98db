import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Redis } from "ioredis";
import { atEnd } from "./closing.ts";
import { findFreePort } from "./ports.ts";
import { provideProgram, REDIS_SERVER } from "./programs.ts";

export interface RedisServerOptions {
  /** Serve TLS alone, with the certificates of test/fixtures/tls. */
  readonly tls?: boolean;
  readonly password?: string;
  /** Settings as in redis.conf. */
  readonly settings?: Readonly<Record<string, string | readonly string[]>>;
  /** A configuration file, in the place of all other settings: a sentinel's. */
  readonly file?: string;
}

const TLS = fileURLToPath(new URL("../fixtures/tls/", import.meta.url));

const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/** A redis-server without persistence on a free port, which ends with the test (or file) that starts it. */
export async function startRedis(options: RedisServerOptions = {}): Promise<RedisServer> {
  const server = new RedisServer(await findFreePort(), options);
  atEnd(() => server.stop());
  await server.start();
  return server;
}

export class RedisServer {
  readonly port: number;
  readonly url: string;
  /** The test's own client, to look into the server and to configure it. */
  readonly client: Redis;
  private readonly options: RedisServerOptions;
  private readonly folder = mkdtempSync(join(tmpdir(), "registry-gateway-redis-"));
  private child: ChildProcess | undefined;

  constructor(port: number, options: RedisServerOptions) {
    const { tls = false, password } = options;
    this.port = port;
    this.options = options;
    this.url = `${tls ? "rediss" : "redis"}://127.0.0.1:${port}`;
    this.client = new Redis(this.url, {
      lazyConnect: true,
      retryStrategy: () => 50,
      ...(password !== undefined && { password }),
      ...(tls && { tls: { rejectUnauthorized: false } }),
    });
    // It meets servers that are killed on purpose.
    this.client.on("error", () => {});
  }

  /** Starts it, or after {@link kill} again: on its port, empty. */
  async start(): Promise<void> {
    const child = spawn(provideProgram(REDIS_SERVER), this.args(), {
      cwd: this.folder,
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.child = child;
    running.add(child);
    child.once("exit", () => running.delete(child));
    await waitForLine(child, this.options.file === undefined ? "Ready to accept connections" : "+monitor master");
  }

  /** Ends it as a crash would. */
  async kill(): Promise<void> {
    const { child } = this;
    this.child = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  }

  /** Connections stay open, nothing answers. */
  pause(): void {
    this.child?.kill("SIGSTOP");
  }

  resume(): void {
    this.child?.kill("SIGCONT");
  }

  async stop(): Promise<void> {
    this.client.disconnect();
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  private args(): string[] {
    const { file, password, settings, tls = false } = this.options;
    const port = String(this.port);
    if (file !== undefined) return [file, "--sentinel", ...flags({ port })];
    return flags({
      bind: "127.0.0.1",
      save: "",
      appendonly: "no",
      dir: this.folder,
      ...(tls ? { port: "0", "tls-port": port, ...TLS_SETTINGS } : { port }),
      ...(password !== undefined && { requirepass: password, masterauth: password }),
      ...settings,
    });
  }
}

const TLS_SETTINGS = {
  "tls-auth-clients": "optional",
  "tls-cert-file": join(TLS, "server.pem"),
  "tls-key-file": join(TLS, "server-key.pem"),
  "tls-ca-cert-file": join(TLS, "ca.pem"),
};

function flags(settings: NonNullable<RedisServerOptions["settings"]>): string[] {
  return Object.entries(settings).flatMap(([name, value]) => [`--${name}`].concat(value));
}

function waitForLine(child: ChildProcess, line: string): Promise<void> {
  let output = "";
  return new Promise((resolve, reject) => {
    const fail = (why: string): void => reject(new Error(`redis-server ${why}:\n${output}`));
    const timer = setTimeout(() => fail("did not start in time"), 20_000);
    child.stdout!.on("data", (chunk: Buffer) => {
      if (output.length < 20_000) output += chunk.toString();
      if (!output.includes(line)) return;
      clearTimeout(timer);
      resolve();
    });
    child.once("error", reject);
    child.once("exit", () => {
      clearTimeout(timer);
      fail("ended");
    });
  });
}
