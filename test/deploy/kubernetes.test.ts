import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Static } from "typebox";
import { Compile } from "typebox/compile";
import { describe, expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { CATALOGUE_CHANGES } from "../../src/requests/changes.ts";
import { readDeployedConfig } from "../support/config-check.ts";
import { type Deployment, KUBERNETES_SCHEMAS } from "../support/kubernetes-schemas.ts";
import { scrapedJobs } from "../support/scraped-jobs.ts";

const FOLDER = join(import.meta.dirname, "../../config/kubernetes");
const NOT_RESOURCES = new Set(["kustomization.yaml", "gateway.yaml"]);
const LABELS = { "app.kubernetes.io/name": "registry-gateway" };

/** Of an HTTPRoute. */
interface Rule {
  readonly matches: readonly { readonly path: { readonly type: string; readonly value: string } }[];
  readonly timeouts: { readonly request: string };
  readonly backendRefs: readonly { readonly name: string; readonly port: number }[];
}

interface Resource {
  readonly kind: string;
  readonly metadata: { readonly name: string };
}

const resources = readdirSync(FOLDER)
  .filter((file) => !NOT_RESOURCES.has(file))
  .flatMap((file) =>
    parseAllDocuments(readFileSync(join(FOLDER, file), "utf8")).map((document) => {
      if (document.errors.length > 0) throw document.errors[0]!;
      return document.toJS() as Resource;
    }),
  );

function find(kind: string): unknown {
  return resources.find((resource) => resource.kind === kind);
}

const deployment = find("Deployment") as Static<typeof Deployment>;
const pod = deployment.spec.template.spec;
const [container] = pod.containers;
const config = readDeployedConfig(join(FOLDER, "gateway.yaml"));

test.each(resources.map((resource) => [resource.kind, resource.metadata.name, resource] as const))(
  "%s %s is of the form that the cluster's API defines",
  (kind, _name, resource) => {
    const schema = KUBERNETES_SCHEMAS[kind];
    expect(schema, `a kind without a schema: ${kind}`).toBeDefined();
    expect([...Compile(schema!).Errors(resource)]).toEqual([]);
  },
);

test("the kustomization names every resource but the example of the secret, and one of Ingress and HTTPRoute", () => {
  const { resources: named } = parse(readFileSync(join(FOLDER, "kustomization.yaml"), "utf8")) as {
    resources: string[];
  };
  const chosen = new Set([...NOT_RESOURCES, "secret.example.yaml", "http-route.yaml"]);
  const files = readdirSync(FOLDER).filter((file) => !chosen.has(file));
  expect(named.toSorted()).toEqual(files.toSorted());
});

describe("the Deployment", () => {
  test("gives a draining replica longer than it needs", () => {
    const needed = (config.shutdown.grace + config.shutdown.timeout) / 1000;
    expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(needed + 5);
  });

  test("takes a draining replica out before it stops accepting", () => {
    const { periodSeconds = 10, failureThreshold = 3 } = container.readinessProbe;
    expect(periodSeconds * failureThreshold).toBeLessThanOrEqual(config.shutdown.grace / 1000);
  });

  test("waits at its start for longer than a gateway needs to be ready", () => {
    const { periodSeconds = 10, failureThreshold = 3 } = container.startupProbe;
    expect(periodSeconds * failureThreshold).toBeGreaterThan(10);
  });

  test("probes the operations listener, which listens beyond loopback", () => {
    const ports = new Map(container.ports.map(({ name, containerPort }) => [name, containerPort]));
    expect(ports.get("operations")).toBe(config.operations.port);
    expect(ports.get("http")).toBe(config.listen.port);
    expect(config.operations.host).toBe("0.0.0.0");
    for (const probe of [container.startupProbe, container.readinessProbe, container.livenessProbe]) {
      expect(probe.httpGet.port).toBe("operations");
    }
  });

  test("mounts the configuration where the image looks for it, and the secrets where the configuration does", () => {
    const mounts = new Map(container.volumeMounts.map(({ name, mountPath }) => [name, mountPath]));
    const dockerfile = readFileSync(join(FOLDER, "../../Dockerfile"), "utf8");
    expect(dockerfile).toContain(`GATEWAY_CONFIG=${mounts.get("config")}/gateway.yaml`);
    const secrets = readFileSync(join(FOLDER, "gateway.yaml"), "utf8").match(/\/run\/secrets\/\S+\//g) ?? [];
    expect(secrets.length).toBeGreaterThan(0);
    for (const secret of secrets) expect(secret).toBe(`${mounts.get("secrets")}/`);
  });

  test("can write discovery's pins, and nothing else", () => {
    expect(container.securityContext.readOnlyRootFilesystem).toBe(true);
    const writable = container.volumeMounts.filter(({ readOnly }) => readOnly !== true);
    expect(writable.map(({ mountPath }) => mountPath)).toEqual(["/var/lib/registry-gateway"]);
    const documented = readFileSync(join(FOLDER, "../../docs/discovery.md"), "utf8");
    expect(documented).toContain(`pinFile: ${writable[0]!.mountPath}/pins.json`);
  });

  test("has every secret that the configuration names in the example", () => {
    const { stringData } = find("Secret") as { stringData: Record<string, string> };
    const text = readFileSync(join(FOLDER, "gateway.yaml"), "utf8");
    const named = [...text.matchAll(/\/run\/secrets\/registry-gateway\/([\w-]+)/g)].map(([, name]) => name!);
    expect(named.toSorted()).toEqual(Object.keys(stringData).toSorted());
  });

  test("has room in memory for the cache and as much again besides", () => {
    const mebibytes = Number(container.resources.limits.memory.replace("Mi", ""));
    expect(mebibytes * 2 ** 20).toBeGreaterThan(2 * config.cache.memory.maxBytes + 200 * 2 ** 20);
  });
});

test("what selects pods selects the gateway's", () => {
  expect(deployment.spec.template.metadata.labels).toEqual(LABELS);
  expect(deployment.spec.selector.matchLabels).toEqual(LABELS);
  expect((find("PodDisruptionBudget") as { spec: { selector: object } }).spec.selector).toEqual({
    matchLabels: LABELS,
  });
  expect((find("NetworkPolicy") as { spec: { podSelector: object } }).spec.podSelector).toEqual({
    matchLabels: LABELS,
  });
  for (const service of resources.filter(({ kind }) => kind === "Service")) {
    expect((service as Resource & { spec: { selector: object } }).spec.selector).toEqual(LABELS);
  }
});

test("nobody but Prometheus reaches the operations port over the network", () => {
  const { ingress } = (
    find("NetworkPolicy") as { spec: { ingress: { from?: unknown[]; ports: { port: string }[] }[] } }
  ).spec;
  const rules = ingress.filter(({ ports }) => ports.some(({ port }) => port === "operations"));
  expect(rules).toHaveLength(1);
  expect(rules[0]!.from).toHaveLength(1);
});

// Rules and dashboards are by job: all gateways at a Prometheus were one, and the dead one's page was not sent.
test("gateways in two namespaces are two jobs for Prometheus", () => {
  expect(["wallets", "exchange"].flatMap((namespace) => scrapedJobs(resources, namespace))).toEqual([
    "wallets/registry-gateway",
    "exchange/registry-gateway",
  ]);
});

test("the ingress has a certificate for every host that it serves", () => {
  const { spec } = find("Ingress") as { spec: { tls: { hosts: string[] }[]; rules: { host: string }[] } };
  expect(spec.tls.flatMap(({ hosts }) => hosts)).toEqual(spec.rules.map(({ host }) => host));
});

test("the HTTPRoute serves the same hosts as the ingress, through the same service, for longer than a call may take", () => {
  const { spec: ingress } = find("Ingress") as { spec: { rules: { host: string }[] } };
  const { spec } = find("HTTPRoute") as {
    spec: {
      hostnames: string[];
      rules: Rule[];
    };
  };
  expect(spec.hostnames).toEqual(ingress.rules.map(({ host }) => host));
  const services = resources.filter(({ kind }) => kind === "Service") as (Resource & {
    spec: { ports: { port: number }[] };
  })[];
  for (const { backendRefs } of spec.rules) {
    const [backend] = backendRefs;
    const service = services.find(({ metadata }) => metadata.name === backend!.name);
    expect(service!.spec.ports.map(({ port }) => port)).toEqual([backend!.port]);
  }
  const rest = spec.rules.find(({ matches }) => matches[0]!.path.value === "/");
  expect(Number.parseInt(rest!.timeouts.request) * 1000).toBeGreaterThan(config.upstreams[0]!.timeout);
});

// It was cut off after 30 s.
test("the HTTPRoute lets the stream of changes last", () => {
  const { spec } = find("HTTPRoute") as { spec: { rules: Rule[] } };
  const rules = spec.rules.filter(({ timeouts }) => timeouts.request === "0s");
  expect(rules.map(({ matches }) => matches)).toEqual([[{ path: { type: "Exact", value: CATALOGUE_CHANGES } }]]);
});

test("the ingress retries once, and connections only", () => {
  const { annotations } = (find("Ingress") as { metadata: { annotations: Record<string, string> } }).metadata;
  const retry = (name: string) => annotations[`nginx.ingress.kubernetes.io/proxy-next-upstream${name}`];
  expect(retry("")).toBe("error timeout non_idempotent");
  expect(retry("-tries")).toBe("2");
  // A request that waited for its answer must not be sent again.
  const readTimeout = Number(annotations["nginx.ingress.kubernetes.io/proxy-read-timeout"]);
  expect(Number(retry("-timeout"))).toBeLessThan(readTimeout);
});

test("the ingress lets bodies through that the gateway accepts", () => {
  const { annotations } = (find("Ingress") as { metadata: { annotations: Record<string, string> } }).metadata;
  const size = annotations["nginx.ingress.kubernetes.io/proxy-body-size"]!;
  expect(Number(size.replace("m", "")) * 2 ** 20).toBeGreaterThanOrEqual(config.limits.requestBody);
  expect(Object.keys(annotations).join()).not.toContain("rewrite-target");
});

test("the version that the manifests and the chart install is the one that is here", () => {
  const { version } = JSON.parse(readFileSync(join(FOLDER, "../../package.json"), "utf8")) as { version: string };
  const { images } = parse(readFileSync(join(FOLDER, "kustomization.yaml"), "utf8")) as {
    images: { newTag: string }[];
  };
  expect(images.map(({ newTag }) => newTag)).toEqual([version]);
  const chart: unknown = parse(readFileSync(join(FOLDER, "../helm/Chart.yaml"), "utf8"));
  expect(chart).toMatchObject({ version, appVersion: version });
});
