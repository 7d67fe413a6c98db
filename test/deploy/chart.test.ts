import Schema from "typebox/schema";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { blockOf, readYaml } from "../support/project.ts";

type Values = Readonly<Record<string, unknown>>;

const values = readYaml("config/helm/values.yaml") as Values;
const schema = Schema.Compile(readYaml("config/helm/values.schema.json") as object);
const good = { config: { upstreams: [{ name: "amulet", urls: ["https://registry.example"] }] } };

describe("the chart", () => {
  it("has the version of the package", () => {
    const { version } = readYaml("package.json") as { version: string };
    const chart = readYaml("config/helm/Chart.yaml") as { version: string; appVersion: string };
    expect([chart.version, chart.appVersion]).toEqual([version, version]);
  });

  it.each<[isGood: boolean, given: Values]>([
    [true, good],
    [true, parse(blockOf("docs/first-day.md", "values.yaml")) as Values],
    [true, { ...good, podSpec: { nodeSelector: { disk: "ssd" } }, podAnnotations: { team: "wallets" } }],
    [true, { config: { listen: { port: "${PORT}" }, clients: false, ...good.config } }],
    [false, {}],
    [false, { ...good, replica: 3 }],
    [false, { ...good, replicas: "3" }],
    [false, { ...good, image: { name: "x" } }],
    [false, { config: { ...good.config, listen: { ports: 1 } } }],
    [false, { config: { upstreams: [{ name: "amulet" }] } }],
  ])("%s: takes the values %j", (isGood, given) => {
    expect(schema.Check({ ...values, ...given })).toBe(isGood);
  });
});
