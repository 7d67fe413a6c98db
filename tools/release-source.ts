import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** What is released, and where it is made. */
export interface Release {
  readonly version: string;
  /** The commit. */
  readonly revision: string;
  /** When it was committed, seconds: the time of everything that is made. */
  readonly committedAt: number;
  /** What names of files begin with. */
  readonly name: string;
  /** A checkout of the commit, with what `npm ci` installs. */
  readonly checkout: string;
  /** Where files go. */
  readonly out: string;
  /** For what is gone afterwards. */
  readonly temporary: string;
}

/** Runs a program with the Node that runs this; returns what it prints. @throws Error with what it complains about */
export function run(program: string, args: readonly string[], { cwd, env = {} }: RunOptions = {}): string {
  const path = `${dirname(process.execPath)}:${process.env["PATH"]}`;
  try {
    return execFileSync(program, args, {
      ...(cwd === undefined ? {} : { cwd }),
      env: { ...process.env, PATH: path, ...env },
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
      timeout: 900_000,
      maxBuffer: 2 ** 26,
    }).trim();
  } catch (error) {
    const { stderr = "" } = error as { stderr?: string };
    throw new Error(`${program} ${args.slice(0, 3).join(" ")} … failed:\n${stderr.slice(-4_000)}`, { cause: error });
  }
}

interface RunOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** Checks the last commit of the repository out into a folder of its own: what is not committed is not released. */
export function checkOut(
  repository: string,
  { temporary, out }: { readonly temporary: string; readonly out: string },
): Release {
  const git = (...args: string[]): string => run("git", args, { cwd: repository });
  const revision = git("rev-parse", "HEAD");
  // npm names what it lists after the folder.
  const checkout = join(temporary, "registry-gateway");
  git("clone", "--quiet", "--shared", "--no-checkout", repository, checkout);
  run("git", ["checkout", "--quiet", "--detach", revision], { cwd: checkout });
  run("npm", ["ci", "--no-audit", "--no-fund"], { cwd: checkout });
  const { name, version } = JSON.parse(readFileSync(join(checkout, "package.json"), "utf8")) as {
    name: string;
    version: string;
  };
  const committedAt = Number(git("log", "-1", "--format=%ct", revision));
  return { version, revision, committedAt, name: `${name}-${version}`, checkout, out, temporary };
}
