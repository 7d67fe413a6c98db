import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { CONDITIONS } from "../../../src/operations/conditions/conditions.ts";
import type { Health } from "../../../src/operations/conditions/health.ts";
import { ALERTS } from "../../../tools/alerts.ts";
import { type Drill, DRILLS } from "../../drill/drills.ts";
import { runDrill } from "../../drill/run.ts";
import type { Place } from "../../drill/scene.ts";
import { type Labels, pagesOf } from "../../support/inhibitions.ts";
import { useConsoleScene } from "../../support/console-scene.ts";
import { ROOT } from "../../support/installed-package.ts";
import { dashboardQueries } from "../../support/queries.ts";

/** What takes longest, a registry that hangs, is seen after a minute. */
const TIMEOUT = 1_000_000;

const MAIN = join(import.meta.dirname, "../../drill/main.ts");

/** The alerts of what a gateway finds, and those that only Prometheus would find and may follow from it. */
function alertsOf({ findings }: Health): readonly Labels[] {
  const pages = new Set<string>(CONDITIONS.filter(({ severity }) => severity === "page").map(({ alert }) => alert));
  const isPaged = findings.some(({ id }) => pages.has(id));
  return CONDITIONS.flatMap(({ alert, severity, subject, isCause, find }) => {
    const labels = { alertname: alert, severity, subject, cause: String(isCause), job: "gateway" };
    const found = findings.filter(({ id }) => id === alert);
    if (found.length === 0) return find === "outside" && !isCause && isPaged ? [labels] : [];
    const upstreams = new Set(found.map(({ upstream }) => upstream));
    return [...upstreams].map((upstream) => Object.assign(upstream === null ? {} : { upstream }, labels));
  });
}

test("there is a drill for each of twenty faults", () => {
  expect(Object.keys(DRILLS)).toHaveLength(20);
});

/** How runbooks name a place. */
const PLACES: Readonly<Record<Place, RegExp>> = {
  status: /^GET \/status\b/,
  metrics: /^(Upstream dashboard|Overview): ([^.,;]+)/,
  "status command": /^registry-gateway status /,
  nodes: /^registry-gateway nodes, /,
  discovery: /^registry-gateway discovery, /,
  log: /^The log: "([^"]+)"/,
  "standard error": /^One line on standard error /,
};

const panels = ["overview", "upstream"].flatMap((name) =>
  dashboardQueries(readFileSync(join(ROOT, `config/grafana/dashboards/${name}.json`), "utf8")),
);

/** Whether the drill looks where the runbook begins: at the panel's own metric, at the line that it quotes. */
function isFirstStep({ firstStep: { at, shows } }: Drill, look: string): boolean {
  const named = PLACES[at].exec(look);
  if (named === null) return false;
  if (at === "log") return shows.source.includes(`"msg":"${named[1]}"`);
  if (at !== "metrics") return true;
  const metric = /registry_gateway_[a-z_]+?(?=_sum|\\|$)/.exec(shows.source)![0];
  return panels.some(({ title, expr }) => title === named[2] && expr.includes(metric));
}

/** What is counted may have grown from one look to the next, and lines are broken where a terminal ends. */
const words = (text: string): string => text.replaceAll(/\d+(\.\d+)?/g, "n").replaceAll(/\s+/g, " ");

const operators = useConsoleScene();

describe.each(Object.entries(DRILLS))("drill %s", (_name, drill) => {
  test(
    `${drill.breaks}: status, its command and the console name it in time, at most one page says so, the runbook finds it, and it is over once it is mended`,
    async () => {
      const { severity } = CONDITIONS.find(({ alert }) => alert === drill.alert)!;
      const { runbook } = ALERTS[drill.alert];
      expect(isFirstStep(drill, runbook.look), runbook.look).toBe(true);
      const outcome = await runDrill(drill, {
        say: () => undefined,
        async isSeen(scene) {
          const page = await operators.open(scene);
          // Which thing is said first, and how many more there are, may change while they are read.
          const said = new Set<string>();
          const note = async () => void said.add(words((await scene.status()).health.sentence));
          await expect
            .poll(async () => {
              await note();
              const [command, shown] = [await scene.look("status command"), await page.locator(".health").innerText()];
              await note();
              return [command, shown].map((text) => [...said].some((sentence) => words(text).includes(sentence)));
            })
            .toEqual([true, true]);
          // Where the runbook sends an operator to the log, the line is there.
          const log = await scene.look("log");
          for (const [, message] of runbook.look.matchAll(/"([^"]+)"/g)) expect(log).toContain(`"msg":"${message}"`);
          await page.close();
        },
      });
      const { seenAfter, isFound, isOver, status } = outcome;
      expect(seenAfter, status.health.sentence).toBeLessThanOrEqual(drill.within);
      expect(isFound, `the first step: ${drill.firstStep.at}`).toBe(true);
      expect(isOver).toBe(true);
      expect(pagesOf(alertsOf(status.health))).toEqual(severity === "page" ? [drill.alert] : []);
      for (const { id, upstream, text } of status.health.findings) {
        if (id === drill.alert && upstream !== null) expect(text).toContain(upstream);
      }
    },
    TIMEOUT,
  );
});

test("without a name the drills are listed, and one that is none is refused", () => {
  const listed = spawnSync(process.execPath, [MAIN], { encoding: "utf8" });
  expect(listed.status).toBe(0);
  for (const [name, { breaks }] of Object.entries(DRILLS))
    expect(listed.stdout).toMatch(new RegExp(` ${name} +${breaks.slice(0, 10)}`));
  expect(spawnSync(process.execPath, [MAIN, "no-such"], { encoding: "utf8" }).status).toBe(1);
});

test(
  "a drill prints the health sentence, the alert, its runbook and that it is mended",
  () => {
    const { status, stdout } = spawnSync(process.execPath, [MAIN, "identity", "--once"], {
      encoding: "utf8",
      timeout: TIMEOUT,
    });
    expect(status).toBe(0);
    for (const text of [
      "bonds serves another registry than configured",
      "Alert RegistryGatewayAdminMismatch: pages",
      "look   ",
      "found at: status",
      "Mended.",
    ]) {
      expect(stdout).toContain(text);
    }
  },
  TIMEOUT,
);
