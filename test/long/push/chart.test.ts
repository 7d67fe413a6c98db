import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { loadConfig } from "../../../src/config/load.ts";
import type { Config } from "../../../src/config/schema.ts";
import {
  ChartRenderer,
  type Deployment,
  type Pod,
  type Rendered,
  type Resource,
  type Values,
} from "../../support/chart.ts";
import { temporaryFolder } from "../../support/gateway.ts";
import { blockOf, readText, readYaml } from "../../support/project.ts";

const FIRST_DAY = parse(blockOf("docs/first-day.md", "values.yaml")) as Values & { config: Values };
const UPSTREAMS = [{ name: "amulet", urls: ["https://registry.example"] }];

let chart: ChartRenderer;
beforeAll(() => {
  chart = new ChartRenderer();
});

const render = (values: Values = {}, cluster?: object): Rendered => chart.render({ ...FIRST_DAY, ...values }, cluster);

const podOf = (rendered: Rendered): Pod => (rendered.one("Deployment").spec as Deployment).template;

/** The ConfigMap (or Secret) that has a file. */
const holderOf = (file: string, { all }: Rendered): Resource => all.find(({ data }) => data?.[file] !== undefined)!;

type Labels = Readonly<Record<string, string>>;

interface Selecting {
  readonly selector: Labels | { readonly matchLabels: Labels };
}

/** The labels that a Service, a Deployment or another selects pods (or services) by. */
function selected(spec: unknown): Labels {
  const { selector } = spec as Selecting;
  return "matchLabels" in selector ? (selector.matchLabels as Labels) : selector;
}

/** The configuration in the ConfigMap, with a secret in the place of each that a Secret brings. */
function configOf(rendered: Rendered): Config {
  const folder = temporaryFolder();
  const secret = join(folder, "secret");
  writeFileSync(secret, "a-secret-of-a-test");
  const { data } = holderOf("gateway.yaml", rendered);
  const text = data!["gateway.yaml"]!.replaceAll(/\/run\/secrets\/registry-gateway\/[\w-]+/g, secret);
  writeFileSync(join(folder, "gateway.yaml"), text);
  return loadConfig({ file: join(folder, "gateway.yaml") }, {}).config;
}

describe("the chart, as the first day installs it", () => {
  it("makes what it says, named by the release", () => {
    const { all } = render();
    expect(all.map(({ kind, metadata }) => `${kind} ${metadata.name}`).toSorted()).toEqual([
      "ConfigMap registry-gateway",
      "ConfigMap registry-gateway-dashboard",
      "Deployment registry-gateway",
      "Ingress registry-gateway",
      "PodDisruptionBudget registry-gateway",
      "PrometheusRule registry-gateway",
      "Secret registry-gateway",
      "Service registry-gateway",
      "Service registry-gateway-operations",
      "ServiceMonitor registry-gateway",
    ]);
  });

  it("has a good configuration, whose operations listener can be scraped and asks for the token", () => {
    const { operations, redis, upstreams, shutdown } = configOf(render());
    expect([operations.host, operations.tokens?.map(({ name }) => name)]).toEqual(["0.0.0.0", ["ops"]]);
    expect([redis?.url, upstreams.map(({ name }) => name)]).toEqual(["redis://redis:6379", ["amulet"]]);
    const { terminationGracePeriodSeconds } = podOf(render()).spec;
    expect(terminationGracePeriodSeconds * 1_000).toBeGreaterThan(shutdown.grace + shutdown.timeout);
  });

  it("selects its own pods, and names ports and volumes that they have", () => {
    const rendered = render();
    const pod = podOf(rendered);
    const { containers, volumes } = pod.spec;
    const [container] = containers;
    const selecting = rendered.all.filter(({ spec }) => (spec as Selecting | undefined)?.selector !== undefined);
    const selectors = new Map(
      selecting.map(({ kind, metadata, spec }) => [`${kind} ${metadata.name}`, selected(spec)]),
    );
    const { "app.kubernetes.io/component": _component, ...ofMonitor } = selectors.get(
      "ServiceMonitor registry-gateway",
    )!;
    selectors.set("ServiceMonitor registry-gateway", ofMonitor);
    expect(selectors.size).toBe(5);
    for (const [name, labels] of selectors) expect(labels, name).toEqual(pod.metadata.labels);
    const ports = container.ports.map(({ name }) => name);
    for (const probe of ["startupProbe", "readinessProbe", "livenessProbe"] as const) {
      expect(ports).toContain(container[probe].httpGet.port);
    }
    const named = (each: { name: string }): string => each.name;
    expect(container.volumeMounts.map(named)).toEqual(volumes.map(named));
    expect(volumes[0]!.configMap!.name).toBe(holderOf("gateway.yaml", rendered).metadata.name);
    expect(volumes[1]!.secret).toEqual({ secretName: rendered.one("Secret").metadata.name, defaultMode: 0o440 });
  });

  it("runs without rights, as the image does", () => {
    const { securityContext, containers, automountServiceAccountToken } = podOf(render()).spec;
    expect(securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 1000 });
    expect(containers[0].securityContext).toMatchObject({
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    });
    expect([automountServiceAccountToken, containers[0].image]).toEqual([
      false,
      "images.example/registry-gateway:0.3.0",
    ]);
  });

  it("has the alerts and the dashboard of the project, with runbooks where they are read", () => {
    const runbooks = "https://wiki.example/runbooks";
    const rendered = render({ prometheusRule: { enabled: true, runbooks } });
    const text = readText("config/prometheus/rules.yaml");
    const rules = parse(text.replaceAll('{{ or $externalLabels.runbooks "docs/runbooks.md" }}', runbooks)) as object;
    expect(rendered.one("PrometheusRule").spec).toEqual(rules);
    expect(JSON.stringify(rules)).toContain(`${runbooks}#registrygatewayabsent`);
    const dashboard = holderOf("registry-gateway.json", rendered);
    expect(JSON.parse(dashboard.data!["registry-gateway.json"]!)).toEqual(readYaml("config/grafana/dashboard.json"));
    expect(dashboard.metadata.labels["grafana_dashboard"]).toBe("1");
  });
});

