import { execFileSync } from "node:child_process";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { BUILDAH, NPM, provideProgram } from "./programs.ts";
import { parseDockerfile } from "./dockerfile.ts";

/** What a node image is made of, besides node and npm: packages of Debian that are installed here anyhow. */
const BASE_PACKAGES = ["base-files", "ca-certificates", "coreutils", "dash", "libstdc++6"];

/** Where the base image has its programs, as the official one has. */
const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** An image that was built, and the folder that is its root when it runs. */
export interface BuiltImage {
  readonly root: string;
  readonly config: ImageConfig;
  /** Removes the image and all that was made for it. */
  remove(): void;
}

/** As the container engine keeps it. */
interface ImageConfig {
  readonly User: string;
  readonly WorkingDir: string;
  readonly Env: readonly string[];
  readonly Entrypoint: readonly string[];
  readonly Cmd: readonly string[];
  readonly StopSignal: string;
  readonly ExposedPorts: Readonly<Record<string, object>>;
  readonly Healthcheck: { readonly Test: readonly string[] };
}

/**
 * Builds an unchanged Dockerfile with a real container engine. No image is fetched: the base image is put together from
 * this machine's Debian packages, the Node that runs this, and its npm, under the name that the Dockerfile asks for.
 *
 * @param context the folder of the Dockerfile
 * @throws when this machine is no Debian (or Ubuntu), or this user may not build
 */
export function buildImage(context: string): BuiltImage {
  if (process.getuid?.() !== 0) throw new Error("This test builds a container image, and does so as root alone.");
  const program = provideProgram(BUILDAH);
  const folder = mkdtempSync(join(tmpdir(), "image-"));
  const storage = ["--root", join(folder, "store"), "--runroot", join(folder, "run"), "--storage-driver", "vfs"];
  const buildah = (...args: string[]): string =>
    execFileSync(program, [...storage, ...args], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
      timeout: 900_000,
      maxBuffer: 64 * 1024 * 1024,
    }).trim();
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  try {
    buildBase(buildah, { folder, name: baseOf(context) });
    // Docker's format: the other one has no health check.
    buildah("bud", "--isolation", "chroot", "--pull-never", "--format", "docker", "--tag", "built", context);
    const container = buildah("from", "--pull-never", "built");
    const inspected = JSON.parse(buildah("inspect", "--type", "image", "built")) as { Docker: { config: ImageConfig } };
    return { root: buildah("mount", container), config: inspected.Docker.config, remove };
  } catch (error) {
    remove();
    throw error;
  }
}

/** The name of the image that all stages begin with. */
function baseOf(context: string): string {
  const stages = parseDockerfile(readFileSync(join(context, "Dockerfile"), "utf8")).filter(
    ({ name }) => name === "FROM",
  );
  const [base, ...others] = new Set(stages.map(({ args }) => args.split(" ")[0]!));
  if (base === undefined || others.length > 0) throw new Error("the Dockerfile has not one base image");
  return base;
}

function buildBase(
  buildah: (...args: string[]) => string,
  { folder, name }: { readonly folder: string; readonly name: string },
): void {
  const root = join(folder, "base");
  copyPackages(root);
  copyNode(root);
  const container = buildah("from", "scratch");
  buildah("add", "--quiet", container, root, "/");
  buildah("config", "--env", `PATH=${PATH}`, container);
  buildah("commit", "--quiet", "--rm", container, `docker.io/library/${name}`);
  rmSync(root, { recursive: true });
}

/** The files of {@link BASE_PACKAGES} and of all that these need. */
function copyPackages(root: string): void {
  mkdirSync(join(root, "usr"), { recursive: true });
  for (const each of ["bin", "lib", "lib64", "sbin"]) {
    mkdirSync(join(root, "usr", each));
    symlinkSync(`usr/${each}`, join(root, each));
  }
  const script = `
    packages=$(apt-cache depends --installed --recurse --no-recommends --no-suggests --no-conflicts --no-breaks \\
      --no-replaces --no-enhances ${BASE_PACKAGES.join(" ")} | grep '^[a-z0-9]' | sort -u)
    dpkg -L $packages | grep '^/' | grep -vE '^/(\\.|bin|lib|lib64|sbin)?$|^/usr/share/(doc|man|locale)/' | sort -u |
      sed 's#^/##' |
      tar --create --directory / --no-recursion --ignore-failed-read --warning=no-failed-read --files-from - |
      tar --extract --directory "$0" --keep-directory-symlink`;
  execFileSync("/bin/bash", ["-c", script, root], { stdio: ["ignore", "ignore", "pipe"], timeout: 120_000 });
  writeFileSync(join(root, "etc/passwd"), "root:x:0:0:root:/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n");
  writeFileSync(join(root, "etc/group"), "root:x:0:\nnode:x:1000:\n");
  // Made when the package is installed, and so in no package.
  const authorities = "etc/ssl/certs/ca-certificates.crt";
  mkdirSync(dirname(join(root, authorities)), { recursive: true });
  cpSync(join("/", authorities), join(root, authorities));
}

/** Node and npm, and where npm here gets its packages. */
function copyNode(root: string): void {
  const local = join(root, "usr/local");
  for (const each of ["bin", "etc", "lib/node_modules"]) mkdirSync(join(local, each), { recursive: true });
  cpSync(realpathSync(process.execPath), join(local, "bin/node"));
  const npm = dirname(dirname(realpathSync(provideProgram(NPM))));
  cpSync(npm, join(local, "lib/node_modules/npm"), { recursive: true, verbatimSymlinks: true });
  symlinkSync("../lib/node_modules/npm/bin/npm-cli.js", join(local, "bin/npm"));
  const registry = execFileSync("npm", ["config", "get", "registry"], { encoding: "utf8" }).trim();
  const settings = [`registry=${registry}`, "cafile=/etc/ssl/certs/ca-certificates.crt", ""];
  writeFileSync(join(local, "etc/npmrc"), settings.join("\n"));
}
