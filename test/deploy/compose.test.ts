import { existsSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { Type } from "typebox";
import { Compile } from "typebox/compile";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { readDeployedConfig } from "../support/config-check.ts";

const CONFIG = join(import.meta.dirname, "../../config");

function exact<Properties extends Parameters<typeof Type.Object>[0]>(properties: Properties) {
  return Type.Object(properties, { additionalProperties: false });
}

const optional = Type.Optional;
const Texts = Type.Array(Type.String());

const Service = exact({
  image: Type.String(),
  build: optional(exact({ context: Type.String() })),
  restart: optional(Type.String()),
  read_only: optional(Type.Boolean()),
  cap_drop: optional(Texts),
  security_opt: optional(Texts),
  stop_grace_period: optional(Type.String({ pattern: "^[0-9]+s$" })),
  depends_on: optional(Texts),
  mem_limit: optional(Type.String()),
  ports: optional(Type.Array(Type.String({ pattern: "^127\\.0\\.0\\.1:[0-9]+:[0-9]+$" }))),
  entrypoint: optional(Texts),
  command: optional(Texts),
  environment: optional(Type.Record(Type.String(), Type.String())),
  healthcheck: optional(exact({ disable: Type.Boolean() })),
  tmpfs: optional(Texts),
  volumes: optional(Type.Array(Type.String({ pattern: "^\\./[^:]+:/[^:]+:ro$" }))),
});

/** The Compose specification, as far as compose.yaml uses it. */
const Compose = exact({
  name: Type.String(),
  "x-gateway": Type.Unknown(),
  "x-registry": Type.Unknown(),
  services: Type.Record(Type.String(), Service),
});

const compose = parse(readFileSync(join(CONFIG, "compose.yaml"), "utf8"), { merge: true }) as Type.Static<
  typeof Compose
>;
const config = readDeployedConfig(join(CONFIG, "compose/gateway.yaml"));

describe("compose.yaml", () => {
  test("is of the form that Compose defines", () => {
    expect([...Compile(Compose).Errors(compose)]).toEqual([]);
  });

  test("names only files that exist", () => {
    const files = Object.values(compose.services).flatMap(({ volumes = [] }) =>
      volumes.map((volume) => volume.split(":")[0]!),
    );
    expect(files.length).toBeGreaterThan(4);
    for (const file of files) expect(existsSync(join(CONFIG, file)), file).toBe(true);
  });

  test("mounts the gateways' configuration and token as a folder, so that they see files that are replaced", () => {
    for (const name of ["gateway-1", "gateway-2"]) {
      expect(compose.services[name]!.volumes).toEqual(["./compose:/etc/registry-gateway:ro"]);
    }
    expect(config.operations.tokenFile).toBe(join(CONFIG, "compose/operations-token"));
  });

  test("holds every image of others to an exact version", () => {
    const images = Object.values(compose.services).map(({ image }) => image);
    for (const image of images.filter((each) => each !== "registry-gateway")) {
      expect(image).toMatch(/:v?\d+\.\d+\.\d+(-[a-z]+)?$/);
    }
  });

  test("runs two gateways whose names its Prometheus scrapes", () => {
    const gateways = Object.keys(compose.services).filter((name) => name.startsWith("gateway-"));
    const scraped = parse(readFileSync(join(CONFIG, "prometheus/prometheus.yaml"), "utf8")) as {
      rule_files: string[];
      scrape_configs: { job_name: string; static_configs: { targets: string[] }[] }[];
    };
    const targets = scraped.scrape_configs.flatMap((job) => job.static_configs.flatMap((group) => group.targets));
    expect(targets).toEqual(gateways.map((name) => `${name}:${config.operations.port}`));
    const mounted = compose.services["prometheus"]!.volumes!.map((volume) => volume.split(":")[1]);
    for (const file of scraped.rule_files) {
      expect(mounted).toContain(dirname(file));
      expect(existsSync(join(CONFIG, "prometheus", basename(file)))).toBe(true);
    }
  });

  test("gives a draining gateway longer than it needs", () => {
    const grace = Number(compose.services["gateway-1"]!.stop_grace_period!.replace("s", ""));
    expect(grace * 1000).toBeGreaterThan(config.shutdown.grace + config.shutdown.timeout);
  });

  test("points the gateways at services of its own", () => {
    const names = Object.keys(compose.services);
    for (const { urls } of config.upstreams) {
      for (const url of urls) expect(names).toContain(new URL(url).hostname);
    }
    expect(names).toContain(new URL(config.redis!.url!).hostname);
  });

  test("provisions Grafana with the dashboards and with the data source they ask for", () => {
    const provider = parse(
      readFileSync(join(CONFIG, "grafana/provisioning/dashboards/registry-gateway.yaml"), "utf8"),
    ) as { providers: { options: { path: string } }[] };
    const mounts = compose.services["grafana"]!.volumes!.map((volume) => volume.split(":")[1]);
    expect(mounts).toContain(provider.providers[0]!.options.path);
    const sources = parse(readFileSync(join(CONFIG, "grafana/provisioning/datasources/prometheus.yaml"), "utf8")) as {
      datasources: { type: string; isDefault: boolean; url: string }[];
    };
    expect(sources.datasources[0]).toMatchObject({ type: "prometheus", isDefault: true });
    expect(Object.keys(compose.services)).toContain(new URL(sources.datasources[0]!.url).hostname);
  });
});
