import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseAllDocuments, stringify } from "yaml";
import { GO, KUBECTL, providePath, provideProgram, SPRIG, YAML_OF_GO } from "./programs.ts";

const ROOT = join(import.meta.dirname, "../..");
const RENDERER = join(ROOT, "test/long/nightly/helm/render.go");
export const CHART = join(ROOT, "config/helm");
export const MANIFESTS = join(ROOT, "config/kubernetes");

/** An object of Kubernetes. */
export interface Resource {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
  readonly [key: string]: unknown;
}

/** What Helm knows besides the values. */
export interface Release {
  readonly name?: string;
  /** What the cluster has already, by `kind/name`. */
  readonly cluster?: Readonly<Record<string, object>>;
  /** What is given by `--set`, over the values of files. */
  readonly set?: object;
}

/** Renders the chart, with the template functions that Helm has, and the manifests with kubectl. */
export class Renderer {
  private readonly folder = mkdtempSync(join(tmpdir(), "helm-"));
  private readonly program = join(this.folder, "render");
  private readonly kubectl = provideProgram(KUBECTL);

  constructor() {
    const go = provideProgram(GO);
    for (const needed of [SPRIG, YAML_OF_GO]) providePath(needed);
    execFileSync(go, ["build", "-o", this.program, RENDERER], {
      env: { ...process.env, GO111MODULE: "off", GOPATH: "/usr/share/gocode", GOCACHE: join(this.folder, "cache") },
      stdio: ["ignore", "ignore", "inherit"],
      timeout: 300_000,
    });
  }

  /** @throws Error with what a template refuses */
  chart(values: object, { name = "registry-gateway", cluster = {}, set = {} }: Release = {}): Resource[] {
    const release = { Name: name, Namespace: "default", Service: "Helm" };
    const texts = JSON.parse(
      execFileSync(this.program, {
        input: JSON.stringify({ chart: CHART, release, values, set, cluster }),
        encoding: "utf8",
        stdio: ["pipe", "pipe", "pipe"],
        maxBuffer: 2 ** 24,
      }),
    ) as Record<string, string>;
    return Object.entries(texts).flatMap(([file, text]) => (file.endsWith(".yaml") ? resourcesIn(text) : []));
  }

  /** The manifests with these keys of the kustomization, and files that they name. */
  kustomize(keys: object, files: Readonly<Record<string, string>> = {}): Resource[] {
    const folder = mkdtempSync(join(this.folder, "kustomize-"));
    cpSync(MANIFESTS, folder, { recursive: true });
    for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content);
    writeFileSync(join(folder, "kustomization.yaml"), stringify(keys));
    return resourcesIn(
      execFileSync(this.kubectl, ["kustomize", folder], {
        encoding: "utf8",
        maxBuffer: 2 ** 24,
        stdio: ["ignore", "pipe", "ignore"],
      }),
    );
  }

  close(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

function resourcesIn(text: string): Resource[] {
  // Kubernetes reads YAML of version 1.1: 0440 is octal.
  return parseAllDocuments(text, { version: "1.1" })
    .filter((document) => document.contents !== null)
    .map((document) => {
      if (document.errors.length > 0) throw document.errors[0]!;
      return document.toJS() as Resource;
    })
    .filter((resource) => resource !== null);
}
