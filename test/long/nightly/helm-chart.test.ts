import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Compile } from "typebox/compile";
import Schema from "typebox/schema";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { readDeployedConfig } from "../../support/config-check.ts";
import { CHART, MANIFESTS, Renderer, type Resource } from "../../support/helm.ts";
import { KUBERNETES_SCHEMAS } from "../../support/kubernetes-schemas.ts";
import { scrapedJobs } from "../../support/scraped-jobs.ts";

let renderer: Renderer;
let folder: string;

beforeAll(() => {
  renderer = new Renderer();
  folder = mkdtempSync(join(tmpdir(), "chart-"));
}, 600_000);

afterAll(() => {
  renderer?.close();
  if (folder !== undefined) rmSync(folder, { recursive: true });
});

const KUSTOMIZATION = parse(readFileSync(join(MANIFESTS, "kustomization.yaml"), "utf8")) as {
  readonly resources: readonly string[];
} & Record<string, unknown>;

const CONFIG = parse(readFileSync(join(MANIFESTS, "gateway.yaml"), "utf8")) as Record<string, unknown>;

/** Values by which the chart makes what the manifests have. */
const ALIKE = {
  config: CONFIG,
  secret: { existing: "registry-gateway" },
  ingress: { enabled: true },
  networkPolicy: { enabled: true },
  serviceMonitor: { enabled: true },
  prometheusRule: { enabled: true },
};

const without = (...files: string[]) => KUSTOMIZATION.resources.filter((file) => !files.includes(file));

/** A change of an object, as Kustomize merges it. */
const patch = (apiVersion: string, kind: string, spec: object): string =>
  stringify({ apiVersion, kind, metadata: { name: "registry-gateway" }, spec });
const ofDeployment = (spec: object): string => patch("apps/v1", "Deployment", spec);
const ofPods = (spec: object): string => ofDeployment({ template: { spec } });
const ofContainer = (keys: object): string => ofPods({ containers: [{ name: "gateway", ...keys }] });

const config = (keys: Record<string, unknown>) => ({ ...CONFIG, ...keys });

interface Set {
  readonly values: Record<string, unknown>;
  readonly kustomization?: Record<string, unknown>;
  readonly patches?: readonly string[];
  readonly files?: Readonly<Record<string, string>>;
}

const DASHBOARDS = ["overview", "upstream"].map((name) => {
  const content = readFileSync(join(MANIFESTS, `../grafana/dashboards/${name}.json`), "utf8");
  return { file: `${name}.json`, content, name: `registry-gateway-${name}` };
});

const DEPLOYMENT = readFileSync(join(MANIFESTS, "deployment.yaml"), "utf8");
const NO_REDIS = { operations: CONFIG["operations"], upstreams: CONFIG["upstreams"] };
const withUrl = (urlFile: string) => stringify({ ...NO_REDIS, redis: { urlFile } });
const CLIENTS = { keysFile: "/etc/registry-gateway-clients/clients.jsonl" };
const TOLERATION = { key: "dedicated", operator: "Exists", effect: "NoSchedule" };
const DIGEST = `sha256:${"ab".repeat(32)}`;

