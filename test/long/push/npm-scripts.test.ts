import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { findFreePort, isAnswering } from "../../support/ports.ts";
import { until } from "../../support/until.ts";
import { childrenOf, isRunning } from "../../support/child-processes.ts";
import { useTemporaryFolder } from "../../support/temporary-folder.ts";

const ROOT = join(import.meta.dirname, "../../..");
const folder = useTemporaryFolder();

/** Processes to end after each test, should they still run. */
const started: number[] = [];
afterEach(() => {
  for (const pid of started.splice(0)) if (isRunning(pid)) process.kill(pid, "SIGKILL");
});

function npm(args: readonly string[]): ChildProcess {
  const env = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env["PATH"]}` };
  const child = spawn("npm", args, { cwd: ROOT, env, stdio: ["ignore", "ignore", "ignore"] });
  started.push(child.pid!);
  return child;
}

/** All processes below `pid`. */
function descendantsOf(pid: number): number[] {
  const children = childrenOf(pid);
  return children.concat(children.flatMap(descendantsOf));
}

test.each(["start", "demo"])(
  "SIGTERM to npm run %s ends the gateway and frees its ports",
  async (script) => {
    const ports = [await findFreePort(), await findFreePort()] as const;
    const file = join(folder(), "gateway.yaml");
    writeFileSync(
      file,
      [
        `listen: { host: 127.0.0.1, port: ${ports[0]} }`,
        `operations: { host: 127.0.0.1, port: ${ports[1]} }`,
        "shutdown: { grace: 0s }",
        "upstreams: [{ name: a, urls: ['http://127.0.0.1:1'] }]",
      ].join("\n"),
    );
    const args =
      script === "start" ? ["--config", file] : ["--port", String(ports[0]), "--operations-port", String(ports[1])];
    const child = npm(["run", script, "--", ...args]);
    const ended = once(child, "exit");
    await until(async () => (await isAnswering(ports[0])) && (await isAnswering(ports[1])), 40_000);
    const gateway = descendantsOf(child.pid!);
    started.push(...gateway);
    expect(gateway.length).toBeGreaterThan(0);
    child.kill("SIGTERM");
    await ended;
    await until(() => !gateway.some(isRunning));
    expect([await isAnswering(ports[0]), await isAnswering(ports[1])]).toEqual([false, false]);
  },
  80_000,
);

test("a Node that is too old is told so in one line, and the exit code is 1", async () => {
  const { engines } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { engines: { node: string } };
  const needed = /^>=(\d+)\./.exec(engines.node)![1]!;
  const disguise = `data:text/javascript,${encodeURIComponent(
    `Object.defineProperty(process.versions, "node", { value: "${Number(needed) - 1}.9.9" });`,
  )}`;
  const child = spawn(process.execPath, ["--import", disguise, join(ROOT, "src/main.ts"), "check"], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let stderr = "";
  child.stderr.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
  const [code] = (await once(child, "close")) as [number];
  expect(code).toBe(1);
  expect(stderr).toBe(`registry-gateway: needs Node.js ${needed} or later, and this is ${Number(needed) - 1}.9.9\n`);
});
