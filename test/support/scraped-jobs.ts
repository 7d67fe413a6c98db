interface Resource {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
}

interface ServiceMonitor extends Resource {
  readonly spec: {
    readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
    readonly jobLabel?: string;
    readonly endpoints: readonly { readonly relabelings?: readonly Relabeling[] }[];
  };
}

interface Relabeling {
  readonly sourceLabels: readonly string[];
  readonly separator: string;
  readonly regex: string;
  readonly targetLabel: string;
  readonly replacement: string;
}

/** The label `job` of what Prometheus scrapes of these resources in a namespace, as its operator makes it of their ServiceMonitor. */
export function scrapedJobs(resources: readonly Resource[], namespace: string): string[] {
  const { spec } = resources.find(({ kind }) => kind === "ServiceMonitor") as ServiceMonitor;
  const wanted = Object.entries(spec.selector.matchLabels);
  const services = resources.filter(
    ({ kind, metadata: { labels = {} } }) =>
      kind === "Service" && wanted.every(([name, value]) => labels[name] === value),
  );
  return services.flatMap(({ metadata: { name: service, labels = {} } }) =>
    spec.endpoints.map(({ relabelings = [] }) => {
      const target: Record<string, string> = { namespace, service, job: labels[spec.jobLabel ?? ""] ?? service };
      for (const { sourceLabels, separator, regex, targetLabel, replacement } of relabelings) {
        const value = sourceLabels.map((name) => target[name] ?? "").join(separator);
        const whole = new RegExp(`^(?:${regex})$`);
        if (whole.test(value)) target[targetLabel] = value.replace(whole, replacement);
      }
      return target["job"]!;
    }),
  );
}
