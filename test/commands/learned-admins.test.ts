import { afterEach, expect, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { sayAdmin } from "../../src/commands/start.ts";
import { createGateway, type Gateway } from "../../src/gateway/gateway.ts";
import { createLogger } from "../../src/observe/log.ts";
import { testConfig } from "../support/gateway.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";

const registry = useSampleRegistries();
let gateway: Gateway | undefined;
afterEach(() => gateway?.stop({ grace: false }));

test("tells people the admin and the base URL of each registry, as soon as it is proved, and the log neither", async () => {
  const amulet = await registry();
  const config = testConfig({ upstreams: [{ name: "one", urls: [amulet.url] }] });
  let log = "";
  const proved = Promise.withResolvers<readonly [upstream: string, admin: string]>();
  gateway = await createGateway({
    config,
    log: createLogger("info", { destination: { write: (line: string) => void (log += line) } }),
    clock: systemClock(),
    random: Math.random,
    version: "0.0.0-test",
    onAdminProved: (upstream, admin) => proved.resolve([upstream, admin]),
  });
  const { publicPort } = await gateway.start();
  const base = `http://localhost:${publicPort}/api/token-standard/v0/registrars/${encodeURIComponent(amulet.admin)}`;
  expect(sayAdmin(config, publicPort, ...(await proved.promise))).toBe(
    `one: instrument admin ${amulet.admin}\n  base URL ${base}`,
  );
  const response = await fetch(`${base.replace("localhost", "127.0.0.1")}/registry/metadata/v1/info`);
  expect(response.status).toBe(200);
  expect(log).toContain("admin proved");
  expect(log).not.toContain(amulet.admin);
});
