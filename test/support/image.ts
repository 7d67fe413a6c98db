import { execFileSync } from "node:child_process";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { homedir, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { BUILDAH, NPM, provideProgram } from "./programs.ts";
import { parseDockerfile } from "./dockerfile.ts";

/** What a node image is made of, besides node and npm: packages of Debian that are installed here anyhow. */
const BASE_PACKAGES = ["base-files", "ca-certificates", "coreutils", "dash", "libstdc++6"];

/** Where the base image has its programs, as the official one has. */
const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

export type Architecture = "amd64" | "arm64";

/** This machine's. */
export const THIS: Architecture = process.arch === "arm64" ? "arm64" : "amd64";

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
  readonly Labels?: Readonly<Record<string, string>>;
  readonly ExposedPorts: Readonly<Record<string, object>>;
  readonly Healthcheck: { readonly Test: readonly string[] };
}

/** Where a container engine keeps images for a test: nothing of this machine's is used or changed. */
export class ImageStore {
  /** For whoever runs buildah. */
  readonly env: Readonly<Record<string, string>>;
  private readonly folder = mkdtempSync(join(tmpdir(), "image-"));
  private readonly program: string;

  /** @throws when this user may not build */
  constructor() {
    if (process.getuid?.() !== 0) throw new Error("This test builds a container image, and does so as root alone.");
    this.program = provideProgram(BUILDAH);
    const { folder } = this;
    const storage = `[storage]\ndriver = "vfs"\ngraphroot = "${folder}/store"\nrunroot = "${folder}/run"\n`;
    writeFileSync(join(folder, "storage.conf"), storage);
    mkdirSync(join(folder, ".config/containers"), { recursive: true });
    const policy = JSON.stringify({ default: [{ type: "insecureAcceptAnything" }] });
    writeFileSync(join(folder, ".config/containers/policy.json"), policy);
    const home = homedir();
    this.env = {
      CONTAINERS_STORAGE_CONF: join(folder, "storage.conf"),
      BUILDAH_ISOLATION: "chroot",
      HOME: folder,
      // npm's are those of who runs this.
      npm_config_userconfig: join(home, ".npmrc"),
      npm_config_cache: join(home, ".npm"),
    };
  }

  buildah(...args: string[]): string {
    return execFileSync(this.program, args, {
      env: { ...process.env, ...this.env },
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
      timeout: 900_000,
      maxBuffer: 64 * 1024 * 1024,
    }).trim();
  }

  /**
   * Puts together the image that the Dockerfile begins with, under the name that it asks for: of this machine's Debian
   * packages, the Node that runs this, and its npm. For another kind of processor, of packages and Node for that one.
   *
   * @param context the folder of the Dockerfile
   */
  addBase(context: string, architectures: readonly Architecture[] = [THIS]): void {
    const name = `docker.io/library/${baseOf(context)}`;
    this.buildah("manifest", "create", name);
    for (const architecture of architectures) {
      const root = join(this.folder, `base-${architecture}`);
      layOut(root);
      if (architecture === THIS) copyPackages(root);
      else fetchPackages(root, architecture, join(this.folder, "apt"));
      finishRoot(root);
      copyNode(root);
      if (architecture !== THIS) fetchNode(root, architecture);
      const container = this.buildah("from", "--arch", architecture, "scratch");
      this.buildah("add", "--quiet", container, root, "/");
      this.buildah("config", "--arch", architecture, "--env", `PATH=${PATH}`, container);
      const image = `localhost/base-${architecture}`;
      this.buildah("commit", "--quiet", "--rm", container, image);
      this.buildah("manifest", "add", name, `containers-storage:${image}`);
      rmSync(root, { recursive: true });
    }
  }

