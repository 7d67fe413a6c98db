import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { EXIT } from "../../src/commands/command-line.ts";
import { parseConfig } from "../../src/config/parse.ts";

const UNIT = readFileSync(join(import.meta.dirname, "../../config/systemd/registry-gateway.service"), "utf8");

function settings(section: string): Map<string, string> {
  const lines = UNIT.split(`[${section}]\n`)[1]!.split("\n[")[0]!.split("\n");
  return new Map(
    lines
      .filter((line) => line !== "" && !line.startsWith("#"))
      .map((line) => {
        const at = line.indexOf("=");
        expect(at, line).toBeGreaterThan(0);
        return [line.slice(0, at), line.slice(at + 1)];
      }),
  );
}

test("the unit has its three sections and an order to be stopped in time", () => {
  const { config } = parseConfig({ text: "upstreams: [{name: a, urls: [https://a.example]}]", file: "a", env: {} });
  const service = settings("Service");
  const { grace, timeout } = config!.shutdown;
  expect(Number(service.get("TimeoutStopSec")) * 1000).toBeGreaterThan(grace + timeout);
  expect(service.get("KillSignal")).toBe("SIGTERM");
  expect(settings("Unit").get("Description")).toBe("Registry Gateway");
  expect(settings("Install").get("WantedBy")).toBe("multi-user.target");
});

test("a bad configuration is not tried again and again", () => {
  expect(settings("Service").get("RestartPreventExitStatus")).toBe(String(EXIT.badConfig));
});

test("the service has no rights and writes nowhere", () => {
  const service = settings("Service");
  expect(service.get("DynamicUser")).toBe("yes");
  expect(service.get("ProtectSystem")).toBe("strict");
  expect(service.get("NoNewPrivileges")).toBe("yes");
  expect(service.get("CapabilityBoundingSet")).toBe("");
  // V8 compiles: with it the process ends at its start.
  expect(service.has("MemoryDenyWriteExecute")).toBe(false);
});
