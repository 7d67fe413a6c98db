import { afterEach, expect, test } from "vitest";
import { UTILITY_ADMIN } from "../support/sample.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { RealProcess } from "../support/real-process.ts";
import { keysOf, reloadUnderLoad } from "../support/reload-under-load.ts";

const registry = useSampleRegistries();
let gateway: RealProcess | undefined;

afterEach(() => gateway?.dispose());

test("reloads under load cost no request and no cache, and a bad file in between changes nothing", async () => {
  const [stable, changing] = [await registry(), await registry({ admin: UTILITY_ADMIN })];
  gateway = await RealProcess.start(keysOf({ stable, changing }, 0));
  const report = await reloadUnderLoad({ gateway, stable, changing, reloads: 12, rate: 200 });
  expect(report.failures).toEqual({});
  expect(report.refused).toBe(1);
  expect(report.applied).toBeGreaterThanOrEqual(11);
  expect(report.metadataCalls).toBe(0);
  expect(await gateway.metric("registry_gateway_config_last_reload_successful")).toBe(1);
});
