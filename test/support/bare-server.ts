import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { findFreePort } from "./ports.ts";

/** Reads a body chunk by chunk, as any program on `node:http` does, and refuses it after 1,024 of them. */
const PROGRAM = `
  import { createServer } from "node:http";
  createServer((request, response) => {
    let chunks = 0;
    request.on("data", () => {
      chunks += 1;
      if (chunks !== 1_024) return;
      request.socket.pause();
      response.writeHead(400, { connection: "close" }).end();
    });
  }).listen(Number(process.env.BARE_PORT), "127.0.0.1", () => process.send("listening"));
`;

/** A server of bare `node:http` in a process of its own, to measure against. */
export class BareServer {
  /** Host and port. */
  readonly target: string;
  /** Where `held-loop.ts` says how long its event loop was held. */
  readonly heldLoop: string;
  private readonly child: ChildProcess;

  private constructor(child: ChildProcess, port: number, heldLoopPort: number) {
    this.child = child;
    this.target = `127.0.0.1:${port}`;
    this.heldLoop = `http://127.0.0.1:${heldLoopPort}`;
  }

  static async start(): Promise<BareServer> {
    const port = await findFreePort();
    const heldLoopPort = await findFreePort();
    const flags = ["--max-semi-space-size=8", "--import", join(import.meta.dirname, "held-loop.ts")];
    const child = spawn(process.execPath, [...flags, "--input-type=module", "--eval", PROGRAM], {
      env: { ...process.env, BARE_PORT: String(port), HELD_LOOP_PORT: String(heldLoopPort) },
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    });
    await once(child, "message");
    return new BareServer(child, port, heldLoopPort);
  }

  stop(): void {
    this.child.kill("SIGKILL");
  }
}
