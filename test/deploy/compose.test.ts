import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { loadConfig } from "../../src/config/load.ts";
import { readYaml, ROOT } from "../support/project.ts";

interface Service {
  readonly image: string;
  readonly command?: readonly string[];
  readonly volumes?: readonly string[];
  readonly ports?: readonly string[];
  readonly depends_on?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly stop_grace_period?: string;
  readonly read_only?: boolean;
}

const CONFIG = join(ROOT, "config");
const { services } = readYaml("config/compose.yaml") as { services: Readonly<Record<string, Service>> };
const { config } = loadConfig({ file: join(CONFIG, "compose/gateway.yaml") }, {});
const { grace, timeout } = config.shutdown;
const gateways = Object.keys(services).filter((name) => name.startsWith("gateway-"));

/** Where a path in a container is in this project; undefined: nowhere. */
function hostPath(service: string, path: string): string | undefined {
  for (const volume of services[service]!.volumes ?? []) {
    const [host = "", inside = ""] = volume.split(":");
    if (path === inside || path.startsWith(`${inside}/`)) return join(CONFIG, host, path.slice(inside.length));
  }
  return undefined;
}

describe("compose.yaml", () => {
  it("mounts folders of this project alone, read-only", () => {
    for (const volume of Object.values(services).flatMap(({ volumes = [] }) => volumes)) {
      const [host = "", , mode] = volume.split(":");
      expect([volume, mode, existsSync(join(CONFIG, host))]).toEqual([volume, "ro", true]);
    }
    for (const name of gateways) expect(hostPath(name, "/etc/registry-gateway/gateway.yaml")).toSatisfy(existsSync);
  });

  it("names only services that are there, and files that they have", () => {
    const names = Object.keys(services);
    const hosts = [...config.upstreams.flatMap(({ urls }) => urls), config.redis!.url!].map(
      (url) => new URL(url).hostname,
    );
    const wanted = Object.values(services).flatMap(({ depends_on = [] }) => depends_on);
    for (const name of [...hosts, ...wanted]) expect(names).toContain(name);
    for (const name of ["prometheus", "alertmanager"]) {
      const file = services[name]!.command!.find((each) => each.startsWith("--config.file="))!.split("=")[1]!;
      expect(hostPath(name, file)).toSatisfy(existsSync);
    }
    expect(
      hostPath("grafana", services["grafana"]!.environment!["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]!),
    ).toSatisfy(existsSync);
  });

  it("lets everything be reached from this machine alone", () => {
    for (const port of Object.values(services).flatMap(({ ports = [] }) => ports)) {
      expect(port).toMatch(/^127\.0\.0\.1:\d+:\d+$/);
    }
  });

  it("runs what is built here with a read-only root, and holds all else to a version", () => {
    for (const { image, read_only } of Object.values(services)) {
      if (image === "registry-gateway") expect(read_only).toBe(true);
      else expect(image).toMatch(/:v?\d+\.\d+\.\d+(-[a-z]+)?$/);
    }
  });

  it("has its Prometheus scrape each gateway, know the alerts, and tell Alertmanager", () => {
    const prometheus = readYaml("config/prometheus/prometheus.yaml") as {
      rule_files: string[];
      alerting: { alertmanagers: [{ static_configs: [{ targets: string[] }] }] };
      scrape_configs: [{ static_configs: [{ targets: string[] }] }];
    };
    const { targets } = prometheus.scrape_configs[0].static_configs[0];
    expect(targets).toEqual(gateways.map((name) => `${name}:${config.operations.port}`));
    for (const file of prometheus.rule_files) expect(hostPath("prometheus", file)).toSatisfy(existsSync);
    const [alertmanager = ""] = prometheus.alerting.alertmanagers[0].static_configs[0].targets;
    expect(Object.keys(services)).toContain(alertmanager.split(":")[0]);
  });

  it("provisions Grafana with the dashboard and with its Prometheus", () => {
    const [provider] = (
      readYaml("config/grafana/provisioning/dashboards/registry-gateway.yaml") as {
        providers: [{ options: { path: string } }];
      }
    ).providers;
    expect(hostPath("grafana", `${provider.options.path}/dashboard.json`)).toSatisfy(existsSync);
    const [source] = (
      readYaml("config/grafana/provisioning/datasources/prometheus.yaml") as {
        datasources: [{ isDefault: boolean; url: string }];
      }
    ).datasources;
    expect(source.isDefault).toBe(true);
    expect(Object.keys(services)).toContain(new URL(source.url).hostname);
  });

  it("gives a gateway that drains longer than it needs", () => {
    for (const name of gateways) {
      expect(Number(services[name]!.stop_grace_period!.replace("s", "")) * 1_000).toBeGreaterThan(grace + timeout);
    }
  });
});
