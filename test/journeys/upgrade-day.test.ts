import { supportedApis } from "../../src/sandbox/instrument.ts";
import { describe, expect, test } from "vitest";
import { useGateways } from "../support/gateways.ts";
import { DSO } from "../support/sample.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { send } from "../support/send.ts";

const INFO = "/registry/metadata/v1/info";
const PAGE = "/registry/metadata/v1/instruments";
const ONE = `${PAGE}/Amulet`;
const V2 = '"splice-api-token-transfer-instruction-v2":1';

describe("the day on which a registry is upgraded to version 2", () => {
  const startRegistry = useSampleRegistries();
  const startGateway = useGateways();

  test("clients see its new supportedApis as soon as its info and instruments are purged, and a line tells", async () => {
    const registry = await startRegistry({ version: "v1" });
    const { url, operations, lines } = await startGateway({
      cache: { ttl: { info: "1h", instruments: "10m", instrument: "10m" } },
      upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url] }],
    });
    const seen = async () => {
      const answers = await Promise.all([INFO, PAGE, ONE].map((path) => send(url, { path })));
      return answers.map(({ status, text }) => `${status} ${text.includes(V2) ? "v2" : "v1"}`);
    };
    const old = ["200 v1", "200 v1"];
    expect((await seen()).slice(0, 2)).toEqual(old);

    const instrument = `{"id":"Amulet","name":"Amulet","symbol":"AMT","decimals":10,"supportedApis":{${V2}}}`;
    registry.script(({ operation }) => {
      if (operation === "info") return { status: 200, body: `{"adminId":"${DSO}","supportedApis":{${V2}}}` };
      if (operation === "instruments") return { status: 200, body: `{"instruments":[${instrument}]}` };
      return operation === "instrument" ? { status: 200, body: instrument } : undefined;
    });
    expect((await seen()).slice(0, 2)).toEqual(old);

    for (const endpoint of ["info", "instruments"]) {
      const body = JSON.stringify({ upstream: "amulet", endpoint });
      expect((await send(operations, { path: "/purge", body })).status).toBe(200);
    }
    expect(await seen()).toEqual(["200 v2", "200 v2", "200 v2"]);
    const told = lines.filter(({ msg }) => msg === "supportedApis changed");
    expect(told).toMatchObject([
      {
        upstream: "amulet",
        added: ["splice-api-token-transfer-instruction-v2 1"],
        removed: Object.keys(supportedApis("v1"))
          .sort()
          .map((name) => `${name} 1`),
      },
    ]);
    const metrics = (await send(operations, { path: "/metrics" })).text;
    expect(metrics).toMatch(/^registry_gateway_upstream_supported_apis_changes_total\{upstream="amulet"\} 1$/m);
  });

  test("paths of version 2 work before the info names them, and stop when it is rolled back", async () => {
    const registry = await startRegistry();
    const { url } = await startGateway({ upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url] }] });
    const path = "/registry/transfer-instruction/v2/transfer-factory";
    const ask = async () => (await send(url, { path, body: '{"choiceArguments":{}}' })).status;
    expect(await ask()).toBe(200);
    await registry.faults.set({ kind: "html-404", operations: ["transfer_factory_v2"] });
    expect(await ask()).toBe(404);
    await registry.faults.clear();
    expect(await ask()).toBe(200);
  });
});
