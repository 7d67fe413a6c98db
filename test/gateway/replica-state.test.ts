import { expect, test } from "vitest";
import { parseConfig } from "../../src/config/parse.ts";
import { GatewayError } from "../../src/errors.ts";
import { ReplicaStateSource } from "../../src/gateway/replica-state.ts";
import { createMetrics } from "../../src/observe/metrics.ts";
import { Traffic } from "../../src/observe/traffic.ts";
import { localCoordinator } from "../../src/sharing/alone.ts";
import { ManualClock } from "../support/manual-clock.ts";

/** A replica with this configuration. */
function replicaOf(yaml: string) {
  const { config, problems } = parseConfig({ text: yaml, file: "test.yaml", env: {} });
  expect(problems).toEqual([]);
  const clock = new ManualClock();
  const traffic = new Traffic(createMetrics().metrics);
  const source = new ReplicaStateSource({
    clock,
    actions: localCoordinator(clock).actions,
    config: () => config!,
    clientKeys: () => undefined,
    upstreams: () => [],
    answered: () => traffic.answered,
    load: () => ({ utilization: 0, delay: 0 }),
    residentBytes: () => 0,
  });
  return { clock, traffic, source };
}

/** What a replica with this configuration says that it follows. */
function configurationOf(yaml: string): string {
  return replicaOf(yaml).source.read().follows.configuration;
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

// It was added up from the series of the metric, and said with the state after: those of an upstream that a reload took
// away were missing.
test("a replica says how many requests a second it answered in the last seconds, hits and refusals alike", () => {
  const { clock, traffic, source } = replicaOf(ONE);
  const perSecond = () => source.read().load.requestsPerSecond;
  const recordHit = traffic.recorder({ operation: "info", upstream: "amulet", outcome: "hit" });
  for (let i = 0; i < 48; i += 1) recordHit({ status: 200, age: 1, seconds: 0.0001 });
  const refused = { operation: "none", upstream: "none", outcome: "refused" } as const;
  traffic.begin();
  traffic.finish(refused, { status: 404, age: undefined, seconds: 0 });
  traffic.refusedUnparsed(new GatewayError("malformed_request", "no HTTP"));
  expect(perSecond()).toBe(0);
  clock.advance(5_000);
  expect(perSecond()).toBe(10);
  clock.advance(5_000);
  expect(perSecond()).toBe(0);
});
