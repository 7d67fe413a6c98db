import { type FamilyName, PREFIX } from "../src/observe/metrics-table.ts";

/**
 * The dashboard of Grafana, `config/grafana/dashboard.json`, made of the table of its panels. The first row are the six that
 * matter; the third is about the registry that is chosen above.
 */

type Query = readonly [expr: string, legend: string];

interface Panel {
  readonly title: string;
  /** A stat is one number, or some; a table is the labels of the series that there are now. */
  readonly kind: "timeseries" | "stat" | "table";
  /** Grafana's name of it. */
  readonly unit: string;
  readonly queries: readonly Query[];
  /** A stat is red from here on, and green below. */
  readonly alarm?: number | undefined;
}

interface Row {
  readonly title: string;
  /** Of its panels, in Grafana's units: 24 columns, 30 pixels. */
  readonly width: number;
  readonly height: number;
  readonly panels: readonly Panel[];
}

const WINDOW = "[$__rate_interval]";
const CHOSEN = 'upstream="$upstream"';
const BUSY = `${CHOSEN},kind!="info"`;

function series(name: FamilyName, where = "", suffix = ""): string {
  return `${PREFIX}${name}${suffix}{job=~"$job"${where === "" ? "" : `,${where}`}}`;
}

/** Per second, over all replicas, by the labels; none: in all. */
function rate(name: FamilyName, by = "", where = "", suffix = ""): string {
  return `sum${by === "" ? "" : ` by (${by})`}(rate(${series(name, where, suffix)}${WINDOW}))`;
}

/** Nought where nothing of the kind has happened yet. */
function orNought(expr: string): string {
  return `${expr} or (vector(0) unless on () (${expr}))`;
}

function rateOrNought(name: FamilyName, by = "", where = ""): string {
  return orNought(rate(name, by, where));
}

function share(name: FamilyName, where: string): string {
  return `(${rateOrNought(name, "", where)}) / ${rate(name)}`;
}

function increase(name: FamilyName, by = ""): string {
  return `sum${by === "" ? "" : ` by (${by})`}(increase(${series(name)}${WINDOW}))`;
}

function quantile(rank: number, name: FamilyName, by = "le", where = ""): string {
  return `histogram_quantile(${rank}, ${rate(name, by, where, "_bucket")})`;
}

function quantiles(name: FamilyName, where = ""): Query[] {
  return [0.5, 0.95, 0.99].map((rank) => [quantile(rank, name, "le", where), `p${rank * 100}`] as const);
}

/** What all replicas have together: the sum; or what each of them sees alike: the largest or least. */
function all(aggregate: "sum" | "max" | "min", name: FamilyName, by = "", where = ""): string {
  return `${aggregate}${by === "" ? "" : ` by (${by})`}(${series(name, where)})`;
}

/** Of Node's own metrics; the gateway's processes are those that say their version. */
function ofProcess(expr: string): Query {
  return [`${expr} and on (job, instance) ${series("build_info")}`, "{{instance}}"];
}

function chart(title: string, unit: string, ...queries: readonly Query[]): Panel {
  return { title, kind: "timeseries", unit, queries };
}

function stat(title: string, unit: string, expr: string, alarm?: number): Panel {
  return { title, kind: "stat", unit, queries: [[expr, title]], alarm };
}

function table(title: string, ...queries: readonly Query[]): Panel {
  return { title, kind: "table", unit: "short", queries };
}

