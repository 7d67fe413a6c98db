import { expect, test } from "vitest";
import { useGateways } from "../support/gateways.ts";
import { DSO } from "../support/sample.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";

const startRegistry = useSampleRegistries();
const startGateway = useGateways();

/** A party id in a key that no version of the API knows. */
const OWNER = `owner::1220${"ab".repeat(32)}`;

interface Status {
  readonly upstreams: readonly {
    readonly agreement: unknown;
    readonly divergences: readonly { readonly differences: readonly unknown[]; readonly nodes: readonly number[] }[];
  }[];
}

test("nodes that differ are counted, logged without ids and values, and shown with both values", async () => {
  const registries = [await startRegistry(), await startRegistry()];
  registries[1]!.catalogue.update("Amulet/USD", { extra: { [OWNER]: "secret-value" } });
  const running = await startGateway({
    upstreams: [{ name: "dso", admin: DSO, urls: registries.map((each) => each.url), compare: 1, agree: 2 }],
  });
  const { gateway, url, operations, lines } = running;
  const path = "/registry/metadata/v1/instruments/Amulet%2FUSD";
  const response = await fetch(running.registrar(DSO) + path);
  expect(response.status).toBe(200);
  // The answer is here before the second look.
  expect(lines.map(({ msg }) => msg)).not.toContain("nodes differ");
  await expect.poll(() => lines.find(({ msg }) => msg === "nodes differ"), { timeout: 15_000 }).toBeDefined();

  const line = lines.find(({ msg }) => msg === "nodes differ")!;
  expect(line).toMatchObject({ upstream: "dso", operation: "instrument", level: "warn" });
  expect(line["paths"]).toEqual([expect.stringMatching(/^[0-9a-f]{12}: \$\['extra'\]$/)]);
  expect(JSON.stringify(lines)).not.toContain("secret-value");
  expect(JSON.stringify(lines)).not.toContain(OWNER);

  const status = (await (await fetch(`${operations}/status`)).json()) as Status;
  expect(status.upstreams).toMatchObject([
    {
      agreement: { needed: 2, agreeing: 2, isReached: true },
      divergences: [{ operation: "instrument", odd: null, times: 1 }],
    },
  ]);
  const [divergence] = status.upstreams[0]!.divergences;
  const { nodes, differences } = divergence!;
  const value = expect.stringContaining("secret-value");
  expect(differences).toEqual([
    {
      instrument: "Amulet/USD",
      path: "$['extra']",
      kind: "data",
      values: nodes[0] === 0 ? [null, value] : [value, null],
    },
  ]);

  const metrics = await (await fetch(`${operations}/metrics`)).text();
  expect(metrics).toContain(
    'registry_gateway_node_divergences_total{upstream="dso",operation="instrument",kind="data"} 1',
  );
  expect(metrics).toContain('registry_gateway_node_comparisons_total{upstream="dso",result="different"} 1');
  // With agree, a node that waited for the other one is asked again over the connection that carries the first call.
  expect(metrics).toMatch(/registry_gateway_node_comparison_calls_total\{upstream="dso"\} [34]\n/);
  expect(metrics).toContain('registry_gateway_upstream_agreement_missing{upstream="dso"} 0');
  expect(gateway.config.upstreams[0]).toMatchObject({ compare: 1, agree: 2 });
  expect((await fetch(`${url}/registry/metadata/v1/info`)).status).toBe(200);
});
