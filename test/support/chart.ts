import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import { temporaryFolder } from "./gateway.ts";
import { GO, provideFolder, provideProgram } from "./programs.ts";
import { readYaml, ROOT } from "./project.ts";

const CHART = join(ROOT, "config/helm");
const GO_SOURCES = "/usr/share/gocode/src";

export interface Values {
  readonly [key: string]: unknown;
}

type Texts = Readonly<Record<string, string>>;

/** An object of Kubernetes, with the parts that tests look into; a cast says of which kind it is. */
export interface Resource {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels: Texts };
  /** Of a ConfigMap or a Secret. */
  readonly data?: Texts;
  readonly spec?: unknown;
}

export interface Deployment {
  readonly replicas?: number;
  readonly template: Pod;
}

export interface Pod {
  readonly metadata: { readonly labels: Texts; readonly annotations?: Texts };
  readonly spec: {
    readonly terminationGracePeriodSeconds: number;
    readonly automountServiceAccountToken: boolean;
    readonly securityContext: object;
    readonly containers: readonly [Container];
    readonly volumes: readonly {
      readonly name: string;
      readonly configMap?: { readonly name: string };
      readonly secret?: { readonly secretName: string; readonly defaultMode: number };
    }[];
  };
}

type Probe = "startupProbe" | "readinessProbe" | "livenessProbe";

interface Container extends Readonly<Record<Probe, { readonly httpGet: { readonly port: string } }>> {
  readonly image: string;
  readonly securityContext: object;
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly volumeMounts: readonly { readonly name: string }[];
}

export interface Rendered {
  readonly notes: string;
  readonly all: readonly Resource[];
  /** The only one of its kind. */
  readonly one: (kind: string) => Resource;
}

/** Renders the chart with Go's own templates and the functions that Helm has: Helm itself is no package of Debian. */
export class ChartRenderer {
  private readonly program: string;

  constructor() {
    const go = provideProgram(GO);
    provideFolder(join(GO_SOURCES, "github.com/Masterminds/sprig"), "golang-github-masterminds-sprig-dev");
    provideFolder(join(GO_SOURCES, "gopkg.in/yaml.v3"), "golang-gopkg-yaml.v3-dev");
    const folder = temporaryFolder();
    this.program = join(folder, "render");
    const env = { ...process.env, GO111MODULE: "off", GOPATH: "/usr/share/gocode", GOCACHE: join(folder, "cache") };
    execFileSync(go, ["build", "-o", this.program, join(ROOT, "test/fixtures/render-chart.go")], { env });
  }

  /**
   * @param cluster what is there already, by `Kind/name`
   * @throws Error with what a template refuses
   */
  render(values: Values, cluster: object = {}): Rendered {
    const { version, appVersion, name } = readYaml("config/helm/Chart.yaml") as Record<string, string>;
    const scope = {
      Values: merge(readYaml("config/helm/values.yaml") as Values, values),
      Release: { Name: "registry-gateway", Namespace: "registries", Service: "Helm" },
      Chart: { Name: name, Version: version, AppVersion: appVersion },
    };
    const input = JSON.stringify({ folder: CHART, scope, cluster });
    const output = execFileSync(this.program, { input, encoding: "utf8", maxBuffer: 2 ** 24, stdio: "pipe" });
    const { "NOTES.txt": notes = "", ...texts } = JSON.parse(output) as Record<string, string>;
    const all = Object.values(texts).flatMap(resourcesIn);
    const one = (kind: string): Resource => {
      const found = all.filter((each) => each.kind === kind);
      if (found.length !== 1) throw new Error(`there are ${found.length} of ${kind}`);
      return found[0]!;
    };
    return { notes, all, one };
  }
}

function merge(own: Values, others: Values): Values {
  const merged: Record<string, unknown> = { ...own };
  for (const [key, value] of Object.entries(others)) {
    merged[key] = isMap(merged[key]) && isMap(value) ? merge(merged[key], value) : value;
  }
  return merged;
}

function isMap(value: unknown): value is Values {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function resourcesIn(text: string): Resource[] {
  // Kubernetes reads YAML of version 1.1: 0440 is octal.
  return parseAllDocuments(text, { version: "1.1" }).flatMap((document) => {
    if (document.errors.length > 0) throw document.errors[0]!;
    return document.contents === null ? [] : [document.toJS() as Resource];
  });
}
