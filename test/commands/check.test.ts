import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { estimateMemory } from "../../src/commands/check.ts";
import { testConfig } from "../support/gateway.ts";

const ROOT = join(import.meta.dirname, "../..");
const MIB = 2 ** 20;

function estimate(keys: Record<string, unknown>): readonly number[] {
  const { underLoad, limit } = estimateMemory(
    testConfig({ upstreams: [{ name: "amulet", urls: ["https://a.example"] }], ...keys }),
  );
  return [underLoad, limit].map((bytes) => Math.ceil(bytes / MIB));
}

test("the estimate of memory is what the page of sizes says", () => {
  const [underLoad, limit] = estimate({});
  const page = readFileSync(join(ROOT, "docs/operations/sizing.md"), "utf8");
  expect(page).toContain(`memory: about ${underLoad} MiB at full load; limit the process to ${limit} MiB`);
});

test.each([
  ["a larger cache", { cache: { memory: { maxBytes: "128MiB" } } }, 1.3 * 64, 1.3 * 64],
  // Idle ones were counted, at 9 KiB: heads of 23.5 kB that do not end take four times that.
  ["more connections", { listen: { maxConnections: 10_000 + 102_400 } }, 0, 3_600],
  ["longer URLs", { limits: { uri: "72KiB" } }, 0, 1_562.5],
  ["no shorter URLs", { limits: { uri: "4KiB" } }, 0, 0],
  ["larger settlements", { limits: { requestBody: "20MiB" } }, 0, 16],
  ["larger answers", { limits: { responseBody: "72MiB" } }, 0, 32],
])("the estimate counts %s", (_what, keys, underLoad, limit) => {
  const [before, after] = [estimate({}), estimate(keys)];
  expect(Math.abs(after[0]! - before[0]! - underLoad)).toBeLessThanOrEqual(1);
  expect(Math.abs(after[1]! - before[1]! - limit)).toBeLessThanOrEqual(1);
});

test("the examples of config/ limit a process to no less", () => {
  const [, limit] = estimate({});
  const compose = readFileSync(join(ROOT, "config/compose.yaml"), "utf8");
  const kubernetes = readFileSync(join(ROOT, "config/kubernetes/deployment.yaml"), "utf8");
  expect(Number(/mem_limit: ([0-9]+)m/.exec(compose)![1])).toBeGreaterThanOrEqual(limit!);
  expect(Number(/limits:[^]*?memory: ([0-9]+)Mi/.exec(kubernetes)![1])).toBeGreaterThanOrEqual(limit!);
});
