import { expect, test } from "vitest";
import { parseConfig } from "../../src/config/parse.ts";
import { ReplicaStateSource } from "../../src/gateway/replica-state.ts";
import { createMetrics } from "../../src/observe/metrics.ts";
import { localCoordinator } from "../../src/sharing/alone.ts";
import { ManualClock } from "../support/manual-clock.ts";

/** What a replica with this configuration says that it follows. */
function configurationOf(yaml: string): string {
  const { config, problems } = parseConfig({ text: yaml, file: "test.yaml", env: {} });
  expect(problems).toEqual([]);
  const clock = new ManualClock();
  const source = new ReplicaStateSource({
    clock,
    metrics: createMetrics().metrics,
    actions: localCoordinator(clock).actions,
    config: () => config!,
    clientKeys: () => undefined,
    upstreams: () => [],
    load: () => ({ utilization: 0, delay: 0 }),
    residentBytes: () => 0,
  });
  return source.read().follows.configuration;
}

const ONE = `
operations: { port: 9091 }
discovery: { pinFile: /var/lib/pins-9091.json, max: 10, sources: [{ url: "https://lists.example" }] }
`;

// With a unit for each replica of a machine, whose pin files are named by their ports, replicas differed for ever.
test("replicas of one machine follow the same configuration, though each has its listeners and its pin file", () => {
  expect(configurationOf(ONE.replaceAll("9091", "9092"))).toBe(configurationOf(ONE));
  expect(configurationOf(ONE.replace("max: 10", "max: 20"))).not.toBe(configurationOf(ONE));
});
