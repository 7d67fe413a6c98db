import { afterEach, expect, test } from "vitest";
import { GatewayProcess } from "../../support/gateway-process.ts";
import { keysOf, reloadUnderLoad } from "../../support/reload-under-load.ts";
import { UTILITY_ADMIN } from "../../support/sample.ts";
import { useSampleRegistries } from "../../support/sample-registries.ts";
import { runs } from "../../support/thorough.ts";

const registry = useSampleRegistries();
let gateway: GatewayProcess | undefined;

afterEach(() => gateway?.stop());

const RELOADS = runs(30, 100);

test(`${RELOADS} reloads under 1,000 requests a second cost nothing`, async () => {
  const [stable, changing] = [await registry(), await registry({ admin: UTILITY_ADMIN })];
  gateway = await GatewayProcess.start(keysOf({ stable, changing }, 0));
  const report = await reloadUnderLoad({ gateway, stable, changing, reloads: RELOADS, rate: 1_000 });
  console.log(JSON.stringify(report));
  expect(report.failures).toEqual({});
  expect(report.refused).toBe(RELOADS / 10);
  expect(report.applied).toBeGreaterThanOrEqual(0.9 * RELOADS);
  expect(report.metadataCalls).toBe(0);
});