  /** The image, its root laid out in a folder. */
  open(name: string, format: "Docker" | "OCIv1" = "Docker"): BuiltImage {
    const container = this.buildah("from", "--pull-never", name);
    const inspected = JSON.parse(this.buildah("inspect", "--type", "image", name)) as Record<string, Inspected>;
    const { config } = inspected[format]!;
    return { root: this.buildah("mount", container), config, remove: () => this.remove() };
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

interface Inspected {
  readonly config: ImageConfig;
}

/** Builds an unchanged Dockerfile with a real container engine. No image is fetched: see {@link ImageStore.addBase}. */
export function buildImage(context: string): BuiltImage {
  const store = new ImageStore();
  try {
    store.addBase(context);
    // Docker's format: the other one has no health check.
    store.buildah(
      "bud",
      "--pull-never",
      "--platform",
      `linux/${THIS}`,
      "--format",
      "docker",
      "--tag",
      "built",
      context,
    );
    return store.open("built");
  } catch (error) {
    store.remove();
    throw error;
  }
}

/** The name of the image that all stages begin with. */
function baseOf(context: string): string {
  const stages = parseDockerfile(readFileSync(join(context, "Dockerfile"), "utf8")).filter(
    ({ name }) => name === "FROM",
  );
  const named = stages.map(({ args }) => args.split(" ").find((each) => !each.startsWith("--"))!);
  const [base, ...others] = new Set(named);
  if (base === undefined || others.length > 0) throw new Error("the Dockerfile has not one base image");
  return base;
}

/** As Debian lays it out. */
function layOut(root: string): void {
  mkdirSync(join(root, "usr"), { recursive: true });
  for (const each of ["bin", "lib", "lib64", "sbin"]) {
    mkdirSync(join(root, "usr", each));
    symlinkSync(`usr/${each}`, join(root, each));
  }
}

/** Debian's packages for another kind of processor, without telling this machine's own package manager. */
function fetchPackages(root: string, architecture: Architecture, folder: string): void {
  const script = `
    set -eu
    mkdir -p "$1/lists/partial" "$1/archives/partial" "$1/dpkg"
    touch "$1/dpkg/status"
    get() {
      apt-get -qq -o APT::Architecture=$2 -o APT::Architectures=$2 -o Dir::State="$1" -o Dir::State::lists="$1/lists" \\
        -o Dir::State::status="$1/dpkg/status" -o Dir::Cache="$1" -o Dir::Cache::archives="$1/archives" \\
        -o Debug::NoLocking=1 -o APT::Sandbox::User=root "\${@:3}"
    }
    get "$1" "$2" update
    get "$1" "$2" -y --download-only --no-install-recommends install ${BASE_PACKAGES.join(" ")}
    for each in "$1"/archives/*.deb; do
      dpkg-deb --fsys-tarfile "$each" | tar --extract --directory "$0" --keep-directory-symlink \\
        --exclude './usr/share/doc/*' --exclude './usr/share/man/*' --exclude './usr/share/locale/*'
    done`;
  execFileSync("/bin/bash", ["-c", script, root, folder, architecture], {
    stdio: ["ignore", "ignore", "pipe"],
    timeout: 300_000,
  });
}

/** Node for another kind of processor, in the place of this one's, by the package that brings this one's too. */
function fetchNode(root: string, architecture: Architecture): void {
  const folder = join(root, "fetched");
  mkdirSync(folder);
  const wanted = `node-linux-${architecture}@${process.versions.node}`;
  execFileSync("npm", ["pack", "--silent", "--pack-destination", folder, wanted], {
    stdio: "ignore",
    timeout: 300_000,
  });
  const [archive] = readdirSync(folder);
  execFileSync("tar", ["--extract", "--gzip", "--directory", folder, "--file", join(folder, archive!)]);
  cpSync(join(folder, "package/bin/node"), join(root, "usr/local/bin/node"));
  rmSync(folder, { recursive: true });
}

/** The files of {@link BASE_PACKAGES} and of all that these need. */
function copyPackages(root: string): void {
  const script = `
    packages=$(apt-cache depends --installed --recurse --no-recommends --no-suggests --no-conflicts --no-breaks \\
      --no-replaces --no-enhances ${BASE_PACKAGES.join(" ")} | grep '^[a-z0-9]' | sort -u)
    dpkg -L $packages | grep '^/' | grep -vE '^/(\\.|bin|lib|lib64|sbin)?$|^/usr/share/(doc|man|locale)/' | sort -u |
      sed 's#^/##' |
      tar --create --directory / --no-recursion --ignore-failed-read --warning=no-failed-read --files-from - |
      tar --extract --directory "$0" --keep-directory-symlink`;
  execFileSync("/bin/bash", ["-c", script, root], { stdio: ["ignore", "ignore", "pipe"], timeout: 120_000 });
}

/** What no package has, because it is made when one is installed. */
function finishRoot(root: string): void {
  writeFileSync(join(root, "etc/passwd"), "root:x:0:0:root:/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n");
  writeFileSync(join(root, "etc/group"), "root:x:0:\nnode:x:1000:\n");
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
