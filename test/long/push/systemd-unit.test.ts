import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { loadConfig } from "../../../src/config/load.ts";
import { temporaryFolder } from "../../support/gateway.ts";
import { provideProgram, SYSTEMD_ANALYZE } from "../../support/programs.ts";
import { blockOf, readText } from "../../support/project.ts";

const UNIT = "config/systemd/registry-gateway@.service";
const settings = new Map(
  readText(UNIT)
    .split("\n")
    .filter((line) => /^\w+=[^"]/.test(line))
    .map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]),
);

test("systemd has nothing to say against the unit", () => {
  const instance = join(temporaryFolder(), "registry-gateway@9091.service");
  writeFileSync(instance, readText(UNIT));
  const { status, stdout, stderr } = spawnSync(provideProgram(SYSTEMD_ANALYZE), ["verify", instance], {
    encoding: "utf8",
  });
  expect([status, stdout + stderr]).toEqual([0, ""]);
});

test("whatever ends an instance, it is started again, and one that is stopped has the time it needs", () => {
  const values = { upstreams: [{ name: "a", urls: ["https://a.example"] }] };
  const { grace, timeout } = loadConfig({ values, folder: "/" }, {}).config.shutdown;
  expect(Number(settings.get("TimeoutStopSec")) * 1_000).toBeGreaterThan(grace + timeout);
  // A secret that came a second late after a boot ended an instance for good.
  expect([settings.get("Restart"), settings.get("StartLimitIntervalSec")]).toEqual(["on-failure", "0"]);
  // What systemd takes for a clean end, and a reload that comes before the program listens for it is none.
  expect(settings.get("RestartForceExitStatus")).toBe("SIGHUP");
  expect(settings.has("RestartPreventExitStatus")).toBe(false);
});

test.each([
  ["the example", readText("config/systemd/gateway.yaml")],
  ["the first day's", blockOf("docs/first-day.md", "gateway.yaml").replace(/, tls: .*(?= \})/, "")],
])("instances share the public port and have an operations port each: %s configuration", (_name, text) => {
  const folder = temporaryFolder();
  writeFileSync(join(folder, "gateway.yaml"), text);
  writeFileSync(join(folder, "operations-token"), "a-token-of-a-test");
  // As the unit gives it; none is what a shell has.
  expect(settings.get("Environment")).toContain("OPERATIONS_PORT=%i ");
  const [one, other, shell] = ["9091", "9092", ""].map(
    (port) => loadConfig({ file: join(folder, "gateway.yaml") }, { OPERATIONS_PORT: port }).config,
  );
  expect([one!.listen.port, one!.listen.reusePort]).toEqual([other!.listen.port, true]);
  expect([one!, other!, shell!].map(({ operations }) => operations.port)).toEqual([9091, 9092, 9091]);
});