describe("the token of the operations listener", () => {
  const tokenOf = (secret: Resource): string => secret.data!["operations-token"]!;

  it("is made up, and kept at an upgrade", () => {
    const made = tokenOf(render().one("Secret"));
    expect(Buffer.from(made, "base64").toString()).toMatch(/^\w{48}$/);
    const cluster = { "Secret/registry-gateway": { data: { "operations-token": made } } };
    expect(tokenOf(render({}, cluster).one("Secret"))).toBe(made);
  });

  it("may be given, with what else is to be a file", () => {
    const { data } = render({ secret: { data: { "operations-token": "given", bonds: "b" } } }).one("Secret");
    expect(data).toEqual({ "operations-token": btoa("given"), bonds: btoa("b") });
  });

  it("may be in a Secret that is there", () => {
    const rendered = render({ secret: { existing: "mine" } });
    expect(rendered.all.some(({ kind }) => kind === "Secret")).toBe(false);
    expect(podOf(rendered).spec.volumes[1]!.secret!.secretName).toBe("mine");
  });
});

describe("other values", () => {
  it.each<[values: Values, isWarned: boolean]>([
    [{}, false],
    [{ config: { upstreams: UPSTREAMS } }, true],
    [{ config: { upstreams: UPSTREAMS }, replicas: 1 }, false],
    [{ config: { upstreams: UPSTREAMS }, replicas: 1, autoscaling: { enabled: true } }, true],
  ])("%j: the notes warn of replicas without Redis: %s", (values, isWarned) => {
    const { notes } = chart.render({ image: FIRST_DAY["image"], config: FIRST_DAY.config, ...values });
    expect(notes.includes("WARNING")).toBe(isWarned);
  });

  it("an autoscaler, and no other count of replicas", () => {
    const rendered = render({ autoscaling: { enabled: true } });
    expect(rendered.one("HorizontalPodAutoscaler").spec).toMatchObject({ minReplicas: 2, maxReplicas: 6 });
    expect((rendered.one("Deployment").spec as Deployment).replicas).toBeUndefined();
    expect((render().one("Deployment").spec as Deployment).replicas).toBe(2);
  });

  it("what Kubernetes has for pods, other ports, and an image by digest", () => {
    const rendered = render({
      config: { ...FIRST_DAY.config, listen: { port: 8081 }, operations: { port: 9091 } },
      image: { repository: "images.example/g", digest: `sha256:${"ab".repeat(32)}`, pullSecrets: ["login"] },
      podSpec: { nodeSelector: { pool: "edge" }, priorityClassName: "high" },
      podAnnotations: { "example.com/team": "wallets" },
      lifecycle: { preStop: { sleep: { seconds: 5 } } },
      env: [{ name: "LEVEL", value: "debug" }],
      volumes: [{ name: "authority", configMap: { name: "authority" } }],
      volumeMounts: [{ name: "authority", mountPath: "/etc/authority" }],
    });
    const { metadata, spec } = podOf(rendered);
    const [container] = spec.containers;
    expect(metadata).toMatchObject({ annotations: { "example.com/team": "wallets" } });
    expect(spec).toMatchObject({
      nodeSelector: { pool: "edge" },
      priorityClassName: "high",
      imagePullSecrets: [{ name: "login" }],
    });
    expect(container.image).toBe(`images.example/g@sha256:${"ab".repeat(32)}`);
    expect(container.ports.map(({ containerPort }) => containerPort)).toEqual([8081, 9091]);
    expect(container).toMatchObject({ lifecycle: { preStop: { sleep: { seconds: 5 } } }, env: [{ name: "LEVEL" }] });
    expect([spec.volumes[2]!.name, container.volumeMounts[2]!.name]).toEqual(["authority", "authority"]);
    expect(configOf(rendered).operations).toMatchObject({ host: "0.0.0.0", port: 9091 });
  });

  it.each<[values: Values, refusal: RegExp]>([
    [{ image: { repository: "" } }, /image\.repository: name where you pushed the image/],
    [{ ingress: { enabled: true, hosts: [] } }, /ingress\.hosts: name at least one/],
  ])("%j are refused", (values, refusal) => {
    expect(() => render(values)).toThrow(refusal);
  });
});
