import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

export const ROOT = join(import.meta.dirname, "../..");
const env = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env["PATH"]}` };

/** Runs npm, with the Node of the tests. */
export function npm(args: readonly string[], cwd: string): string {
  return execFileSync("npm", args, {
    cwd,
    env,
    encoding: "utf8",
    timeout: 300_000,
    stdio: ["ignore", "pipe", "ignore"],
  });
}

/** What a command printed and how it ended. */
export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The package as users get it: packed, and installed from its tarball in a folder of its own. */
export class InstalledPackage {
  readonly folder = mkdtempSync(join(tmpdir(), "package-"));
  private readonly children: ChildProcess[] = [];

  constructor() {
    // --ignore-scripts: it was built before all tests, as prepack would.
    npm(["pack", "--ignore-scripts", "--pack-destination", this.folder], ROOT);
    const tarball = readdirSync(this.folder).find((file) => file.endsWith(".tgz"))!;
    writeFileSync(join(this.folder, "package.json"), '{"private":true}');
    npm(["install", "--no-audit", "--no-fund", "--ignore-scripts", join(this.folder, tarball)], this.folder);
  }

  /** Its files, as they are installed. */
  get root(): string {
    return join(this.folder, "node_modules/registry-gateway");
  }

  /** Writes a file beside it; returns its path. */
  write(name: string, text: string): string {
    const file = join(this.folder, name);
    writeFileSync(file, text);
    return file;
  }

  /** Starts the program, which goes on until {@link dispose}. */
  start(args: readonly string[]): ChildProcess {
    const child = spawn(join(this.folder, "node_modules/.bin/registry-gateway"), args, {
      env,
      stdio: ["ignore", "pipe", "inherit"],
    });
    child.stdout.resume();
    this.children.push(child);
    return child;
  }

  /** Runs a command of the program to its end. */
  async run(args: readonly string[]): Promise<Ended> {
    const child = spawn(join(this.folder, "node_modules/.bin/registry-gateway"), args, { env, timeout: 60_000 });
    const output = { stdout: "", stderr: "" };
    child.stdout.on("data", (chunk: Buffer) => (output.stdout += chunk.toString()));
    child.stderr.on("data", (chunk: Buffer) => (output.stderr += chunk.toString()));
    const [code] = (await once(child, "close")) as [number | null];
    return { code, ...output };
  }

  async dispose(): Promise<void> {
    for (const child of this.children) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}
