import { afterEach, expect, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { LearnedAdmins } from "../../src/commands/start.ts";
import { createGateway, type Gateway } from "../../src/gateway/gateway.ts";
import { createLogger } from "../../src/observe/log.ts";
import { testConfig } from "../support/gateway.ts";
import { until } from "../support/until.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";

const registry = useSampleRegistries();
let gateway: Gateway | undefined;
afterEach(() => gateway?.stop({ grace: false }));

test("tells people the admin and the base URL of each registry, as soon as it is proved, and the log neither", async () => {
  const amulet = await registry();
  const config = testConfig({ upstreams: [{ name: "one", urls: [amulet.url] }] });
  let printed = "";
  let log = "";
  const learned = new LearnedAdmins(config, (line) => (printed += `${line}\n`));
  gateway = await createGateway({
    config,
    log: createLogger("info", { destination: { write: (line: string) => void (log += line) } }),
    clock: systemClock(),
    random: Math.random,
    version: "0.0.0-test",
    onAdminProved: (upstream, admin) => learned.learn(upstream, admin),
  });
  const { publicPort } = await gateway.start();
  learned.listening(publicPort);
  await until(() => printed !== "");
  const base = `http://localhost:${publicPort}/api/token-standard/v0/registrars/${encodeURIComponent(amulet.admin)}`;
  expect(printed).toBe(`one: instrument admin ${amulet.admin}\n  base URL ${base}\n`);
  const response = await fetch(`${base.replace("localhost", "127.0.0.1")}/registry/metadata/v1/info`);
  expect(response.status).toBe(200);
  expect(log).toContain("admin proved");
  expect(log).not.toContain(amulet.admin);
});

test("holds back what is proved before there is a port", () => {
  const printed: string[] = [];
  const learned = new LearnedAdmins(testConfig({ upstreams: [{ name: "a", urls: ["http://127.0.0.1:1"] }] }), (text) =>
    printed.push(text),
  );
  learned.learn("a", "x::1220");
  expect(printed).toEqual([]);
  learned.listening(80);
  learned.learn("b", "y::1220");
  expect(printed.map((line) => line.split(":")[0])).toEqual(["a", "  base URL http", "b", "  base URL http"]);
});
