import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { packFolder } from "./release-artefacts.ts";
import { type Release, run } from "./release-source.ts";

const PLATFORMS = ["linux/amd64", "linux/arm64"] as const;

/** The image, and what it was made of. */
export interface Image {
  readonly file: string;
  /** Of the index of both platforms: what it is pulled by. */
  readonly digest: string;
  /** The image that it begins with, by platform. */
  readonly bases: readonly Base[];
}

interface Base {
  readonly name: string;
  readonly platform: string;
  readonly digest: string;
}

/**
 * Builds the Dockerfile for both platforms, as one OCI archive: all stages but the last once, on this machine's own kind of
 * processor, and the last one, which runs nothing, for each platform over what they made. (The Dockerfile says the same to
 * builders that know `FROM --platform=$BUILDPLATFORM`; buildah 1.28 then takes that platform for every stage.)
 *
 * buildah takes its storage and its way of isolation from the environment (`CONTAINERS_STORAGE_CONF`, `BUILDAH_ISOLATION`),
 * and fetches the base images that it has not.
 */
export function buildImage(release: Release): Image {
  const { name, version, committedAt, checkout, temporary, out } = release;
  const buildah = (...args: string[]): string => run("buildah", args, { cwd: checkout });
  const { stages, last, base } = readDockerfile(readFileSync(join(checkout, "Dockerfile"), "utf8"));
  const contexts = stages.map((stage) => {
    const folder = join(temporary, "stages", stage);
    buildah(
      "build",
      `--target=${stage}`,
      `--build-arg=SOURCE_REVISION=${shortRevision(release)}`,
      `--output=${folder}`,
      ".",
    );
    return `--build-context=${stage}=${folder}`;
  });
  const file = join(temporary, "Dockerfile");
  writeFileSync(file, last);
  const list = `localhost/${name}`;
  buildah("manifest", "create", list);
  const bases: Base[] = [];
  for (const platform of PLATFORMS) {
    const image = `${list}-${platform.replaceAll("/", "-")}`;
    const options = ["--format=oci", `--platform=${platform}`, `--timestamp=${committedAt}`, `--tag=${image}`];
    buildah("build", `--file=${file}`, ...options, ...contexts, ...labelsOf(release), ".");
    buildah("manifest", "add", list, `containers-storage:${image}`);
    bases.push({ name: base, platform, digest: digestOf(buildah, base, platform) });
  }
  const folder = join(temporary, "image");
  buildah("manifest", "push", "--all", "--format", "oci", list, `oci:${folder}:${version}`);
  const { manifests } = JSON.parse(readFileSync(join(folder, "index.json"), "utf8")) as {
    manifests: { digest: string }[];
  };
  const archive = `${name}.oci.tar`;
  packFolder(folder, { file: join(out, archive), paths: ["blobs", "index.json", "oci-layout"], committedAt });
  buildah("manifest", "rm", list);
  for (const platform of PLATFORMS) buildah("rmi", `${list}-${platform.replaceAll("/", "-")}`);
  return { file: archive, digest: manifests[0]!.digest, bases };
}

/** The same 12 characters that the package has. */
function shortRevision({ revision }: Release): string {
  return revision.slice(0, 12);
}

function labelsOf({ version, revision, committedAt }: Release): string[] {
  const labels = { version, revision, created: new Date(committedAt * 1_000).toISOString() };
  return Object.entries(labels).map(([key, value]) => `--label=org.opencontainers.image.${key}=${value}`);
}

/** Its stages but the last by name, the last one's text, and the image that it begins with. */
function readDockerfile(text: string): { stages: readonly string[]; last: string; base: string } {
  const stages = [...text.matchAll(/^FROM .* AS (\S+)$/gm)].map(([, name]) => name!);
  const last = text.slice(text.lastIndexOf("\nFROM ") + 1);
  return { stages, last, base: /^FROM (\S+)/.exec(last)![1]! };
}

function digestOf(buildah: (...args: string[]) => string, base: string, platform: string): string {
  const container = buildah("from", "--platform", platform, base);
  const digest = buildah("inspect", "--type", "container", "--format", "{{.FromImageDigest}}", container);
  buildah("rm", container);
  return digest;
}
