import { execFile } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join, parse } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { parseConfig } from "../../src/config/parse.ts";
import { useTemporaryFolder } from "../support/temporary-folder.ts";

const UNIT = readFileSync(join(import.meta.dirname, "../../config/systemd/registry-gateway@.service"), "utf8");
const CONFIG = readFileSync(join(import.meta.dirname, "../../config/systemd/gateway.yaml"), "utf8");

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
  expect(settings("Unit").get("Description")).toBe("Registry Gateway %i");
  expect(settings("Install").get("WantedBy")).toBe("multi-user.target");
});

test("the steps at its top make the folder of the configuration before they copy into it", () => {
  const steps = UNIT.slice(0, UNIT.indexOf("[Unit]"));
  const { dir } = parse(settings("Service").get("ExecStart")!.split(" ").at(-1)!);
  expect(steps.indexOf(`mkdir -p ${dir}\n`)).toBeGreaterThan(0);
  expect(steps.indexOf(`mkdir -p ${dir}\n`)).toBeLessThan(steps.indexOf(`to ${dir}/`));
});

// A secret that came a second late after a boot, or five quick failures, ended an instance for good.
test("whatever ends an instance, it is started again, and not in a hurry", () => {
  const service = settings("Service");
  expect(service.get("Restart")).toBe("on-failure");
  expect(service.has("RestartPreventExitStatus")).toBe(false);
  expect(Number(service.get("RestartSec"))).toBeGreaterThanOrEqual(5);
  expect(settings("Unit").get("StartLimitIntervalSec")).toBe("0");
});

test("the service has no rights, and writes nowhere but into its state", () => {
  const service = settings("Service");
  expect(service.get("User")).toBe("registry-gateway");
  expect(service.get("StateDirectory")).toBe("registry-gateway");
  expect(service.get("ProtectSystem")).toBe("strict");
  expect(service.get("NoNewPrivileges")).toBe("yes");
  expect(service.get("CapabilityBoundingSet")).toBe("");
  // V8 compiles: with it the process ends at its start.
  expect(service.has("MemoryDenyWriteExecute")).toBe(false);
});

test("secrets are no copies of the start, which would hide that they were replaced", () => {
  const service = settings("Service");
  expect([...service.keys()].filter((key) => /Credential/.test(key))).toEqual([]);
  expect(service.get("DynamicUser")).toBe(undefined);
});

describe("instances on one machine", () => {
  test("share the public port, and have an operations port each, their name", () => {
    const [one, other] = ["9091", "9092"].map((instance) => {
      const [, name, value] = /(OPERATIONS_PORT)=(%i)/.exec(settings("Service").get("Environment")!)!;
      const env = { [name!]: value!.replace("%i", instance) };
      // In a test there is no such file yet.
      const text = CONFIG.replace(/ {2}tokenFile: .*\n/, "");
      const { config, problems } = parseConfig({ text, file: "gateway.yaml", env });
      expect(problems).toEqual([]);
      return config!;
    });
    expect([one!.listen.port, one!.listen.reusePort]).toEqual([other!.listen.port, true]);
    expect([one!.operations.port, other!.operations.port]).toEqual([9091, 9092]);
    expect(one!.redis).toEqual(other!.redis);
  });

  const folder = useTemporaryFolder();

  /** What systemd runs before the first start of an instance. */
  function begin(instance: string) {
    mkdirSync(join(folder(), "registry-gateway"), { recursive: true });
    const command = settings("Service").get("ExecStartPre")!;
    const script = /^\/bin\/sh -c '(.*)'$/.exec(command)![1]!.replaceAll("%S", folder()).replaceAll("%i", instance);
    return promisify(execFile)("/bin/sh", ["-c", `umask ${settings("Service").get("UMask")}; ${script}`]);
  }

  test("make one operations token at the first start, and keep it", async () => {
    await Promise.all(["9091", "9092", "9093"].map(begin));
    const token = join(folder(), "registry-gateway/operations-token");
    const made = readFileSync(token, "utf8");
    expect(Buffer.from(made, "base64")).toHaveLength(32);
    expect(statSync(token).mode & 0o777).toBe(0o600);
    expect(readdirSync(join(folder(), "registry-gateway"))).toEqual(["operations-token"]);
    await begin("9091");
    expect(readFileSync(token, "utf8")).toBe(made);
    const text = CONFIG.replace("/var/lib/registry-gateway/operations-token", token);
    const { problems } = parseConfig({ text, file: join(folder(), "gateway.yaml"), env: { OPERATIONS_PORT: "9091" } });
    expect(problems).toEqual([]);
  });
});