/** Each set of values, and what Kustomize needs for the same. */
const SETS: Readonly<Record<string, Set>> = {
  "what the manifests have": { values: {} },
  "an HTTPRoute in place of the Ingress": {
    values: {
      ingress: { enabled: false },
      httpRoute: { enabled: true, parentRefs: [{ name: "public", namespace: "gateways" }] },
    },
    kustomization: { resources: [...without("ingress.yaml"), "http-route.yaml"] },
  },
  "no Prometheus operator": {
    values: { serviceMonitor: { enabled: false }, prometheusRule: { enabled: false } },
    kustomization: { resources: without("service-monitor.yaml", "prometheus-rule.yaml") },
  },
  "four replicas, without autoscaler and disruption budget": {
    values: { replicas: 4, autoscaling: { enabled: false }, podDisruptionBudget: { enabled: false } },
    kustomization: { resources: without("horizontal-pod-autoscaler.yaml", "pod-disruption-budget.yaml") },
    patches: [ofDeployment({ replicas: 4 })],
  },
  "an image by digest, of a registry that wants a login": {
    values: {
      image: { repository: "ghcr.example/gw", digest: DIGEST, pullPolicy: "Always", pullSecrets: ["login"] },
    },
    kustomization: { images: [{ name: "registry-gateway", newName: "ghcr.example/gw", digest: DIGEST }] },
    patches: [ofPods({ imagePullSecrets: [{ name: "login" }] }), ofContainer({ imagePullPolicy: "Always" })],
  },
  "the URL of Redis in a Secret of its own": {
    values: {
      config: { ...NO_REDIS, redis: null },
      redis: { existingSecret: { name: "shared-redis", key: "redis-url" } },
    },
    files: { "gateway.yaml": withUrl("/run/secrets/redis/redis-url") },
    patches: [
      ofContainer({ volumeMounts: [{ name: "redis", mountPath: "/run/secrets/redis", readOnly: true }] }),
      ofPods({ volumes: [{ name: "redis", secret: { secretName: "shared-redis", defaultMode: 0o440 } }] }),
    ],
  },
  "a Secret that the chart makes, with the URL of Redis": {
    values: {
      config: { ...NO_REDIS, redis: null },
      redis: { url: "redis://:p@redis:6379" },
      secret: { existing: "", data: { "operations-token": "t", "bonds-token": "b" } },
    },
    files: { "gateway.yaml": withUrl("/run/secrets/registry-gateway/redis-url") },
    kustomization: {
      secretGenerator: [
        {
          name: "registry-gateway",
          type: "Opaque",
          literals: ["operations-token=t", "bonds-token=b", "redis-url=redis://:p@redis:6379"],
        },
      ],
    },
  },
  "pins that last, and one replica": {
    values: { replicas: 1, autoscaling: { enabled: false }, pins: { existingClaim: "pins" } },
    kustomization: { resources: without("horizontal-pod-autoscaler.yaml") },
    patches: [
      // The update of a replica that kept the volume never ended.
      ofDeployment({ replicas: 1, strategy: { type: "Recreate", rollingUpdate: null } }),
      ofPods({ volumes: [{ name: "state", emptyDir: null, persistentVolumeClaim: { claimName: "pins" } }] }),
    ],
  },
  "pins that last, on a volume that all replicas can have": {
    values: { pins: { existingClaim: "pins", accessMode: "ReadWriteMany" } },
    patches: [ofPods({ volumes: [{ name: "state", emptyDir: null, persistentVolumeClaim: { claimName: "pins" } }] })],
  },
  "nodes of their own, of which each has one replica": {
    values: {
      topologySpread: { whenUnsatisfiable: "DoNotSchedule" },
      nodeSelector: { pool: "edge" },
      tolerations: [TOLERATION],
      priorityClassName: "high",
      podAnnotations: { "example.com/team": "wallets" },
    },
    // Of this list Kustomize replaces no element.
    files: { "deployment.yaml": DEPLOYMENT.replace("ScheduleAnyway", "DoNotSchedule") },
    patches: [
      ofPods({
        nodeSelector: { pool: "edge" },
        tolerations: [TOLERATION],
        priorityClassName: "high",
      }),
      ofDeployment({ template: { metadata: { annotations: { "example.com/team": "wallets" } } } }),
    ],
  },
  "larger replicas, which know their clients and take a variable": {
    values: {
      config: config({ clients: CLIENTS, log: { level: "${LEVEL}" } }),
      resources: { requests: { cpu: "500m" }, limits: { memory: "1Gi" } },
      terminationGracePeriodSeconds: 90,
      env: [{ name: "LEVEL", value: "debug" }],
      extraVolumes: [{ name: "clients", secret: { secretName: "clients", defaultMode: 0o440 } }],
      extraVolumeMounts: [{ name: "clients", mountPath: "/etc/registry-gateway-clients", readOnly: true }],
    },
    files: { "gateway.yaml": stringify(config({ clients: CLIENTS, log: { level: "${LEVEL}" } })) },
    patches: [
      ofContainer({
        resources: { requests: { cpu: "500m" }, limits: { memory: "1Gi" } },
        env: [{ name: "LEVEL", value: "debug" }],
        volumeMounts: [{ name: "clients", mountPath: "/etc/registry-gateway-clients", readOnly: true }],
      }),
      ofPods({
        terminationGracePeriodSeconds: 90,
        volumes: [{ name: "clients", secret: { secretName: "clients", defaultMode: 0o440 } }],
      }),
    ],
  },
  "a load balancer, other hosts, and no network policy": {
    values: {
      networkPolicy: { enabled: false },
      service: { type: "LoadBalancer" },
      ingress: { hosts: ["a.example", "b.example"] },
    },
    kustomization: { resources: without("network-policy.yaml") },
    patches: [
      patch("v1", "Service", { type: "LoadBalancer" }),
      patch("networking.k8s.io/v1", "Ingress", {
        tls: [{ hosts: ["a.example", "b.example"], secretName: "registry-gateway-tls" }],
        rules: ["a.example", "b.example"].map((host) => ({
          host,
          http: {
            paths: [
              {
                path: "/",
                pathType: "Prefix",
                backend: { service: { name: "registry-gateway", port: { name: "http" } } },
              },
            ],
          },
        })),
      }),
    ],
  },
  "dashboards, for Grafana's sidecar": {
    values: { dashboards: { enabled: true } },
    files: Object.fromEntries(DASHBOARDS.map(({ file, content }) => [file, content])),
    kustomization: {
      configMapGenerator: [
        { name: "registry-gateway", files: ["gateway.yaml"] },
        ...DASHBOARDS.map(({ name, file }) => ({ name, files: [file] })),
      ],
    },
  },
};

