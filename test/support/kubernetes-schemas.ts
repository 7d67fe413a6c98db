import { type TSchema, Type } from "typebox";

/** An object with these keys and no others: a misspelt key is found. */
function exact<Properties extends Record<string, TSchema>>(properties: Properties) {
  return Type.Object(properties, { additionalProperties: false });
}

const optional = Type.Optional;
const Name = Type.String({ pattern: "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" });
const Labels = Type.Record(Type.String(), Type.String());
const Metadata = exact({ name: Name, labels: optional(Labels), annotations: optional(Labels) });
const Selector = exact({ matchLabels: Labels });
const Quantity = Type.String({ pattern: "^[0-9]+(m|Ki|Mi|Gi)?$" });
const Port = Type.Union([Name, Type.Integer({ minimum: 1, maximum: 65_535 })]);

function resource<Rest extends Record<string, TSchema>>(apiVersion: string, kind: string, rest: Rest) {
  return exact({ apiVersion: Type.Literal(apiVersion), kind: Type.Literal(kind), metadata: Metadata, ...rest });
}

const Probe = exact({
  httpGet: exact({ path: Type.String({ pattern: "^/" }), port: Port }),
  periodSeconds: optional(Type.Integer({ minimum: 1 })),
  timeoutSeconds: optional(Type.Integer({ minimum: 1 })),
  failureThreshold: optional(Type.Integer({ minimum: 1 })),
});

const Container = exact({
  name: Name,
  image: Type.String(),
  imagePullPolicy: optional(Type.Enum(["Always", "IfNotPresent", "Never"])),
  env: optional(Type.Array(exact({ name: Type.String(), value: Type.String() }))),
  ports: Type.Array(exact({ name: Name, containerPort: Type.Integer() })),
  resources: exact({
    requests: exact({ cpu: Quantity, memory: Quantity }),
    limits: exact({ memory: Quantity, cpu: optional(Quantity) }),
  }),
  startupProbe: Probe,
  readinessProbe: Probe,
  livenessProbe: Probe,
  securityContext: exact({
    allowPrivilegeEscalation: Type.Literal(false),
    readOnlyRootFilesystem: Type.Literal(true),
    capabilities: exact({ drop: Type.Tuple([Type.Literal("ALL")]) }),
  }),
  volumeMounts: Type.Array(exact({ name: Name, mountPath: Type.String(), readOnly: optional(Type.Literal(true)) })),
});

const Volume = exact({
  name: Name,
  configMap: optional(exact({ name: Name })),
  secret: optional(exact({ secretName: Name, defaultMode: Type.Integer() })),
  emptyDir: optional(exact({ sizeLimit: Type.String() })),
  persistentVolumeClaim: optional(exact({ claimName: Name })),
});

const PodSpec = exact({
  serviceAccountName: Name,
  automountServiceAccountToken: Type.Literal(false),
  enableServiceLinks: Type.Boolean(),
  imagePullSecrets: optional(Type.Array(exact({ name: Name }))),
  priorityClassName: optional(Name),
  nodeSelector: optional(Labels),
  tolerations: optional(
    Type.Array(exact({ key: Type.String(), operator: Type.Enum(["Exists", "Equal"]), effect: Type.String() })),
  ),
  terminationGracePeriodSeconds: Type.Integer(),
  securityContext: exact({
    runAsNonRoot: Type.Literal(true),
    runAsUser: Type.Integer({ minimum: 1 }),
    runAsGroup: Type.Integer({ minimum: 1 }),
    fsGroup: Type.Integer({ minimum: 1 }),
    seccompProfile: exact({ type: Type.Literal("RuntimeDefault") }),
  }),
  topologySpreadConstraints: optional(
    Type.Array(
      exact({
        maxSkew: Type.Integer(),
        topologyKey: Type.String(),
        whenUnsatisfiable: Type.Union([Type.Literal("ScheduleAnyway"), Type.Literal("DoNotSchedule")]),
        labelSelector: Selector,
      }),
    ),
  ),
  containers: Type.Tuple([Container]),
  volumes: Type.Array(Volume),
});

export const Deployment = resource("apps/v1", "Deployment", {
  spec: exact({
    replicas: optional(Type.Integer()),
    revisionHistoryLimit: Type.Integer(),
    selector: Selector,
    strategy: Type.Union([
      exact({
        type: Type.Literal("RollingUpdate"),
        rollingUpdate: exact({ maxUnavailable: Type.Integer(), maxSurge: Type.Integer() }),
      }),
      exact({ type: Type.Literal("Recreate") }),
    ]),
    template: exact({ metadata: exact({ labels: Labels, annotations: optional(Labels) }), spec: PodSpec }),
  }),
});

const PolicyPort = exact({ port: Port, protocol: Type.Union([Type.Literal("TCP"), Type.Literal("UDP")]) });
const Peer = exact({
  namespaceSelector: optional(Selector),
  podSelector: optional(Selector),
  ipBlock: optional(exact({ cidr: Type.String(), except: Type.Array(Type.String()) })),
});

