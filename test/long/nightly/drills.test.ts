import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { CONDITIONS } from "../../../src/operations/conditions/conditions.ts";
import { DRILLS } from "../../drill/drills.ts";
import { runDrill } from "../../drill/run.ts";

/** What takes longest, a registry that hangs, is seen after a minute. */
const TIMEOUT = 1_000_000;

const MAIN = join(import.meta.dirname, "../../drill/main.ts");

describe.each(Object.entries(DRILLS))("drill %s", (_name, drill) => {
  test(
    `${drill.breaks}: status names it, at most one page says so, and it is over once it is mended`,
    async () => {
      const { isSeen, isOver, status } = await runDrill(drill, { say: () => undefined, isSeen: async () => undefined });
      expect([isSeen, isOver], status.health.sentence).toEqual([true, true]);
      const found = new Set(status.health.findings.map(({ id }) => id));
      const causes = CONDITIONS.filter(
        ({ alert, severity, isCause }) => found.has(alert) && severity === "page" && isCause,
      );
      const isPage = CONDITIONS.some(
        ({ alert, severity, isCause }) => alert === drill.alert && severity === "page" && isCause,
      );
      expect(causes.map(({ alert }) => alert)).toEqual(isPage ? [drill.alert] : []);
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
      "Mended.",
    ]) {
      expect(stdout).toContain(text);
    }
  },
  TIMEOUT,
);
