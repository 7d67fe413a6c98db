import { execFile, execFileSync } from "node:child_process";
import { mkdtempSync, openSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { Agent, request } from "undici";
import { systemClock } from "../../src/clock.ts";
import type { StatusAnswer } from "../../src/operations/answers.ts";
import { GatewayProcess } from "../support/gateway-process.ts";
import { listOf } from "../support/discovery.ts";
import { type RedisServer, startRedis } from "../support/redis.ts";
import { SampleRegistry } from "../support/sample-registry.ts";

const MAIN = join(import.meta.dirname, "../../src/main.ts");

export const AMULET = `DSO::1220${"13f1b3a8".repeat(8)}`;
export const BONDS = `bond-registry::1220${"2194ab45".repeat(8)}`;

const FUNDS = `fund-registry::1220${"7c01d9e2".repeat(8)}`;

/** Between two requests of the clients. */
const PAUSE = 40;

/** Where a runbook sends an operator: answers of the operations listener, commands, and what the process writes. */
export type Place = "status" | "metrics" | "status command" | "nodes" | "discovery" | "log" | "standard error";

/** What a drill needs besides registries and the gateway. */
export interface Needs {
  /** Clients speak TLS, with a certificate of this folder. */
  readonly tls?: boolean;
  readonly redis?: boolean;
  /** There is a second replica. */
  readonly replica?: boolean;
  /** Clients may have keys, in a file. */
  readonly clients?: boolean;
  /** A third registry is found in a published list. */
  readonly list?: boolean;
  /** The log goes to a disk that is full. */
  readonly fullDisk?: boolean;
}

/**
 * What a drill breaks: the registry amulet on two nodes, the registry bonds on one, the gateway in a process of its own with
 * its files, Redis where it is needed, and clients that ask.
 */
export class Scene {
  readonly amulet: readonly [SampleRegistry, SampleRegistry];
  readonly bonds: SampleRegistry;
  /** What the published list names at first. */
  readonly found: SampleRegistry;
  private readonly needs: Needs;
  private readonly folder = mkdtempSync(join(tmpdir(), "drill-"));
  private readonly agent = new Agent({ connect: { rejectUnauthorized: false } });
  private server: RedisServer | undefined;
  private process: GatewayProcess | undefined;
  private replica: GatewayProcess | undefined;
  private isOver = false;
  private clients: Promise<void> | undefined;

  private constructor(needs: Needs) {
    const clock = systemClock();
    this.needs = needs;
    this.amulet = [0, 1].map(() => new SampleRegistry({ admin: AMULET, clock, instruments: 3 })) as [
      SampleRegistry,
      SampleRegistry,
    ];
    this.bonds = new SampleRegistry({ admin: BONDS, clock, instruments: 60 });
    this.found = new SampleRegistry({ admin: FUNDS, clock, instruments: 3 });
  }

  static async start(needs: Needs): Promise<Scene> {
    const scene = new Scene(needs);
    try {
      await scene.open();
      return scene;
    } catch (error) {
      await scene.stop();
      throw error;
    }
  }

  /** The operations listener. */
  get operations(): string {
    return this.gateway.operations;
  }

  get redis(): RedisServer {
    if (this.server === undefined) throw new Error("this drill has no Redis");
    return this.server;
  }

  private get gateway(): GatewayProcess {
    if (this.process === undefined) throw new Error("the gateway does not run");
    return this.process;
  }

  async status(): Promise<StatusAnswer> {
    const { body } = await request(`${this.operations}/status`);
    return (await body.json()) as StatusAnswer;
  }

  /** What an operator finds there. */
  async look(at: Place): Promise<string> {
    switch (at) {
      case "log":
        return this.gateway.lines.map((line) => JSON.stringify(line)).join("\n");
      case "standard error":
        return this.gateway.stderr;
      case "status":
      case "metrics": {
        const { body } = await request(`${this.operations}/${at}`);
        return body.text();
      }
      case "status command":
      case "nodes":
      case "discovery": {
        const args = [MAIN, at.replace(" command", ""), "--url", this.operations];
        // Not synchronously: the registries are in this process.
        return (await promisify(execFile)(process.execPath, args, { timeout: 30_000 })).stdout;
      }
    }
  }

  /** Asks for status until this is so; false: it never was within `most` milliseconds. */
  async until(isSo: (status: StatusAnswer) => boolean, most: number): Promise<boolean> {
    const end = performance.now() + most;
    while (performance.now() < end) {
      const status = await this.status().catch(() => undefined);
      if (status !== undefined && isSo(status)) return true;
      await sleep(250);
    }
    return false;
  }

  /** Makes the listener's certificate anew, good for so many days. */
  certify(days: number): void {
    const [key, certificate] = [join(this.folder, "key.pem"), join(this.folder, "certificate.pem")];
    const [newKey, newCertificate] = [`${key}.new`, `${certificate}.new`];
    const kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost"];
    const files = ["-days", String(days), "-keyout", newKey, "-out", newCertificate];
    execFileSync("openssl", ["req", ...kind, ...files], { stdio: "ignore" });
    renameSync(newKey, key);
    renameSync(newCertificate, certificate);
  }

  /** Writes the file of the listener's certificate. */
  writeCertificate(text: string): void {
    this.put("certificate.pem", text);
  }

  /** Writes the token that bonds wants. */
  writeToken(text: string): void {
    this.put("token", text);
  }

  /** Writes the file with the keys of clients. */
  writeKeys(text: string): void {
    this.put("clients.jsonl", text);
  }

  /** Publishes a list that has the registry that is found at this URL. */
  list(url: string): void {
    this.put("list.json", listOf({ [FUNDS]: url }));
  }

  async startReplica(): Promise<void> {
    this.replica = await GatewayProcess.start(this.keys(), { command: [process.execPath, MAIN] });
  }

  async killReplica(): Promise<void> {
    this.replica?.signal("SIGKILL");
    await this.replica?.stop();
  }

  /** Writes the gateway's configuration file, as its operator would. */
  writeConfig(text: string): void {
    writeFileSync(`${this.gateway.file}.new`, text);
    renameSync(`${this.gateway.file}.new`, this.gateway.file);
  }

  /** The configuration that the gateway began with. */
  get config(): string {
    return this.gateway.text(this.keys());
  }

  async stop(): Promise<void> {
    this.isOver = true;
    await this.clients;
    await Promise.all([this.process?.stop(), this.replica?.stop()]);
    await Promise.all(this.registries.map((registry) => registry.stop()));
    await this.server?.stop();
    await this.agent.destroy();
    rmSync(this.folder, { recursive: true, force: true });
  }

  private async open(): Promise<void> {
    await Promise.all(this.registries.map((registry) => registry.start()));
    if (this.needs.redis === true) this.server = await startRedis();
    if (this.needs.tls === true) this.certify(90);
    this.writeToken("a-token-of-bonds\n");
    this.writeKeys("\n");
    this.list(this.found.url);
    const stdout = this.needs.fullDisk === true ? openSync("/dev/full", "w") : undefined;
    const command = [process.execPath, MAIN];
    this.process = await GatewayProcess.start(this.keys(), { command, ...(stdout !== undefined && { stdout }) });
    if (this.needs.replica === true) await this.startReplica();
    this.clients = this.ask();
  }

  private get registries(): readonly SampleRegistry[] {
    return [...this.amulet, this.bonds, this.found];
  }

  /** As editors do: another file in the place of the old one. */
  private put(name: string, text: string): void {
    const file = join(this.folder, name);
    writeFileSync(`${file}.new`, text);
    renameSync(`${file}.new`, file);
  }

  private keys(): Record<string, unknown> {
    const tls = { certFile: join(this.folder, "certificate.pem"), keyFile: join(this.folder, "key.pem") };
    const auth = { bearerTokenFile: join(this.folder, "token") };
    return {
      ...(this.needs.tls === true && { listen: { tls } }),
      ...(this.server !== undefined && { redis: { url: this.server.url } }),
      ...(this.needs.clients === true && {
        clients: { keysFile: join(this.folder, "clients.jsonl"), tiers: { anonymous: {} } },
      }),
      ...(this.needs.list === true && {
        discovery: {
          every: "1s",
          sources: [{ file: join(this.folder, "list.json"), network: "MainNet" }],
          pinFile: join(this.folder, "pins.json"),
          allowPrivate: true,
        },
      }),
      log: { hits: 1 },
      // A minute is as good as a day to an operator who watches.
      cache: { ttl: { info: "2s", instruments: "2s", instrument: "2s" } },
      upstreams: [
        { name: "amulet", admin: AMULET, urls: this.amulet.map(({ url }) => url) },
        { name: "bonds", admin: BONDS, urls: [this.bonds.url], timeout: "4s", auth },
      ],
    };
  }

  /** Two wallets, one at each registry: they read, and prepare transfers. */
  private async ask(): Promise<void> {
    const base = this.gateway.url.replace("http:", this.needs.tls === true ? "https:" : "http:");
    const paths = ["metadata/v1/info", "metadata/v1/instruments", "metadata/v1/instruments?pageSize=5"];
    const context = `transfer-instruction/v1/00${"ab".repeat(68)}/choice-contexts/accept`;
    const turns = ["amulet", "bonds"].map(async (name) => {
      for (let turn = 0; !this.isOver; turn += 1) {
        const root = `${base}/api/token-standard/v0/registrars/${name}/registry`;
        await this.send(
          turn % 2 === 0 ? `${root}/${paths[(turn / 2) % paths.length]}` : `${root}/${context}`,
          turn % 2 === 1,
        );
        await sleep(this.needs.fullDisk === true ? 0 : PAUSE);
      }
    });
    await Promise.all(turns);
  }

  private async send(url: string, isPost: boolean): Promise<void> {
    const post = { method: "POST", headers: { "content-type": "application/json" }, body: "{}" } as const;
    const signal = AbortSignal.timeout(10_000);
    try {
      const { body } = await request(url, { dispatcher: this.agent, signal, ...(isPost && post) });
      await body.dump();
    } catch {
      // What clients meet, status and console say.
    }
  }
}