const Rule = exact({
  record: optional(Type.String()),
  alert: optional(Type.String()),
  expr: Type.String(),
  for: optional(Type.String({ pattern: "^[0-9]+[smhd]$" })),
  labels: optional(Labels),
  annotations: optional(Labels),
});

const Relabeling = exact({
  sourceLabels: Type.Array(Type.String()),
  separator: Type.String(),
  regex: Type.String(),
  targetLabel: Type.String(),
  replacement: Type.String(),
});

/** The resources of config/kubernetes, as the cluster's API defines them, by kind. */
export const KUBERNETES_SCHEMAS: Readonly<Record<string, TSchema>> = {
  Deployment,
  Service: resource("v1", "Service", {
    spec: exact({
      type: optional(Type.Enum(["NodePort", "LoadBalancer"])),
      clusterIP: optional(Type.Literal("None")),
      selector: Labels,
      ports: Type.Array(exact({ name: Name, port: Type.Integer(), targetPort: Port })),
    }),
  }),
  ServiceAccount: resource("v1", "ServiceAccount", { automountServiceAccountToken: Type.Literal(false) }),
  Secret: resource("v1", "Secret", {
    type: Type.Literal("Opaque"),
    stringData: optional(Labels),
    data: optional(Type.Record(Type.String(), Type.String({ pattern: "^[A-Za-z0-9+/=]+$" }))),
  }),
  ConfigMap: resource("v1", "ConfigMap", { data: Labels }),
  PodDisruptionBudget: resource("policy/v1", "PodDisruptionBudget", {
    spec: exact({ maxUnavailable: Type.Integer({ minimum: 1 }), selector: Selector }),
  }),
  HorizontalPodAutoscaler: resource("autoscaling/v2", "HorizontalPodAutoscaler", {
    spec: exact({
      scaleTargetRef: exact({ apiVersion: Type.Literal("apps/v1"), kind: Type.Literal("Deployment"), name: Name }),
      minReplicas: Type.Integer({ minimum: 2 }),
      maxReplicas: Type.Integer(),
      metrics: Type.Array(
        exact({
          type: Type.Literal("Resource"),
          resource: exact({
            name: Type.Literal("cpu"),
            target: exact({ type: Type.Literal("AverageValue"), averageValue: Quantity }),
          }),
        }),
      ),
      behavior: exact({ scaleDown: exact({ stabilizationWindowSeconds: Type.Integer() }) }),
    }),
  }),
  NetworkPolicy: resource("networking.k8s.io/v1", "NetworkPolicy", {
    spec: exact({
      podSelector: Selector,
      policyTypes: Type.Array(Type.Union([Type.Literal("Ingress"), Type.Literal("Egress")])),
      ingress: Type.Array(exact({ from: optional(Type.Array(Peer)), ports: Type.Array(PolicyPort) })),
      egress: Type.Array(exact({ to: optional(Type.Array(Peer)), ports: Type.Array(PolicyPort) })),
    }),
  }),
  Ingress: resource("networking.k8s.io/v1", "Ingress", {
    spec: exact({
      ingressClassName: Name,
      tls: optional(Type.Array(exact({ hosts: Type.Array(Type.String()), secretName: Name }))),
      rules: Type.Array(
        exact({
          host: Type.String(),
          http: exact({
            paths: Type.Array(
              exact({
                path: Type.String(),
                pathType: Type.Literal("Prefix"),
                backend: exact({ service: exact({ name: Name, port: exact({ name: Name }) }) }),
              }),
            ),
          }),
        }),
      ),
    }),
  }),
  HTTPRoute: resource("gateway.networking.k8s.io/v1", "HTTPRoute", {
    spec: exact({
      parentRefs: Type.Array(exact({ name: Name, namespace: optional(Name) })),
      hostnames: Type.Array(Type.String()),
      rules: Type.Array(
        exact({
          matches: Type.Array(
            exact({ path: exact({ type: Type.Enum(["Exact", "PathPrefix"]), value: Type.String() }) }),
          ),
          timeouts: optional(exact({ request: Type.String({ pattern: "^[0-9]+s$" }) })),
          backendRefs: Type.Array(exact({ name: Name, port: Type.Integer() })),
        }),
      ),
    }),
  }),
  ServiceMonitor: resource("monitoring.coreos.com/v1", "ServiceMonitor", {
    spec: exact({
      selector: Selector,
      endpoints: Type.Array(
        exact({ port: Name, path: Type.String(), interval: Type.String(), relabelings: Type.Array(Relabeling) }),
      ),
    }),
  }),
  PrometheusRule: resource("monitoring.coreos.com/v1", "PrometheusRule", {
    spec: exact({ groups: Type.Array(exact({ name: Type.String(), rules: Type.Array(Rule) })) }),
  }),
};
