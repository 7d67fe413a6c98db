import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Image } from "./release-image.ts";
import { type Release, run } from "./release-source.ts";

export interface About {
  /** Where the source is published. */
  readonly source: string | undefined;
  /** Who builds. */
  readonly builder: string;
  /** What is released so far, in `release.out`. */
  readonly files: readonly string[];
  readonly image: Image | undefined;
}

const sha256 = (file: string): string => createHash("sha256").update(readFileSync(file)).digest("hex");

const bare = (digest: string): string => digest.replace(/^sha256:/, "");

/** How it was made, as an in-toto statement with SLSA's provenance (v1): what, of what, by what. */
export function renderProvenance(release: Release, { source, builder, files, image }: About): string {
  const { version, revision, committedAt, checkout, out } = release;
  const commit = { uri: source ?? "urn:registry-gateway:source", digest: { gitCommit: revision } };
  const subject = files.map((name) => ({ name, digest: { sha256: sha256(join(out, name)) } }));
  const bases = (image?.bases ?? []).map(({ name, platform, digest }) => ({
    uri: `pkg:docker/${name.replace(":", "@")}?platform=${platform}`,
    digest: { sha256: bare(digest) },
  }));
  const tools = { node: process.versions.node, npm: run("npm", ["--version"], { cwd: checkout }) };
  const statement = {
    _type: "https://in-toto.io/Statement/v1",
    subject:
      image === undefined
        ? subject
        : [...subject, { name: "registry-gateway", digest: { sha256: bare(image.digest) } }],
    predicateType: "https://slsa.dev/provenance/v1",
    predicate: {
      buildDefinition: {
        buildType: "urn:registry-gateway:release:v1",
        externalParameters: { source: commit, version, command: "npm run release" },
        internalParameters: { SOURCE_DATE_EPOCH: committedAt },
        resolvedDependencies: [
          commit,
          { name: "package-lock.json", digest: { sha256: sha256(join(checkout, "package-lock.json")) } },
          ...bases,
        ],
      },
      runDetails: {
        builder: {
          id: builder,
          version: image === undefined ? tools : { ...tools, buildah: run("buildah", ["--version"]) },
        },
      },
    },
  };
  return `${JSON.stringify(statement, undefined, 2)}\n`;
}

/** As `sha256sum --check` reads them. */
export function writeChecksums(folder: string, files: readonly string[]): string {
  const lines = files.toSorted().map((file) => `${sha256(join(folder, file))}  ${file}\n`);
  writeFileSync(join(folder, "SHA256SUMS"), lines.join(""));
  return "SHA256SUMS";
}