/**
 * Where the chart differs from the manifests: Helm's own labels, the selectors by instance among them, so that a namespace
 * may have two releases; the label that Grafana's sidecar looks for; the text of the configuration, not what it says; and
 * the order of volumes, which means nothing.
 */
function comparable(resources: readonly Resource[]): Record<string, unknown> {
  const ours = new Set(["app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by"]);
  const text = JSON.stringify(
    resources.toSorted((one, other) => nameOf(one).localeCompare(nameOf(other))),
    (key, value: unknown) =>
      ours.has(key) || key === "helm.sh/chart" || key === "grafana_dashboard"
        ? undefined
        : key === "gateway.yaml"
          ? (parse(value as string) as unknown)
          : key === "volumes" || key === "volumeMounts"
            ? (value as { name: string }[]).toSorted((one, other) => one.name.localeCompare(other.name))
            : value,
  );
  return Object.fromEntries((JSON.parse(text) as Resource[]).map((resource) => [nameOf(resource), resource]));
}

const nameOf = ({ kind, metadata }: Resource): string => `${kind} ${metadata.name}`;

/** `values` over `ALIKE`, as Helm merges them. */
function merged(values: object, over: object): Record<string, unknown> {
  const isObject = (value: unknown): value is object =>
    typeof value === "object" && value !== null && !Array.isArray(value);
  const entries = Object.entries(over).map(([key, value]: [string, unknown]) => {
    const before = (values as Record<string, unknown>)[key];
    return [key, isObject(before) && isObject(value) && key !== "config" ? merged(before, value) : value];
  });
  return { ...values, ...(Object.fromEntries(entries) as object) };
}

const schema = Schema.Compile(JSON.parse(readFileSync(join(CHART, "values.schema.json"), "utf8")) as object);

describe.each(Object.entries(SETS))(
  "the chart with %s",
  (_what, { values, kustomization, patches = [], files = {} }) => {
    const chosen = merged(ALIKE, values);
    let chart: Resource[];

    beforeAll(() => {
      chart = renderer.chart(chosen);
    });

    test("makes what Kustomize makes of the manifests", () => {
      const names = patches.map((_, i) => `patch-${i}.yaml`);
      const patchFiles = Object.fromEntries(patches.map((each, i) => [names[i]!, each]));
      const manifests = renderer.kustomize(
        { ...KUSTOMIZATION, ...kustomization, patchesStrategicMerge: names },
        { ...files, ...patchFiles },
      );
      expect(comparable(chart)).toEqual(comparable(manifests));
    });

    test("makes what the cluster's API takes", () => {
      for (const resource of chart) {
        const form = KUBERNETES_SCHEMAS[resource.kind];
        expect(form, resource.kind).toBeDefined();
        expect([...Compile(form!).Errors(resource)], nameOf(resource)).toEqual([]);
      }
    });

    test("fits the schema of its values, and has a configuration that a gateway takes", () => {
      const { redis, ...others } = chosen["config"] as Record<string, unknown>;
      const given = { ...chosen, config: redis === null ? others : chosen["config"] };
      expect(schema.Errors(given)[1]).toEqual([]);
      const file = join(folder, "gateway.yaml");
      const { data } = chart.find((each) => nameOf(each) === "ConfigMap registry-gateway") as unknown as {
        data: Record<string, string>;
      };
      writeFileSync(file, data["gateway.yaml"]!.replace("${LEVEL}", "debug").replace(/^clients:\n.*\n/m, ""));
      expect(readDeployedConfig(file).upstreams).toHaveLength(2);
    });
  },
);

