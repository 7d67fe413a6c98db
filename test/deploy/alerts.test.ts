import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { PROMTOOL, provideProgram } from "../support/programs.ts";
import { silences } from "../support/prometheus.ts";

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

const ROOT = join(import.meta.dirname, "../..");
const read = (path: string): string => readFileSync(join(ROOT, path), "utf8");

const promtool = provideProgram(PROMTOOL);
const run = (...args: string[]) => promisify(execFile)(promtool, args, { cwd: ROOT });

const [group] = (parse(read("config/prometheus/rules.yaml")) as { groups: [{ rules: Rule[] }] }).groups;
const rules = group.rules;

describe("the alerts", () => {
  it("are rules that Prometheus takes", async () => {
    const { stdout } = await run("check", "rules", "config/prometheus/rules.yaml");
    expect(stdout).toContain("16 rules found");
  });

  it("fire of what they are about and say so, and are gone after the repair", async () => {
    const { stdout } = await run("test", "rules", "test/fixtures/rules_test.yaml");
    expect(stdout).toContain("SUCCESS");
  });

  it("are each tried to fire", () => {
    const tests = parse(read("test/fixtures/rules_test.yaml")) as {
      tests: { alert_rule_test: { alertname: string; exp_alerts: unknown[] }[] }[];
    };
    const fired = tests.tests.flatMap((each) => each.alert_rule_test.filter(({ exp_alerts }) => exp_alerts.length > 0));
    expect(new Set(fired.map(({ alertname }) => alertname))).toEqual(new Set(rules.map(({ alert }) => alert)));
  });

  it("say how urgent they are, what is wrong, why, and where it is written what to do", () => {
    const runbooks = read("docs/runbooks.md");
    for (const { alert, labels, annotations } of rules) {
      expect(labels["severity"], alert).toMatch(/^(page|warning)$/);
      expect(annotations["summary"], alert).toMatch(/^\S.*[^.]$/);
      expect(annotations["cause"], alert).toMatch(/^\S.*\.$/);
      const url = `{{ or $externalLabels.runbooks "docs/runbooks.md" }}#${alert.toLowerCase()}`;
      expect(annotations["runbook_url"], alert).toBe(url);
      const [, section = ""] = runbooks.split(`## ${alert}\n`);
      const severity = section.trimStart().split("\n")[0];
      expect(severity, alert).toBe(labels["severity"] === "page" ? "*Page.*" : "*Warning.*");
      for (const part of ["**Means.**", "**Look at.**", "**Do.**"]) expect(section.split("\n## ")[0]).toContain(part);
    }
    expect(runbooks.match(/^## /gm)).toHaveLength(rules.length);
  });
});

describe("the example for Alertmanager", () => {
  const labelsOf = (alert: string) => ({ alertname: alert, ...rules.find((rule) => rule.alert === alert)!.labels });

  it.each([
    { source: "AllNodesDown", target: "RequestsFail", is: true },
    { source: "AllNodesDown", target: "StaleAnswers", is: true },
    { source: "AdminMismatch", target: "RequestsFail", is: true },
    { source: "RegistryPauses", target: "LimitReached", is: true },
    { source: "RequestsFail", target: "RegistrySlow", is: true },
    { source: "Absent", target: "ReplicaGone", is: true },
    { source: "Absent", target: "Absent", is: false },
    { source: "NodeDown", target: "RequestsFail", is: false },
    { source: "CredentialUnusable", target: "RequestsFail", is: false },
    { source: "RequestsFail", target: "AllNodesDown", is: false },
    { source: "RedisAway", target: "StaleAnswers", is: false },
  ])("$source silences $target: $is", ({ source, target, is }) => {
    expect(silences(labelsOf(`RegistryGateway${source}`), labelsOf(`RegistryGateway${target}`))).toBe(is);
  });
});
