import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Redis } from "ioredis";
import { findFreePort } from "./ports.ts";
import { findProgram, REDIS_SERVER } from "./programs.ts";

/** A real redis-server on loopback, in a folder of its own, that never outlives the test process. */
export interface RedisServer {
  readonly port: number;
  readonly url: string;
  /** A client of the test's own, to look into and to configure the server; closed with the server. */
  readonly client: Redis;
  /** Ends it by SIGKILL, as a crash would; its port stays its own. */
  kill(): Promise<void>;
  /** Starts it again on its port, empty, after {@link RedisServer.kill}. */
  start(): Promise<void>;
  /** SIGSTOP: connections stay open, nothing answers. */
  pause(): void;
  resume(): void;
  /** Ends it for good. */
  stop(): Promise<void>;
}

export interface RedisServerOptions {
  /** Serve TLS alone, with the certificates of test/fixtures/tls. */
  tls?: boolean;
  /** Clients have to log in with it. */
  password?: string | undefined;
  /** Settings as in redis.conf. */
  settings?: RedisSettings;
  /** A configuration file, in the place of all other settings (a sentinel's). */
  file?: string;
  /** The line of its log after which it is usable. */
  readyLine?: string;
}

type RedisSettings = Readonly<Record<string, string | readonly string[]>>;

const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/** Folder of the certificates that a TLS server uses. */
export const tlsFolder = fileURLToPath(new URL("../fixtures/tls", import.meta.url));

/** A redis-server without persistence on a free port. */
export async function startRedis(options: RedisServerOptions = {}): Promise<RedisServer> {
  const folder = mkdtempSync(join(tmpdir(), "registry-gateway-redis-"));
  for (let attempt = 1; ; attempt += 1) {
    const port = await findFreePort();
    const server = new Server(port, folder, options);
    try {
      await server.start();
      return server;
    } catch (error) {
      // Another process may have taken the port in between.
      await server.kill();
      if (attempt === 5) throw error;
    }
  }
}

class Server implements RedisServer {
  readonly port: number;
  readonly url: string;
  readonly client: Redis;
  private readonly folder: string;
  private readonly options: RedisServerOptions;
  private child: ChildProcess | undefined;

  constructor(port: number, folder: string, options: RedisServerOptions) {
    this.port = port;
    this.folder = folder;
    this.options = options;
    this.url = `${options.tls === true ? "rediss" : "redis"}://127.0.0.1:${port}`;
    this.client = new Redis(this.url, {
      lazyConnect: true,
      retryStrategy: () => 50,
      ...(options.password !== undefined && { password: options.password }),
      ...(options.tls === true && { tls: { rejectUnauthorized: false } }),
    });
    // The client meets a server that is killed on purpose.
    this.client.on("error", () => {});
  }

  async start(): Promise<void> {
    const child = spawn(findProgram(REDIS_SERVER) ?? REDIS_SERVER.name, this.args(), {
      cwd: this.folder,
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.child = child;
    running.add(child);
    child.once("exit", () => running.delete(child));
    await waitForLine(child, this.options.readyLine ?? "Ready to accept connections");
  }

  async kill(): Promise<void> {
    const child = this.child;
    this.child = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  }

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
    if (this.options.file !== undefined) {
      return [this.options.file, "--sentinel", ...flags({ port: String(this.port) })];
    }
    const { password, settings } = this.options;
    const login = password === undefined ? {} : { requirepass: password, masterauth: password };
    const common = { bind: "127.0.0.1", save: "", appendonly: "no", dir: this.folder, ...login, ...settings };
    if (this.options.tls !== true) return flags({ port: String(this.port), ...common });
    return flags({
      port: "0",
      "tls-port": String(this.port),
      "tls-auth-clients": "no",
      "tls-cert-file": join(tlsFolder, "server.pem"),
      "tls-key-file": join(tlsFolder, "server-key.pem"),
      "tls-ca-cert-file": join(tlsFolder, "ca.pem"),
      ...common,
    });
  }
}

function flags(settings: RedisSettings): string[] {
  return Object.entries(settings).flatMap(([name, value]) => [`--${name}`].concat(value));
}

async function waitForLine(child: ChildProcess, line: string): Promise<void> {
  let output = "";
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`redis-server did not start in time:\n${output}`)), 10_000);
    child.stdout!.on("data", (chunk: Buffer) => {
      if (output.length < 20_000) output += chunk.toString();
      if (output.includes(line)) {
        clearTimeout(timer);
        resolve();
      }
    });
    child.once("error", reject);
    child.once("exit", () => {
      clearTimeout(timer);
      reject(new Error(`redis-server ended:\n${output}`));
    });
  });
}
