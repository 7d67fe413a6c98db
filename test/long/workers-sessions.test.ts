import { expect, onTestFinished, test } from "vitest";
import { GatewayProcess } from "../support/gateway-process.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { DSO } from "../support/sample.ts";
import { send } from "../support/send.ts";

const CONSOLE = { "x-registry-gateway-console": "1" };

const startRegistry = useSampleRegistries();

test("with workers, one session of the console holds for all that is asked", async () => {
  const registry = await startRegistry();
  const gateway = await GatewayProcess.start({
    workers: 2,
    operations: { token: "secret" },
    upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url] }],
  });
  onTestFinished(async () => void (await gateway.stop()));
  const { operations } = gateway;
  const begun = await send(operations, { path: "/session", body: '{"token":"secret"}', headers: CONSOLE });
  expect(begun.status).toBe(200);
  const headers = { ...CONSOLE, cookie: begun.headers["set-cookie"]![0]!.split(";")[0]! };
  for (let i = 0; i < 5; i++) {
    for (const path of ["/status", "/clients", "/requests", "/config"]) {
      expect([path, (await send(operations, { path, headers })).status]).toEqual([path, 200]);
    }
  }
  const purged = await send(operations, { path: "/purge", body: "{}", headers });
  expect([purged.status, JSON.parse(purged.text)]).toEqual([200, { purged: {}, scope: "replica" }]);
});
