import { describe, expect, test } from "vitest";
import { contractId } from "../../../src/sandbox/contracts.ts";
import { ENDPOINTS, endpointPath } from "../../../src/spec/endpoints.ts";
import { useGateways } from "../../support/gateways.ts";
import { DSO } from "../../support/sample.ts";
import { useSampleRegistries } from "../../support/sample-registries.ts";
import { send } from "../../support/send.ts";

const BODY = '{ "error" : "The contract is being reassigned" }';
const POSTS = ENDPOINTS.filter(({ kind }) => kind !== "metadata");
const REQUESTS = 240;
const AT_ONCE = 20;

describe("while half of a registry's answers are 409", () => {
  const startRegistry = useSampleRegistries();
  const startGateway = useGateways();

  test.each([1, 2])("nothing is ejected, opened or tried again: %i nodes", async (count) => {
    const nodes = await Promise.all(Array.from({ length: count }, () => startRegistry()));
    const { url, operations } = await startGateway({
      // What is slow is hedged, on a busy machine anything: here each call is to be counted.
      upstreams: [{ name: "amulet", admin: DSO, urls: nodes.map((node) => node.url), hedge: { enabled: false } }],
    });
    const operationsOfPosts = POSTS.map(({ operation }) => operation);
    for (const { faults, calls } of nodes) {
      calls.clear();
      await faults.set({ kind: "status", status: 409, body: BODY, rate: 0.5, operations: operationsOfPosts });
    }
    const statuses: number[] = [];
    const storm = async (first: number) => {
      for (let at = first; at < REQUESTS; at += AT_ONCE) {
        const endpoint = POSTS[at % POSTS.length]!;
        const path = endpointPath(endpoint, contractId(DSO, `contract ${at}`));
        const answer = await send(url, { path, body: '{"choiceArguments":{}}' });
        if (answer.status === 409) expect(answer.text).toBe(BODY);
        expect(answer.headers["registry-gateway-error"]).toBeUndefined();
        statuses.push(answer.status);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, (_none, first) => storm(first)));
    expect(new Set(statuses)).toEqual(new Set([200, 409]));
    expect(statuses).toHaveLength(REQUESTS);
    expect(statuses.filter((status) => status === 409).length).toBeGreaterThan(REQUESTS / 3);

    // Each request was one call.
    const made = nodes.flatMap(({ calls }) => calls.recent.filter(({ operation }) => operation !== "info"));
    expect(made).toHaveLength(REQUESTS);
    const metrics = (await send(operations, { path: "/metrics" })).text;
    const valueOf = (series: string) => new RegExp(`^registry_gateway_${series} (\\S+)$`, "m").exec(metrics)?.[1];
    expect({
      retries: valueOf('upstream_retries_total\\{upstream="amulet"\\}'),
      ejections: valueOf('upstream_node_ejections_total\\{upstream="amulet"\\}'),
      breaker: valueOf('upstream_breaker_state\\{upstream="amulet"\\}'),
      failed: valueOf('upstream_calls_total\\{upstream="amulet",kind="other",outcome="failed"\\}'),
      answered: valueOf('upstream_calls_total\\{upstream="amulet",kind="other",outcome="answered"\\}'),
      serverErrors:
        valueOf('requests_total\\{operation="settlement_factory_v2",upstream="amulet",status="5xx"\\}') ?? "0",
    }).toEqual({
      retries: "0",
      ejections: "0",
      breaker: "0",
      failed: "0",
      answered: String(REQUESTS),
      serverErrors: "0",
    });
    const status = JSON.parse((await send(operations, { path: "/status" })).text) as { upstreams: object[] };
    expect(status.upstreams).toMatchObject([
      { state: "up", breaker: "closed", nodes: nodes.map(() => ({ state: "up", ejections: 0 })) },
    ]);
  });
});
