import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { parse, stringify } from "yaml";
import { ALERTMANAGER, AMTOOL, provideProgram } from "./programs.ts";
import { findFreePort } from "./ports.ts";
import { until } from "./until.ts";

/** What a receiver gets: a group of alerts, of which the first is news. */
export interface Notification {
  readonly receiver: string;
  readonly groupKey: string;
  readonly status: "firing" | "resolved";
  readonly alerts: readonly { readonly status: string; readonly labels: Readonly<Record<string, string>> }[];
}

/** A real Alertmanager on loopback, whose receivers all end here. */
export class Alertmanager {
  /** `host:port`. */
  readonly target: string;
  /** All that it sent, the latest last. */
  readonly sent: Notification[] = [];
  private readonly child: ChildProcess;
  private readonly folder: string;
  private readonly server: Server;

  private constructor(parts: { child: ChildProcess; folder: string; server: Server; target: string }) {
    this.child = parts.child;
    this.folder = parts.folder;
    this.server = parts.server;
    this.target = parts.target;
    this.server.on("request", (request, response) => {
      void text(request).then((body) => {
        this.sent.push(JSON.parse(body) as Notification);
        response.end();
      });
    });
  }

  /** @param config its text, with receivers that only have names */
  static async start(config: string): Promise<Alertmanager> {
    const program = provideProgram(ALERTMANAGER);
    const folder = mkdtempSync(join(tmpdir(), "alertmanager-"));
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const example = parse(config) as { receivers: { name: string }[] };
    const receivers = example.receivers.map(({ name }) => ({ name, webhook_configs: [{ url, send_resolved: true }] }));
    const file = join(folder, "alertmanager.yaml");
    writeFileSync(file, stringify({ ...example, receivers }));
    execFileSync(provideProgram(AMTOOL), ["check-config", file], { stdio: "pipe", timeout: 60_000 });
    const target = `127.0.0.1:${await findFreePort()}`;
    const listen = [`--web.listen-address=${target}`, "--cluster.listen-address="];
    const child = spawn(
      program,
      [`--config.file=${file}`, `--storage.path=${join(folder, "data")}`, "--log.level=error", ...listen],
      { stdio: ["ignore", "inherit", "inherit"] },
    );
    process.once("exit", () => child.kill("SIGKILL"));
    const alertmanager = new Alertmanager({ child, folder, server, target });
    await until(async () => {
      try {
        return (await fetch(`http://${target}/-/ready`)).ok;
      } catch {
        return false;
      }
    });
    return alertmanager;
  }

  /** What one of the receivers got. */
  to(receiver: string): readonly Notification[] {
    return this.sent.filter((each) => each.receiver === receiver);
  }

  async stop(): Promise<void> {
    const ended = once(this.child, "exit");
    this.child.kill("SIGKILL");
    await ended;
    this.server.closeAllConnections();
    this.server.close();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
