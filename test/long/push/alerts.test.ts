import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { stringify } from "yaml";
import { createMetrics } from "../../../src/observe/metrics.ts";
import { announce } from "../../../src/observe/metrics/live-registry.ts";
import { ALERTS } from "../../../tools/alerts.ts";
import { expressionOf } from "../../../tools/alerts/alert.ts";
import { ALERT_CASES, type AlertCase } from "../../support/alert-cases.ts";
import { PROMTOOL, provideProgram } from "../../support/programs.ts";

const RULES = join(import.meta.dirname, "../../../config/prometheus/rules.yaml");

let promtool: string;
let folder: string;

beforeAll(() => {
  promtool = provideProgram(PROMTOOL);
  folder = mkdtempSync(join(tmpdir(), "rules-"));
}, 200_000);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

function run(args: readonly string[], input?: string): string {
  try {
    return execFileSync(promtool, args, {
      encoding: "utf8",
      stdio: ["pipe", "pipe", "pipe"],
      timeout: 300_000,
      ...(input === undefined ? {} : { input }),
    });
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    throw new Error(`${stdout}\n${stderr}`, { cause: error });
  }
}

/** The unit test of a rule; promtool names its file where it fails. */
function fileOf({ alert, at, value }: AlertCase, input: AlertCase["fires"], firing: boolean): string {
  const file = join(folder, `${alert}-${firing ? "fires" : "silent"}.yaml`);
  const expr = `count by (alertname) (ALERTS{alertname="${alert}", alertstate="firing"})`;
  const samples = firing ? [{ labels: `{alertname="${alert}"}`, value: 1 }] : [];
  const promql = [{ expr, eval_time: at, exp_samples: samples }];
  if (firing && value !== undefined) {
    promql.push({ expr: `max(${expressionOf(ALERTS[alert])})`, eval_time: at, exp_samples: [{ labels: "{}", value }] });
  }
  writeFileSync(
    file,
    stringify({
      rule_files: [RULES],
      evaluation_interval: "1m",
      tests: [{ interval: "1m", input_series: input, promql_expr_test: promql }],
    }),
  );
  return file;
}

describe("the alerts, as Prometheus evaluates them", () => {
  test("are well-formed rules", () => {
    expect(run(["check", "rules", RULES])).toContain("SUCCESS");
  });

  test("each fires when it has to", () => {
    const files = ALERT_CASES.map((alertCase) => fileOf(alertCase, alertCase.fires, true));
    expect(run(["test", "rules", ...files]).match(/SUCCESS/g)).toHaveLength(files.length);
  });

  test("each is silent when it has nothing to say", () => {
    const files = ALERT_CASES.map((alertCase) => fileOf(alertCase, alertCase.silent, false));
    expect(run(["test", "rules", ...files]).match(/SUCCESS/g)).toHaveLength(files.length);
  });
});

test("promtool finds nothing to criticise in the gateway's own metrics", async () => {
  const { metrics, registry } = createMetrics();
  announce(registry, ["amulet"]);
  metrics.requests.inc({ operation: "info", upstream: "amulet", status: "2xx" });
  metrics.requestDuration.labels({ operation: "info", outcome: "hit" }).observe(0.001);
  metrics.servedAge.labels({ operation: "info" }).observe(1);
  metrics.windowUsed.labels({ operation: "info" }).observe(0.5);
  metrics.upstreamDuration.labels({ upstream: "amulet", kind: "metadata" }).observe(0.1);
  expect(run(["check", "metrics"], await registry.metrics())).toBe("");
});
