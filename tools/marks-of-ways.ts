import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface, type Interface } from "node:readline";

/** The number of times that each way is gone; what runs every time is counted, so that work in the background is not. */
const TIMES = 4;

/** For a process to begin, or for a reload. */
const LONGEST_WAIT = 20_000;

/** How many files of src/ a miss, a POST and a reload run code of, seen by the inspector's precise coverage. */
export async function countFilesOfWays(root: string): Promise<readonly (readonly [string, number])[]> {
  const folder = mkdtempSync(join(tmpdir(), "gateway-marks-"));
  const children: ChildProcess[] = [];
  const startMain = (args: readonly string[], flags: readonly string[] = []) => {
    const child = spawn(process.execPath, [...flags, join(root, "src/main.ts"), ...args]);
    children.push(child);
    return child;
  };
  try {
    const sandbox = startMain(["sandbox", "--port", "0", "--instruments", "20"]);
    const said = createInterface({ input: sandbox.stdout });
    const [url, admin] = await Promise.all([find(said, /base URL\s+(\S+)/), find(said, /admin\s+(\S+)/)]);
    const file = join(folder, "gateway.yaml");
    const text = (level: string) =>
      JSON.stringify({
        listen: { host: "127.0.0.1", port: 0 },
        operations: { host: "127.0.0.1", port: 0 },
        log: { level },
        upstreams: [{ name: "amulet", admin, urls: [url] }],
      });
    writeFileSync(file, text("info"));
    const gateway = startMain(["start", "--config", file], ["--inspect=127.0.0.1:0"]);
    const log = createInterface({ input: gateway.stdout });
    const debugged = find(createInterface({ input: gateway.stderr }), /listening on (ws:\S+)/);
    const port = find(log, /"publicPort":(\d+)/);
    const inspector = await Inspector.open(await debugged);
    const base = `http://127.0.0.1:${await port}/api/token-standard/v0/registrars/amulet/registry`;
    const miss = (i: number) => ask(`${base}/metadata/v1/instruments?pageSize=${i + 1}`);
    const post = (i: number) => ask(`${base}/allocations/v1/id-${i}/choice-contexts/withdraw`, {});
    const reload = async (i: number) => {
      writeFileSync(file, `${text(i % 2 === 0 ? "debug" : "info")}\n`);
      const reloaded = find(log, /"msg":"configuration reloaded"/);
      gateway.kill("SIGHUP");
      await reloaded;
    };
    return [
      ["files of a miss (≤ 60)", await inspector.filesOf(miss)],
      ["files of a POST (≤ 45)", await inspector.filesOf(post)],
      ["files of a reload (≤ 30)", await inspector.filesOf(reload)],
    ];
  } finally {
    for (const child of children) child.kill("SIGKILL");
    rmSync(folder, { recursive: true });
  }
}

async function ask(url: string, body?: object): Promise<void> {
  const post = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(url, body === undefined ? {} : post);
  await answer.arrayBuffer();
  if (answer.status !== 200) throw new Error(`${url} answered ${answer.status}`);
}

/** What a line to come says. */
function find(lines: Interface, pattern: RegExp): Promise<string> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no line says ${pattern.source}`)), LONGEST_WAIT);
    lines.on("line", function look(line) {
      const match = pattern.exec(line);
      if (match === null) return;
      clearTimeout(timer);
      lines.off("line", look);
      resolve(match[1] ?? "");
    });
  });
}

interface Coverage {
  readonly result: readonly {
    readonly url: string;
    readonly functions: readonly { readonly ranges: readonly { count: number }[] }[];
  }[];
}

/** A process's inspector, by the protocol of the Chrome DevTools. */
class Inspector {
  private readonly socket: WebSocket;
  private readonly waiting = new Map<number, (result: unknown) => void>();
  private last = 0;

  private constructor(socket: WebSocket) {
    this.socket = socket;
    socket.addEventListener("message", ({ data }) => {
      const { id, result } = JSON.parse(String(data)) as { id?: number; result: unknown };
      if (id !== undefined) this.waiting.get(id)?.(result);
    });
  }

  static async open(url: string): Promise<Inspector> {
    const socket = new WebSocket(url);
    await once(socket, "open", { signal: AbortSignal.timeout(LONGEST_WAIT) });
    const inspector = new Inspector(socket);
    await inspector.send("Profiler.enable");
    await inspector.send("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
    return inspector;
  }

  /** Files of src/ of which `go` runs code each time but the first. */
  async filesOf(go: (i: number) => Promise<void>): Promise<number> {
    await go(0);
    let files: Set<string> | undefined;
    for (let i = 1; i <= TIMES; i++) {
      await this.send("Profiler.takePreciseCoverage");
      await go(i);
      const { result } = (await this.send("Profiler.takePreciseCoverage")) as Coverage;
      const ran = result.filter(({ functions }) => functions.some(({ ranges }) => ranges[0]!.count > 0));
      const own = new Set(ran.map(({ url }) => /\/src\/(.+)$/.exec(url)?.[1]).filter((each) => each !== undefined));
      files = files === undefined ? own : new Set([...files].filter((file) => own.has(file)));
    }
    return files!.size;
  }

  private send(method: string, params: object = {}): Promise<unknown> {
    this.last += 1;
    const id = this.last;
    const answered = new Promise((resolve) => this.waiting.set(id, resolve));
    this.socket.send(JSON.stringify({ id, method, params }));
    return answered;
  }
}
