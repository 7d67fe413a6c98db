import { afterEach, expect, test } from "vitest";
import { GatewayProcess } from "../../support/gateway-process.ts";
import { keysOf, reloadUnderLoad } from "../../support/reload-under-load.ts";
import { UTILITY_ADMIN } from "../../support/sample.ts";
import { useSampleRegistries } from "../../support/sample-registries.ts";

const registry = useSampleRegistries();
let gateway: GatewayProcess | undefined;

afterEach(() => gateway?.stop());

test("100 reloads under 1,000 requests a second cost nothing", async () => {
  const [stable, changing] = [await registry(), await registry({ admin: UTILITY_ADMIN })];
  gateway = await GatewayProcess.start(keysOf({ stable, changing }, 0));
  const report = await reloadUnderLoad({ gateway, stable, changing, reloads: 100, rate: 1_000 });
  console.log(JSON.stringify(report));
  expect(report.failures).toEqual({});
  expect(report.refused).toBe(10);
  expect(report.applied).toBeGreaterThanOrEqual(90);
  expect(report.metadataCalls).toBe(0);
});
