import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import { temporaryFolder } from "./gateway.ts";
import { findFreePort } from "./ports.ts";
import { Child } from "./process.ts";
import { PROMETHEUS, provideProgram } from "./programs.ts";
import { readText, readYaml } from "./project.ts";
import { until } from "./until.ts";

/** How much faster than in production time passes for the rules. */
const FASTER = 60;
const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600 };

/** The rules as they are shipped, but for windows and `for`, which are a sixtieth as long. */
function quickRules(): string {
  const shorter = (number: string, unit: string): string => `${(Number(number) * SECONDS[unit]!) / FASTER}s`;
  return readText("config/prometheus/rules.yaml")
    .replace(/\[(\d+)([smh])\]/g, (_all, number, unit) => `[${shorter(number, unit)}]`)
    .replace(/for: (\d+)([smh])\n/g, (_all, number, unit) => `for: ${shorter(number, unit)}\n`);
}

type Labels = Readonly<Record<string, string>>;

/** A series at one moment. */
export interface Series {
  readonly labels: Labels;
  readonly value: number;
}

export interface Alert {
  readonly labels: {
    readonly alertname: string;
    readonly severity: "page" | "warning";
    readonly [label: string]: string;
  };
  readonly annotations: Readonly<Record<string, string>>;
  readonly state: "pending" | "firing";
}

/** A Prometheus that scrapes the operations listeners each second, with the shipped rules. It ends with the test or the file. */
export class Prometheus {
  readonly url: string;

  private constructor(url: string) {
    this.url = url;
  }

  static async start(targets: readonly string[]): Promise<Prometheus> {
    const folder = temporaryFolder();
    writeFileSync(join(folder, "rules.yaml"), quickRules());
    const configuration = {
      global: { scrape_interval: "1s", scrape_timeout: "1s", evaluation_interval: "1s" },
      rule_files: ["rules.yaml"],
      scrape_configs: [{ job_name: "registry-gateway", static_configs: [{ targets }] }],
    };
    writeFileSync(join(folder, "prometheus.yaml"), stringify(configuration));
    const address = `127.0.0.1:${await findFreePort()}`;
    const flags = {
      "config.file": join(folder, "prometheus.yaml"),
      "storage.tsdb.path": join(folder, "data"),
      "web.listen-address": address,
    };
    const args = Object.entries(flags).map(([name, value]) => `--${name}=${value}`);
    const child = new Child(args, { program: [provideProgram(PROMETHEUS)] });
    const prometheus = new Prometheus(`http://${address}`);
    await until(async () => {
      if (!child.isRunning) throw new Error(`Prometheus ended:\n${child.stderr}`);
      return (await fetch(`${prometheus.url}/-/ready`)).ok;
    });
    return prometheus;
  }

  /** The series of an expression now. @throws Error where Prometheus does not take it */
  async query(expr: string): Promise<Series[]> {
    const found = await this.ask<{ result: { metric: Labels; value: [number, string] }[] }>("query", { query: expr });
    return found.result.map(({ metric, value: [, text] }) => ({ labels: metric, value: Number(text) }));
  }

  /** The values of a label among the series of a selector, as Grafana's `label_values` has them. */
  labelValues(selector: string, label: string): Promise<string[]> {
    return this.ask<string[]>(`label/${label}/values`, { "match[]": selector });
  }

  /** The alerts that fire now, without those that the shipped example for Alertmanager keeps quiet beside them. */
  async messages(): Promise<Alert[]> {
    const { alerts } = await this.ask<{ alerts: Alert[] }>("alerts");
    const firing = alerts.filter(({ state }) => state === "firing");
    return firing.filter((alert) => !firing.some((other) => silences(other.labels, alert.labels)));
  }

  private async ask<T>(what: string, query: Readonly<Record<string, string>> = {}): Promise<T> {
    const answer = await fetch(`${this.url}/api/v1/${what}?${new URLSearchParams(query).toString()}`);
    const { data, error } = (await answer.json()) as { data: T; error?: string };
    if (error !== undefined) throw new Error(`${error}: ${JSON.stringify(query)}`);
    return data;
  }
}

const { inhibit_rules: INHIBITIONS } = readYaml("config/prometheus/alertmanager.yaml") as {
  inhibit_rules: { source_matchers: string[]; target_matchers: string[]; equal: string[] }[];
};

/** Whether the example for Alertmanager has one alert keep another quiet. */
export function silences(source: Labels, target: Labels): boolean {
  return INHIBITIONS.some(
    ({ source_matchers: from, target_matchers: to, equal }) =>
      matches(source, from) && matches(target, to) && equal.every((name) => source[name] === target[name]),
  );
}

function matches(labels: Labels, matchers: readonly string[]): boolean {
  return matchers.every((text) => {
    const [, name = "", operator = "", value = ""] = /^(\w+)(=~|!=|=)"(.*)"$/.exec(text) ?? [];
    const own = labels[name] ?? "";
    if (operator === "=~") return new RegExp(`^(?:${value})$`).test(own);
    return operator === "!=" ? own !== value : own === value;
  });
}
