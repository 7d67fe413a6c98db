import { renderConfigJsonSchema } from "./config-json-schema.ts";

type JsonSchema = Readonly<Record<string, unknown>>;

const text = (description: string): JsonSchema => ({ type: "string", description });
const flag = (description: string): JsonSchema => ({ type: "boolean", description });
const count = (description: string, minimum = 1): JsonSchema => ({ type: "integer", minimum, description });
const names = (description: string): JsonSchema => ({
  type: "array",
  description,
  items: { type: "string", minLength: 1 },
});
/** Labels and annotations. */
const pairs = (description: string): JsonSchema => ({
  type: "object",
  description,
  additionalProperties: { type: "string" },
});
/** As Kubernetes defines it: what is in it, the cluster says. */
const objects = (description: string): JsonSchema => ({ type: "array", description, items: { type: "object" } });

/** An object with these keys and no others: a misspelt key is found. */
const group = (properties: Readonly<Record<string, JsonSchema>>, description?: string): JsonSchema => ({
  type: "object",
  ...(description === undefined ? {} : { description }),
  additionalProperties: false,
  properties,
});

/** One of Kubernetes' objects that can be left out. */
const choice = (what: string, properties: Readonly<Record<string, JsonSchema>>): JsonSchema =>
  group({ enabled: flag(`Whether there is ${what}.`), ...properties });

const VALUES: Readonly<Record<string, JsonSchema>> = {
  // What Helm gives to each chart that another one needs.
  global: { type: "object" },
  nameOverride: text("In place of the chart's name."),
  fullnameOverride: text("The name of everything that is made."),
  image: group({
    repository: { ...text("Without tag or digest."), minLength: 1 },
    tag: text("Empty: the chart's appVersion."),
    digest: { ...text("In place of the tag."), pattern: "^(sha256:[0-9a-f]{64})?$" },
    pullPolicy: { enum: ["", "Always", "IfNotPresent", "Never"] },
    pullSecrets: names("Secrets to pull the image with."),
  }),
  redis: group({
    url: { ...text("Kept in the chart's Secret."), pattern: "^(rediss?://.+)?$" },
    existingSecret: group({ name: text("A Secret."), key: text("Its key that holds the URL.") }),
  }),
  secret: group({
    existing: text("A Secret that is there, in place of the chart's."),
    data: pairs("Keys and values of the chart's Secret: files in /run/secrets/registry-gateway."),
  }),
  replicas: count("Without the autoscaler."),
  autoscaling: choice("a HorizontalPodAutoscaler", {
    minReplicas: count("At least."),
    maxReplicas: count("At most."),
    cpu: text("Of a replica, on average."),
    scaleDownSeconds: count("Until fewer replicas do.", 0),
  }),
  podDisruptionBudget: choice("a PodDisruptionBudget", {
    maxUnavailable: { anyOf: [count("Pods."), { type: "string", pattern: "^[0-9]+%$" }] },
  }),
  topologySpread: group({
    whenUnsatisfiable: { enum: ["", "ScheduleAnyway", "DoNotSchedule"] },
    topologyKeys: names("Labels of nodes over which replicas are spread."),
  }),
  resources: { type: "object", description: "As Kubernetes has them." },
  terminationGracePeriodSeconds: count("Longer than shutdown.grace and shutdown.timeout together."),
  pins: group({
    size: text("Of the volume for discovery.pinFile."),
    existingClaim: text("A PersistentVolumeClaim."),
    accessMode: { enum: ["ReadWriteOnce", "ReadWriteMany"] },
  }),
  serviceAccount: group({ create: flag("Whether the chart makes one."), name: text("Its name.") }),
  service: group({
    type: { enum: ["ClusterIP", "NodePort", "LoadBalancer"] },
    port: { ...count("Of the Service."), maximum: 65_535 },
    annotations: pairs("Of the Service."),
  }),
  ingress: choice("an Ingress", {
    className: text("The ingress controller's."),
    hosts: names("Host names."),
    tlsSecret: text("A Secret of type kubernetes.io/tls; empty: no TLS."),
    annotations: pairs("For the ingress controller."),
  }),
  httpRoute: choice("an HTTPRoute", {
    parentRefs: objects("Gateways."),
    hostnames: names("Host names."),
    timeout: { ...text("Longer than the longest upstreams[].timeout."), pattern: "^[0-9]+(ms|s|m|h)$" },
  }),
  networkPolicy: choice("a NetworkPolicy", {
    prometheusNamespace: pairs("Labels of the namespace that Prometheus is in."),
    redis: pairs("Labels of Redis' pods; {}: no rule for it."),
    ingress: objects("Further rules."),
    egress: objects("Further rules."),
  }),
  serviceMonitor: choice("a ServiceMonitor", { interval: text("Between scrapes."), labels: pairs("Of it.") }),
  prometheusRule: choice("a PrometheusRule", { labels: pairs("Of it.") }),
  dashboards: choice("a ConfigMap for each dashboard of Grafana", { labels: pairs("That its sidecar looks for.") }),
  podAnnotations: pairs("Of pods."),
  podLabels: pairs("Of pods."),
  nodeSelector: pairs("Of pods."),
  tolerations: objects("Of pods."),
  affinity: { type: "object", description: "Of pods." },
  priorityClassName: text("Of pods."),
  env: objects("Further environment variables, for ${NAME} in config."),
  extraVolumes: objects("Further volumes."),
  extraVolumeMounts: objects("Where they are mounted."),
};

/** The JSON Schema (draft 7, as Helm reads it) of the chart's values; `config` is the gateway's own file. */
export function renderHelmValuesSchema(): string {
  const gateway = JSON.parse(renderConfigJsonSchema()) as Record<string, unknown>;
  // Neither schema nor chart has registries to begin with: templates refuse a configuration without any.
  const { type, properties, additionalProperties, $defs } = gateway;
  const config = { type, description: "The gateway's own file.", properties, additionalProperties };
  const schema = {
    $schema: "http://json-schema.org/draft-07/schema#",
    title: "Values of the chart registry-gateway",
    ...group({ ...VALUES, config }),
    $defs,
  };
  return `${JSON.stringify(schema, undefined, 2)}\n`;
}
