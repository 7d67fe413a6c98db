import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { NGINX, provideProgram } from "./programs.ts";

/** A real nginx on loopback, with one worker, in a folder of its own. */
export class Nginx {
  private readonly child: ChildProcess;
  private readonly folder: string;

  private constructor(child: ChildProcess, folder: string) {
    this.child = child;
    this.folder = folder;
  }

  /**
   * Starts one.
   *
   * @param http what stands within `http { … }`
   */
  static start(http: string): Nginx {
    const program = provideProgram(NGINX);
    const folder = mkdtempSync(join(tmpdir(), "nginx-"));
    const file = join(folder, "nginx.conf");
    mkdirSync(join(folder, "temporary"));
    writeFileSync(file, configuration(folder, http));
    const child = spawn(program, ["-c", file, "-p", folder, "-e", "stderr"], {
      stdio: ["ignore", "inherit", "inherit"],
    });
    process.once("exit", () => child.kill("SIGKILL"));
    return new Nginx(child, folder);
  }

  async stop(): Promise<void> {
    if (this.child.exitCode === null && this.child.signalCode === null) {
      const ended = once(this.child, "exit");
      this.child.kill("SIGTERM");
      await ended;
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}

function configuration(folder: string, http: string): string {
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (kind) => `${kind}_temp_path ${join(folder, "temporary", kind)};`,
  );
  return `
daemon off;
master_process off;
pid ${join(folder, "nginx.pid")};
error_log stderr crit;
events { worker_connections 1024; }
http {
  access_log off;
  ${temporary.join("\n  ")}
  ${http}
}
`;
}
