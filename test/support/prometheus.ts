import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stringify } from "yaml";
import { PROMETHEUS, provideProgram } from "./programs.ts";
import { findFreePort } from "./ports.ts";
import { until } from "./until.ts";

/** One series of an answer. */
export interface Sample {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: readonly [number, string];
}

export interface PrometheusOptions {
  /** `host:port` of the operations listeners. */
  readonly targets: readonly string[];
  readonly ruleFiles: readonly string[];
  /** `host:port` of an Alertmanager. */
  readonly alertmanager?: string;
}

interface Answer {
  readonly status: string;
  readonly error?: string;
  readonly data: { readonly result: readonly Sample[]; readonly activeTargets: readonly { readonly health: string }[] };
}

/** A real Prometheus on loopback, in a folder of its own, that scrapes every second. */
export class Prometheus {
  private readonly child: ChildProcess;
  private readonly folder: string;
  private readonly url: string;

  private constructor(child: ChildProcess, folder: string, url: string) {
    this.child = child;
    this.folder = folder;
    this.url = url;
  }

  static async start({ targets, ruleFiles, alertmanager }: PrometheusOptions): Promise<Prometheus> {
    const program = provideProgram(PROMETHEUS);
    const folder = mkdtempSync(join(tmpdir(), "prometheus-"));
    const file = join(folder, "prometheus.yaml");
    const config = {
      global: { scrape_interval: "1s", evaluation_interval: "1s" },
      rule_files: ruleFiles,
      ...(alertmanager === undefined
        ? {}
        : { alerting: { alertmanagers: [{ static_configs: [{ targets: [alertmanager] }] }] } }),
      scrape_configs: [{ job_name: "registry-gateway", static_configs: [{ targets }] }],
    };
    writeFileSync(file, stringify(config));
    const port = await findFreePort();
    const child = spawn(
      program,
      [
        `--config.file=${file}`,
        `--storage.tsdb.path=${join(folder, "data")}`,
        `--web.listen-address=127.0.0.1:${port}`,
        "--log.level=warn",
      ],
      { stdio: ["ignore", "inherit", "inherit"] },
    );
    process.once("exit", () => child.kill("SIGKILL"));
    const prometheus = new Prometheus(child, folder, `http://127.0.0.1:${port}`);
    await until(() => prometheus.isReady(), 30_000);
    await until(async () => (await prometheus.healthyTargets()) === targets.length, 30_000);
    return prometheus;
  }

  /** What an expression gives now. */
  async query(expression: string): Promise<readonly Sample[]> {
    const answer = await this.get("/api/v1/query", { query: expression });
    if (answer.status !== "success") throw new Error(`${answer.error}: ${expression}`);
    return answer.data.result;
  }

  async stop(): Promise<void> {
    const ended = once(this.child, "exit");
    this.child.kill("SIGKILL");
    await ended;
    rmSync(this.folder, { recursive: true, force: true });
  }

  private async isReady(): Promise<boolean> {
    try {
      return (await fetch(`${this.url}/-/ready`)).ok;
    } catch {
      return false;
    }
  }

  private async healthyTargets(): Promise<number> {
    const { data } = await this.get("/api/v1/targets", { state: "active" });
    return data.activeTargets.filter(({ health }) => health === "up").length;
  }

  private async get(path: string, parameters: Record<string, string>): Promise<Answer> {
    const response = await fetch(`${this.url}${path}?${new URLSearchParams(parameters).toString()}`);
    return (await response.json()) as Answer;
  }
}
