import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import type { BuiltImage } from "./image.ts";

/**
 * Enters the image as a container engine does: a mount namespace of its own in which the image's root is read-only, with
 * `/proc` and `/dev`, the given folders, the image's user, environment and working directory, and nothing of this
 * machine's.
 */
const ENTER = `
set -e
root=$1 user=$2; shift 2
mount --bind "$root" "$root"
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
while [ "$1" != -- ]; do mount --bind -o ro "$1" "$root$2"; shift 2; done
shift
mount -o remount,bind,ro "$root"
exec chroot --userspec="$user" "$root" env -i "$@"`;

/** Host folder → folder in the container. */
type Mounts = Readonly<Record<string, string>>;

/** An image that runs. */
export class Container {
  private readonly image: BuiltImage;
  private readonly mounts: Mounts;
  private readonly child: ChildProcess;

  private constructor(image: BuiltImage, mounts: Mounts) {
    this.image = image;
    this.mounts = mounts;
    const { Entrypoint, Cmd } = image.config;
    this.child = spawn("unshare", enter(image, mounts, [...Entrypoint, ...Cmd]), {
      stdio: ["ignore", "ignore", "inherit"],
    });
    process.once("exit", () => this.child.kill("SIGKILL"));
  }

  /** Starts the image's own command. */
  static start(image: BuiltImage, mounts: Mounts): Container {
    return new Container(image, mounts);
  }

  get pid(): number {
    return this.child.pid!;
  }

  /** Runs another command of the image beside it. */
  run(
    command: readonly string[],
    env: Readonly<Record<string, string>> = {},
  ): { readonly status: number | null; readonly stdout: string; readonly stderr: string } {
    return spawnSync("unshare", enter(this.image, this.mounts, command, env), { encoding: "utf8", timeout: 60_000 });
  }

  /** Ends it; returns its exit code. */
  async stop(signal: NodeJS.Signals): Promise<number | null> {
    const ended = once(this.child, "exit");
    this.child.kill(signal);
    const [code] = (await ended) as [number | null];
    return code;
  }

  async kill(): Promise<void> {
    if (this.child.exitCode === null && this.child.signalCode === null) await this.stop("SIGKILL");
  }
}

/** Arguments of `unshare`. */
function enter(
  { root, config }: BuiltImage,
  mounts: Mounts,
  command: readonly string[],
  env: Readonly<Record<string, string>> = {},
): string[] {
  const variables = [...config.Env, ...Object.entries(env).map(([name, value]) => `${name}=${value}`)];
  const program = ["/bin/sh", "-c", `cd "${config.WorkingDir}" && exec "$@"`, "sh", ...command];
  const folders = Object.entries(mounts).flat();
  return [
    "--mount",
    "--propagation",
    "private",
    "/bin/sh",
    "-c",
    ENTER,
    "sh",
    root,
    config.User,
    ...folders,
    "--",
    ...variables,
    ...program,
  ];
}
