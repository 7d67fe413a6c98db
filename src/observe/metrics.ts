import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from "@prometheus-io/client";
import type { CacheObserver } from "../cache/cache.ts";
import type { ErrorCode } from "../errors.ts";
import type { RequestRecord } from "../requests/record.ts";
import type { SharingObserver } from "../sharing/ports.ts";
import { CACHED_OPERATIONS, type Operation } from "../spec/operations.ts";
import type { UpstreamObserver } from "../upstream/types.ts";
import { Batches, type Series } from "./batches.ts";
import { FAMILIES, type Family, type FamilyName, NONE, PREFIX } from "./metrics-table.ts";
import type { GatewayState } from "./state.ts";
import { TotalsCounter } from "./totals.ts";

type Metric = Counter<string> | Gauge<string> | Histogram<string>;

/** Classes of status; `gone` is 499. */
const CLASSES = ["1xx", "2xx", "3xx", "4xx", "5xx"];
const GONE = 499;

/** Clients that have series of their own; names of tokens are as many as their issuer likes. */
const MOST_CLIENTS = 500;
const OTHER_CLIENTS = "other";

const CLIENT_REFUSALS: ReadonlySet<ErrorCode> = new Set([
  "credential_missing",
  "credential_invalid",
  "credential_expired",
  "credentials_differ",
  "upstream_forbidden",
  "client_rate_limited",
  "client_concurrency",
]);

const METADATA: ReadonlySet<string> = new Set(CACHED_OPERATIONS);

/** Metrics of the process: it has one set of them, whose timers never end. */
const ofProcess = new Registry();
collectDefaultMetrics({ register: ofProcess });

/** Counts what happens and shows it, with all states, as Prometheus reads it. Implements the observers of the rooms below. */
export class Metrics {
  readonly totals = new TotalsCounter();
  private readonly registry = new Registry();
  private readonly metrics = new Map<string, Metric>();
  private readonly batches = new Batches();
  /** Series by family, then by one label after the other: found without making a key. */
  private readonly series = new Map<string, SeriesNode>();
  private readonly clients = new Set<string>();

  constructor() {
    for (const [name, family] of Object.entries<Family>(FAMILIES)) {
      this.metrics.set(name, createMetric(PREFIX + name, family, this.registry));
    }
  }

  readonly upstream: UpstreamObserver = {
    attemptEnded: (upstream, operation, outcome, seconds) => {
      this.totals.attemptEnded(upstream, outcome, seconds);
      this.count("upstream_attempts_total", upstream, operation, outcome);
      this.at("upstream_attempt_duration_seconds", upstream, kindOf(operation)).add(seconds);
    },
    callRefused: (upstream, reason) => this.count("upstream_refused_calls_total", upstream, reason),
    retried: (upstream, kind) => this.count("upstream_retries_total", upstream, kind),
    agreed: (upstream, outcome) => this.count("upstream_agreements_total", upstream, outcome),
  };

  readonly sharing: SharingObserver = {
    commandEnded: (command, outcome, seconds) => {
      this.count("redis_commands_total", command, outcome);
      if (outcome !== "skipped") this.at("redis_command_duration_seconds", command).add(seconds);
    },
  };

  readonly cache: CacheObserver = {
    evicted: (count) => this.at("cache_evictions_total").add(count),
  };

  purged(outcome: "done" | "pending"): void {
    this.count("purges_total", outcome);
  }

  /** Every request ends here, hits too: a few additions. */
  requestEnded(record: RequestRecord): void {
    const { operation = NONE, upstream = NONE, outcome, client, code, seconds, status } = record;
    const statusClass = classOf(status);
    this.totals.requestEnded(record);
    this.count("requests_total", operation, upstream, statusClass);
    this.at("request_duration_seconds", operation, outcome ?? NONE).add(seconds);
    if (outcome !== undefined) this.count("cache_answers_total", upstream, operation, outcome);
    if (code !== undefined) this.count("errors_total", code);
    if (client !== undefined) this.count("client_requests_total", this.labelOf(client), statusClass);
    if (code !== undefined && CLIENT_REFUSALS.has(code)) {
      this.count("client_refusals_total", client === undefined ? NONE : this.labelOf(client), code);
    }
  }

  /** The exposition, its type: {@link contentType}. */
  async text(state: GatewayState): Promise<string> {
    this.batches.flush();
    for (const [name, { labels, read }] of Object.entries<Family>(FAMILIES)) {
      const metric = this.metrics.get(name);
      if (read === undefined || metric === undefined || metric instanceof Histogram) continue;
      metric.reset();
      // The client library shows a family without labels as 0 where it was told nothing: Redis would be away.
      if (labels.length === 0) metric.remove();
      for (const [values, value] of read(state)) metric.inc(labelled(labels, values), value);
    }
    return Registry.merge([this.registry, ofProcess]).metrics();
  }

  get contentType(): string {
    return this.registry.contentType;
  }

  private count(name: FamilyName, ...labels: readonly string[]): void {
    this.at(name, ...labels).add(1);
  }

  /** The series of a family that has these labels. */
  private at(name: FamilyName, ...labels: readonly string[]): Series {
    let node = childOf(this.series, name);
    for (const label of labels) node = childOf(node.children, label);
    return (node.series ??= this.createSeries(name, labels));
  }

  private createSeries(name: FamilyName, values: readonly string[]): Series {
    const labels = labelled(FAMILIES[name].labels, values);
    const metric = this.metrics.get(name)!;
    return metric instanceof Histogram
      ? this.batches.histogram((value) => metric.observe(labels, value))
      : this.batches.counter((sum) => metric.inc(labels, sum));
  }

  private labelOf(client: string): string {
    if (this.clients.has(client)) return client;
    if (this.clients.size >= MOST_CLIENTS) return OTHER_CLIENTS;
    this.clients.add(client);
    return client;
  }
}

interface SeriesNode {
  readonly children: Map<string, SeriesNode>;
  series: Series | undefined;
}

function childOf(nodes: Map<string, SeriesNode>, label: string): SeriesNode {
  let node = nodes.get(label);
  if (node === undefined) nodes.set(label, (node = { children: new Map(), series: undefined }));
  return node;
}

function createMetric(name: string, { type, help, labels, buckets }: Family, registry: Registry): Metric {
  const options = { name, help, labelNames: [...labels], registers: [registry] };
  if (type === "counter") return new Counter(options);
  if (type === "gauge") return new Gauge(options);
  return new Histogram({ ...options, buckets: [...(buckets ?? [])] });
}

function labelled(names: readonly string[], values: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.map((name, i) => [name, values[i] ?? NONE]));
}

function classOf(status: number): string {
  return status === GONE ? "gone" : (CLASSES[Math.floor(status / 100) - 1] ?? NONE);
}

/** Latencies of an info, of what may be cached and of the rest have nothing to do with each other. */
function kindOf(operation: Operation): "info" | "metadata" | "call" {
  if (operation === "info") return "info";
  return METADATA.has(operation) ? "metadata" : "call";
}
