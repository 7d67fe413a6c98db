import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { useSampleRegistries } from "../../support/sample-registries.ts";
import { DSO, UTILITY_ADMIN } from "../../support/sample.ts";
import { until } from "../../support/until.ts";
import { GatewayProcess } from "../../support/gateway-process.ts";
import { useTemporaryFolder } from "../../support/temporary-folder.ts";

const folder = useTemporaryFolder();
const startRegistry = useSampleRegistries();

let gateway: GatewayProcess | undefined;
afterEach(async () => {
  await gateway?.stop();
});

test("one registry's bad secret keeps no other change out, and the registry goes on", async () => {
  const [amulet, bonds] = [await startRegistry(), await startRegistry({ admin: UTILITY_ADMIN })];
  const token = join(folder(), "token");
  writeFileSync(token, "one");
  const keys = {
    upstreams: [
      { name: "amulet", admin: DSO, urls: [amulet.url] },
      { name: "bonds", admin: UTILITY_ADMIN, urls: [bonds.url], auth: { bearerTokenFile: token } },
    ],
  };
  gateway = await GatewayProcess.start(keys);
  const { url } = gateway;
  const call = async (name: string): Promise<number> => {
    const path = `/api/token-standard/v0/registrars/${name}/registry/allocations/v1/00ab/choice-contexts/cancel`;
    return (
      await fetch(`${url}${path}`, { method: "POST", body: "{}", headers: { "content-type": "application/json" } })
    ).status;
  };
  await until(async () => (await call("bonds")) === 200);

  writeFileSync(token, "two\nlines");
  const isWithoutDocs = async () => (await fetch(`${url}/openapi.json`)).status === 404;
  gateway.write({ ...keys, docs: false, limits: { responseBody: "4MiB" } });
  gateway.signal("SIGHUP");
  await until(isWithoutDocs);
  for (let i = 0; i < 10; i++) expect([await call("amulet"), await call("bonds")]).toEqual([200, 200]);
  expect(bonds.calls.last?.headers.authorization).toBe("Bearer one");
  const labels = 'upstream="bonds",key="auth.bearerTokenFile"';
  await until(async () => (await gateway!.metric("registry_gateway_upstream_credential_unusable", labels)) > 0);
  const isAboutBonds = (line: Readonly<Record<string, unknown>>) =>
    line["upstream"] === "bonds" && line["key"] === "auth.bearerTokenFile";
  await until(() => gateway!.said("credential cannot be used").some(isAboutBonds));

  writeFileSync(token, "three");
  await until(async () => {
    await call("bonds");
    return bonds.calls.last?.headers.authorization === "Bearer three";
  });
}, 120_000);
