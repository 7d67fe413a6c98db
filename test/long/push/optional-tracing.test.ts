import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { stringify } from "yaml";
import { systemClock } from "../../../src/clock.ts";
import { SampleRegistry } from "../../support/sample-registry.ts";
import { DSO } from "../../support/sample.ts";
import { GatewayProcess } from "../../support/gateway-process.ts";

const MAIN = join(import.meta.dirname, "../../../src/main.ts");

/** Makes the OpenTelemetry packages look as if they were not installed, but for the one that the metrics client needs. */
const WITHOUT_PACKAGES = `data:text/javascript,${encodeURIComponent(`
  import { registerHooks } from "node:module";
  registerHooks({
    resolve(specifier, context, next) {
      const isOptional = specifier.startsWith("@opentelemetry/") && specifier !== "@opentelemetry/api";
      if (isOptional) throw new Error("not installed: " + specifier);
      return next(specifier, context);
    },
  });
`)}`;

const COMMAND = [process.execPath, "--import", WITHOUT_PACKAGES, MAIN];

test("without tracing.endpoint and metrics.otlp nothing of OpenTelemetry is loaded", async () => {
  const registry = new SampleRegistry({ admin: DSO, clock: systemClock() });
  await registry.start();
  const upstreams = [{ name: "amulet", admin: DSO, urls: [registry.url] }];
  const gateway = await GatewayProcess.start({ upstreams }, { command: COMMAND });
  const response = await fetch(`${gateway.url}/registry/metadata/v1/info`);
  expect(response.status).toBe(200);
  expect(await gateway.stop()).toBe(0);
  await registry.stop();
});

test.each([
  ["tracing.endpoint", { tracing: { endpoint: "http://127.0.0.1:1/v1/traces" } }],
  ["metrics.otlp", { metrics: { otlp: { endpoint: "http://127.0.0.1:1/v1/metrics" } } }],
])("with %s but without the packages it says what is missing and ends", (key, config) => {
  const folder = mkdtempSync(join(tmpdir(), "gateway-"));
  const file = join(folder, "gateway.yaml");
  const upstreams = [{ name: "amulet", admin: DSO, urls: ["http://127.0.0.1:1"] }];
  writeFileSync(file, stringify({ ...config, upstreams }));
  const [program, ...args] = COMMAND;
  const { status, stdout } = spawnSync(program!, [...args, "start", "--config", file], {
    encoding: "utf8",
    timeout: 50_000,
  });
  expect(status).toBe(1);
  expect(stdout).toContain(`${key} is set, but the OpenTelemetry packages are not installed`);
  rmSync(folder, { recursive: true });
});
