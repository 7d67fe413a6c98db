import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { METRICS } from "../../src/observe/metrics/table.ts";
import { CONDITIONS } from "../../src/operations/conditions/conditions.ts";
import { ALERTS, RUNBOOKS, renderPrometheusRule, renderRules, renderRunbooks } from "../../tools/alerts.ts";
import { expressionOf } from "../../tools/alerts/alert.ts";
import { RECORDING_RULES } from "../../tools/recording.ts";
import { ALERT_CASES } from "../support/alert-cases.ts";
import { metricOf } from "../support/exposition.ts";
import { type Labels, pagesOf } from "../support/inhibitions.ts";
import { dashboardQueries } from "../support/queries.ts";

const CONFIG = join(import.meta.dirname, "../../config");
const YAML = readFileSync(join(CONFIG, "prometheus/rules.yaml"), "utf8");

interface Rule {
  readonly expr: string;
  readonly record?: string;
  readonly alert?: string;
  readonly for?: string;
  readonly labels?: Record<string, string>;
  readonly annotations?: Record<string, string>;
}

const rules = (parse(YAML) as { groups: { rules: Rule[] }[] }).groups.flatMap((group) => group.rules);

test("the rules are as the code says", () => {
  expect(YAML).toBe(renderRules());
});

test("a rule asks only for metrics and recorded values that exist", () => {
  const known = new Set<string>([
    ...Object.values(METRICS).map((metric) => metric.name),
    ...RECORDING_RULES.map(({ record }) => record),
  ]);
  for (const { expr } of rules) {
    for (const [word] of expr.matchAll(/[a-z_:]*registry_gateway_[a-z0-9_:]+/g)) {
      expect(known.has(word) || known.has(metricOf(word)), word).toBe(true);
    }
  }
});

test("every recorded value is used", () => {
  for (const { record } of RECORDING_RULES) {
    expect(
      Object.values(ALERTS).some((alert) => expressionOf(alert).includes(record)),
      record,
    ).toBe(true);
  }
});

test("no rule or runbook shows the rounding errors of binary fractions", () => {
  for (const text of [renderRules(), renderPrometheusRule(), renderRunbooks()]) {
    expect(text).not.toMatch(/[0-9]\.[0-9]{7,}/);
  }
});

const PANELS = Object.fromEntries(
  ["overview", "upstream"].map((name) => [
    name,
    dashboardQueries(readFileSync(join(CONFIG, `grafana/dashboards/${name}.json`), "utf8")).map(({ title }) => title),
  ]),
);

/** The panels that a runbook names, as it names them, by dashboard. */
function panelsOf(look: string): readonly (readonly [dashboard: string, panel: string])[] {
  const parts = [...look.matchAll(/(Overview|Upstream dashboard): (.*?)(?=[.?](?: |$)|; Upstream dashboard)/g)];
  return parts.flatMap(([, dashboard, panels]) =>
    panels!
      .split(/[,;] (?=[A-Z])/)
      // What it says of a panel stands behind it.
      .map((panel) => [
        dashboard === "Overview" ? "overview" : "upstream",
        panel.replace(/(:|, which|, by instance).*$/, ""),
      ]),
  ) as [string, string][];
}

test("a runbook names a panel only of the dashboard that has it", () => {
  const named = Object.entries(ALERTS).flatMap(([alert, { runbook }]) =>
    panelsOf(runbook.look).map(([dashboard, panel]) => [alert, dashboard, panel] as const),
  );
  expect(named.length).toBeGreaterThan(40);
  for (const [alert, dashboard, panel] of named) {
    const isThere = PANELS[dashboard]!.some((title) => title.startsWith(panel) || panel.startsWith(title));
    expect(isThere, `${alert}: ${dashboard}, ${panel}`).toBe(true);
  }
});

/** The labels with which an alert is sent. */
function labelsOf(alert: string, upstream: string): Labels {
  return { alertname: alert, job: "gateway", upstream, ...rules.find((rule) => rule.alert === alert)!.labels };
}

// Days on end it kept back the page about an outage: nothing had to follow from it.
test.each(["RegistryGatewayCertificateEnds", "RegistryGatewayNodeAdminMismatch"])(
  "%s keeps back no page about calls or answers that fail",
  (alert) => {
    const failing = ["RegistryGatewayCallsFail", "RegistryGatewayErrorBudgetBurnsFast"];
    for (const each of failing) {
      expect(pagesOf([labelsOf(alert, "amulet"), labelsOf(each, "amulet")])).toContain(each);
    }
  },
);

test("a registry that is out keeps back the pages that follow from it", () => {
  const all = ["RegistryGatewayAdminMismatch", "RegistryGatewayCallsFail", "RegistryGatewayErrorBudgetBurnsFast"];
  expect(pagesOf(all.map((alert) => labelsOf(alert, "amulet")))).toEqual(["RegistryGatewayAdminMismatch"]);
});

describe("every alert", () => {
  test("has a case in which it fires and one in which it does not", () => {
    expect(ALERT_CASES.map(({ alert }) => alert).sort()).toEqual(CONDITIONS.map(({ alert }) => alert).sort());
  });

  test.each(CONDITIONS)("$alert says what it means, where to look and what to do", ({ alert }) => {
    const rule = rules.find((each) => each.alert === alert)!;
    expect(rule.labels?.["severity"]).toMatch(/^(page|warning)$/);
    expect(rule.annotations?.["summary"]).toBeTruthy();
    expect(rule.annotations?.["description"]).toMatch(/ Look at: .* Do: /s);
    const [file, anchor] = rule.annotations!["runbook_url"]!.split("#");
    expect(file).toBe(RUNBOOKS);
    const runbooks = readFileSync(join(CONFIG, "..", file!), "utf8");
    expect(runbooks.split("\n").filter((line) => line === `## ${alert}`)).toHaveLength(1);
    // As Markdown renderers make anchors of headings.
    expect(anchor).toBe(alert.toLowerCase());
  });

  test("that names an upstream or replica in its text keeps that label", () => {
    for (const { alert, annotations, expr } of rules.filter((rule) => rule.alert !== undefined)) {
      for (const [, label] of annotations!["summary"]!.matchAll(/\$labels\.([a-z]+)/g)) {
        const isKept = expr.includes(label!) || RECORDING_RULES.some((each) => expr.includes(each.record));
        expect(isKept, `${alert} ${label}`).toBe(true);
      }
    }
  });
});