const SMALL = { config: { upstreams: [{ name: "amulet", urls: ["https://a.example"] }] } };

test("the values of the chart fit their schema, and a misspelt key does not", () => {
  const defaults = parse(readFileSync(join(CHART, "values.yaml"), "utf8")) as object;
  expect(schema.Errors(defaults)[1]).toEqual([]);
  for (const wrong of [
    { replica: 2 },
    { image: { tags: "1" } },
    { config: { upstream: [] } },
    { config: { listen: { port: "http" } } },
    { redis: { url: "localhost" } },
    { pins: { accessMode: "ReadOnlyMany" } },
  ]) {
    expect(schema.Check(merged(defaults, wrong)), JSON.stringify(wrong)).toBe(false);
  }
});

test.each([
  ["no registry", { config: {} }, /config\.upstreams: name at least one registry/],
  ["Redis in two places", { ...ALIKE, redis: { url: "redis://r" } }, /say in one place where Redis is/],
  [
    "Redis by URL and by reference",
    { ...SMALL, redis: { url: "redis://r", existingSecret: { name: "s" } } },
    /say in one place where Redis is/,
  ],
  [
    "a URL of Redis and no Secret to keep it in",
    { ...SMALL, redis: { url: "redis://r" }, secret: { existing: "s" } },
    /use redis\.existingSecret/,
  ],
  [
    "a port that probes cannot know",
    { config: { ...SMALL.config, listen: { port: "${PORT}" } } },
    /config\.listen\.port: the chart needs a number/,
  ],
  [
    "an autoscaler of replicas whose pins are on a volume",
    { ...SMALL, replicas: 1, pins: { existingClaim: "pins" } },
    /pins\.existingClaim wants one replica: set autoscaling\.enabled to false, and replicas to 1/,
  ],
  [
    "two replicas whose pins are on a volume",
    { ...SMALL, autoscaling: { enabled: false }, pins: { existingClaim: "pins" } },
    /pins\.existingClaim wants one replica/,
  ],
])("the chart refuses %s, and says what to do", (_what, values, why) => {
  expect(() => renderer.chart(values)).toThrow(why);
});

test("a port may be given by --set, which makes another kind of number of it than a file does", () => {
  const set = { config: { listen: { port: 8081 } } };
  const deployment = renderer.chart(SMALL, { set }).find(({ kind }) => kind === "Deployment");
  expect(JSON.stringify(deployment)).toContain('"containerPort":8081');
});

test("the operations token is made once and kept at upgrades, and one that is given takes its place", () => {
  const token = (values: object, cluster = {}): string => {
    const secret = renderer.chart(values, { cluster }).find(({ kind }) => kind === "Secret") as unknown as {
      data: Record<string, string>;
    };
    return secret.data["operations-token"]!;
  };
  const made = token(SMALL);
  expect(Buffer.from(made, "base64").toString()).toMatch(/^[A-Za-z0-9]{48}$/);
  expect(token(SMALL)).not.toBe(made);
  const cluster = { "Secret/registry-gateway": { data: { "operations-token": made } } };
  expect(token(SMALL, cluster)).toBe(made);
  const given = token({ ...SMALL, secret: { data: { "operations-token": "mine" } } }, cluster);
  expect(Buffer.from(given, "base64").toString()).toBe("mine");
});

test("two releases in a namespace have names and pods of their own", () => {
  const [one, other] = ["blue", "green"].map((name) => renderer.chart(SMALL, { name }));
  const names = [...one!, ...other!].map(nameOf);
  expect(new Set(names).size).toBe(names.length);
  const selectors = [one, other].map((release) => {
    const { spec } = release!.find(({ kind }) => kind === "Deployment") as unknown as {
      spec: { selector: { matchLabels: Record<string, string> } };
    };
    return spec.selector.matchLabels["app.kubernetes.io/instance"];
  });
  expect(selectors).toEqual(["blue", "green"]);
});

test("each release is a job of its own for Prometheus, and so is one of the same name in another namespace", () => {
  const jobs = ["blue", "registry-gateway"].flatMap((name) => {
    const release = renderer.chart({ ...SMALL, serviceMonitor: { enabled: true } }, { name });
    return ["wallets", "exchange"].flatMap((namespace) => scrapedJobs(release, namespace));
  });
  expect(jobs).toEqual([
    "wallets/blue-registry-gateway",
    "exchange/blue-registry-gateway",
    "wallets/registry-gateway",
    "exchange/registry-gateway",
  ]);
});