export const ROWS: readonly Row[] = [
  {
    title: "At a glance",
    width: 4,
    height: 5,
    panels: [
      stat(
        "Registries not up",
        "short",
        `sum(${all("max", "upstream_state", "upstream", 'state=~"down|disabled"')})`,
        1,
      ),
      stat("Requests", "reqps", rate("requests_total")),
      stat("Ended with 5xx", "percentunit", share("requests_total", 'status="5xx"'), 0.01),
      stat("p99", "s", quantile(0.99, "request_duration_seconds"), 5),
      stat("From the cache", "percentunit", share("cache_answers_total", 'outcome=~"hit|stale"')),
      stat("Replicas", "short", `count(${series("build_info")})`),
    ],
  },
  {
    title: "Traffic",
    width: 6,
    height: 8,
    panels: [
      chart("Requests by status", "reqps", [rate("requests_total", "status"), "{{status}}"]),
      chart("Requests by operation", "reqps", [rate("requests_total", "operation"), "{{operation}}"]),
      chart("Requests by registry", "reqps", [rate("requests_total", "upstream"), "{{upstream}}"]),
      chart("How long requests take", "s", ...quantiles("request_duration_seconds")),
      chart("Errors by code", "reqps", [rateOrNought("errors_total", "code"), "{{code}}"]),
      chart(
        "Clients that ask most, and refusals",
        "reqps",
        [orNought(`topk(10, ${rate("client_requests_total", "client")})`), "{{client}}"],
        [rateOrNought("client_refusals_total", "client, code"), "{{client}} {{code}}"],
      ),
      chart("Connections of clients", "short", [all("sum", "connections", "instance"), "{{instance}}"]),
    ],
  },
  {
    title: "One registry: $upstream",
    width: 6,
    height: 8,
    panels: [
      table("State", [`${all("max", "upstream_state", "state, instance", CHOSEN)} == 1`, "state"]),
      chart(
        "Nodes",
        "short",
        [all("max", "upstream_nodes", "state", CHOSEN), "{{state}}"],
        [all("max", "upstream_paused_nodes", "", CHOSEN), "paused"],
      ),
      chart("Asked of it", "reqps", [rate("upstream_attempts_total", "outcome", CHOSEN), "{{outcome}}"]),
      chart("How long it takes", "s", ...quantiles("upstream_attempt_duration_seconds", BUSY)),
      chart(
        "Calls now",
        "short",
        [all("sum", "upstream_calls_in_flight", "", CHOSEN), "run"],
        [all("sum", "upstream_calls_waiting", "", CHOSEN), "wait for a place"],
        [all("sum", "upstream_limit_waiting", "", CHOSEN), "wait for your limit"],
      ),
      chart(
        "Your limit",
        "reqps",
        [rate("upstream_attempts_total", "", CHOSEN), "asked"],
        [all("max", "upstream_limit_per_second", "", CHOSEN), "allowed"],
      ),
      chart("Refused before it was asked", "reqps", [
        rateOrNought("upstream_refused_calls_total", "reason", CHOSEN),
        "{{reason}}",
      ]),
      chart(
        "Retries, hedges, agreement",
        "reqps",
        [rateOrNought("upstream_retries_total", "kind", CHOSEN), "{{kind}}"],
        [rateOrNought("upstream_agreements_total", "outcome", CHOSEN), "{{outcome}}"],
      ),
    ],
  },
  {
    title: "Cache and Redis",
    width: 8,
    height: 8,
    panels: [
      chart("Answers by outcome", "reqps", [rate("cache_answers_total", "outcome"), "{{outcome}}"]),
      chart(
        "Memory of the cache",
        "bytes",
        [all("max", "cache_bytes", "instance"), "{{instance}}"],
        [all("max", "cache_max_bytes"), "cache.memory"],
      ),
      chart(
        "Entries",
        "short",
        [all("max", "cache_entries", "instance"), "{{instance}}"],
        [increase("cache_evictions_total"), "evicted"],
        [orNought(increase("purges_total")), "purges"],
      ),
      chart(
        "Redis, as replicas see it",
        "short",
        [orNought(all("min", "redis_up", "instance")), "up {{instance}}"],
        [all("max", "replicas"), "replicas seen"],
      ),
      chart("Redis commands", "reqps", [
        rateOrNought("redis_commands_total", "command, outcome"),
        "{{command}} {{outcome}}",
      ]),
      chart("Redis commands, p99", "s", [
        orNought(quantile(0.99, "redis_command_duration_seconds", "le, command")),
        "{{command}}",
      ]),
    ],
  },
  {
    title: "Process",
    width: 8,
    height: 8,
    panels: [
      chart("CPU", "percentunit", ofProcess(`rate(process_cpu_seconds_total{job=~"$job"}${WINDOW})`)),
      chart("Memory of the process", "bytes", ofProcess('process_resident_memory_bytes{job=~"$job"}')),
      chart("Event loop, p99", "s", ofProcess('nodejs_eventloop_lag_p99_seconds{job=~"$job"}')),
      table(
        "Versions and configurations",
        [all("max", "build_info", "instance, version"), "version"],
        [all("max", "config_info", "instance, digest"), "digest"],
        [`(time() - ${all("max", "config_taken_timestamp_seconds", "instance")}) / 3600`, "hours ago"],
        [increase("log_lines_dropped_total", "instance"), "log lines left out"],
      ),
      table("Certificates", [`${all("min", "certificate_expiry_seconds", "role, peer")} / 86400`, "days left"]),
    ],
  },
];

const SOURCE = { type: "prometheus", uid: "${datasource}" };

/** The text of `config/grafana/dashboard.json`. */
export function dashboard(): string {
  const panels: object[] = [];
  let y = 0;
  for (const { title, width, height, panels: ofRow } of ROWS) {
    const id = panels.length + 1;
    panels.push({ id, type: "row", title, collapsed: false, panels: [], gridPos: { x: 0, y, w: 24, h: 1 } });
    const perLine = 24 / width;
    for (const [i, panel] of ofRow.entries()) {
      const at = { x: (i % perLine) * width, y: y + 1 + Math.floor(i / perLine) * height };
      panels.push({ id: panels.length + 1, gridPos: { ...at, w: width, h: height }, ...panelJson(panel) });
    }
    y += 1 + Math.ceil(ofRow.length / perLine) * height;
  }
  const head = { uid: "registry-gateway", title: "Registry Gateway", tags: ["registry-gateway"], schemaVersion: 39 };
  const view = { editable: true, graphTooltip: 1, refresh: "30s", time: { from: "now-3h", to: "now" } };
  return `${JSON.stringify({ ...head, ...view, templating: { list: variables() }, panels }, undefined, 2)}\n`;
}

function panelJson({ title, kind, unit, queries, alarm }: Panel): object {
  const isChart = kind === "timeseries";
  const red = alarm === undefined ? [] : [{ color: "red", value: alarm }];
  const thresholds = { mode: "absolute", steps: [{ color: "green", value: null }, ...red] };
  const defaults = { unit, min: 0, thresholds, ...(isChart && { custom: { fillOpacity: 8 } }) };
  return {
    type: kind,
    title,
    datasource: SOURCE,
    fieldConfig: { defaults, overrides: [] },
    options: isChart ? { tooltip: { mode: "multi", sort: "desc" } } : {},
    targets: queries.map(([expr, legendFormat], i) => ({
      refId: "ABC"[i],
      datasource: SOURCE,
      expr,
      legendFormat,
      ...(kind === "table" && { instant: true, format: "table" }),
    })),
    // A table of several queries is one of all their labels.
    ...(kind === "table" && queries.length > 1 && { transformations: [{ id: "merge", options: {} }] }),
  };
}

function variables(): object[] {
  const query = (name: string, label: string, text: string): object => {
    return { name, label, type: "query", datasource: SOURCE, query: text, refresh: 2, sort: 1 };
  };
  return [
    { name: "datasource", label: "Prometheus", type: "datasource", query: "prometheus" },
    { ...query("job", "Job", `label_values(${PREFIX}build_info, job)`), multi: true, includeAll: true },
    query("upstream", "Registry", `label_values(${PREFIX}upstream_state{job=~"$job"}, upstream)`),
  ];
}
