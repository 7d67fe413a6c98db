import { execFileSync } from "node:child_process";
import { pbkdf2 } from "node:crypto";
import { once } from "node:events";
import { closeSync, constants, openSync, readSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { LogOutput } from "../../../src/observe/log-output.ts";
import { GatewayProcess } from "../../support/gateway-process.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { PROGRAM } from "../../support/program.ts";
import { useSampleRegistries } from "../../support/sample-registries.ts";
import { DSO } from "../../support/sample.ts";
import { send } from "../../support/send.ts";
import { useTemporaryFolder } from "../../support/temporary-folder.ts";
import { shareOf } from "../../support/thorough.ts";
import { until } from "../../support/until.ts";

const startRegistry = useSampleRegistries();
const temporaryFolder = useTemporaryFolder();

/** A pipe whose both ends are one file here, and that never blocks. */
const derive = promisify(pbkdf2);

function openPipe(): { readonly fd: number; readonly path: string } {
  const path = join(temporaryFolder(), "pipe");
  execFileSync("mkfifo", [path]);
  const fd = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  onTestFinished(() => closeSync(fd));
  return { fd, path };
}

function readPipe(fd: number): string {
  const block = Buffer.alloc(2 ** 20);
  try {
    return block.toString("latin1", 0, readSync(fd, block));
  } catch {
    return "";
  }
}

/** Lets the writes that are under way end. */
const pause = () => new Promise((resolve) => setTimeout(resolve, 20));

/** Reads on until that many lines are there: what is written waits for a thread, for how long a busy machine decides. */
async function drain(fd: number, clock: ManualClock, lines: number): Promise<string> {
  let text = "";
  await until(() => {
    text += readPipe(fd);
    clock.advance(1_000);
    return text.split("\n").length > lines;
  });
  return text;
}

test("a reader that stalls costs lines beyond a MiB, which are counted; those that stay are whole, and it goes on", async () => {
  const { fd } = openPipe();
  const clock = new ManualClock();
  const output = new LogOutput(clock, fd);
  const lineOf = (at: number): string => `${String(at).padStart(999, "0")}\n`;
  for (let at = 0; at < 2_000; at++) output.write(lineOf(at));
  await pause();
  for (let at = 2_000; at < 3_000; at++) output.write(lineOf(at));
  expect(output.dropped).toBeGreaterThan(500);
  const lines = (await drain(fd, clock, 3_000 - output.dropped)).split("\n").slice(0, -1).map(Number);
  expect(lines).toHaveLength(3_000 - output.dropped);
  expect(lines).toEqual(lines.toSorted((one, other) => one - other));
  output.write("on\n");
  expect(await drain(fd, clock, 1)).toBe("on\n");
});

test("at the end what waits is written, as far as it is taken", () => {
  const { fd } = openPipe();
  const output = new LogOutput(new ManualClock(), fd);
  output.write("last\n");
  output.flush();
  expect(readPipe(fd)).toBe("last\n");
  for (let at = 0; at < 500; at++) output.write("x".repeat(999));
  const before = performance.now();
  output.flush();
  expect(performance.now() - before).toBeLessThan(10_000);
});

// A line that a busy machine had not written yet came after the last one, or never.
test("at the end lines stay in order, though one is still being written", async () => {
  const { fd } = openPipe();
  // All of the threads that write have other work first.
  const busy = Array.from({ length: 16 }, () => derive("secret", "salt", 200_000, 32, "sha256"));
  const output = new LogOutput(new ManualClock(), fd);
  output.write(`${"first".padEnd(9_000)}\n`);
  output.write("last\n");
  await output.end();
  expect(readPipe(fd)).toMatch(/^first *\nlast\n$/);
  await Promise.all(busy);
});

/** A socket as the journal of systemd has it, of which nobody reads. */
async function stalledSocket(): Promise<Socket> {
  const path = join(temporaryFolder(), "journal");
  const server = createServer((reader) => reader.pause()).listen(path);
  onTestFinished(() => void server.close());
  const socket = connect(path);
  onTestFinished(() => void socket.destroy());
  await once(socket, "connect");
  return socket;
}

test("a full disk costs lines beyond a MiB, which are counted", async () => {
  const fd = openSync("/dev/full", constants.O_WRONLY);
  onTestFinished(() => closeSync(fd));
  const clock = new ManualClock();
  const output = new LogOutput(clock, fd);
  for (let at = 0; at < 2_000; at++) output.write(`${"x".repeat(999)}\n`);
  await pause();
  expect(output.dropped).toBeGreaterThan(500);
  expect(output.dropped).toBeLessThan(1_500);
});

const into = (path: string) => ["sh", "-c", `exec "$0" "$@" > ${path}`, process.execPath, PROGRAM];

/** The first one at each push, at night all. */
const STALLED: readonly [string, () => Promise<{ command?: string[]; stdout?: Socket }>][] = [
  ["a pipe whose reader stalls", async () => ({ command: into(openPipe().path) })],
  ["a full disk", async () => ({ command: into("/dev/full") })],
  ["a socket whose reader stalls", async () => ({ stdout: await stalledSocket() })],
];

test.each(shareOf(STALLED, 0, STALLED.length))(
  "with %s for its log a gateway starts, serves, says so and ends",
  async (_what, openTarget) => {
    const registry = await startRegistry();
    const gateway = await GatewayProcess.start(
      { cache: { ttl: { notFound: "0s" } }, upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url] }] },
      await openTarget(),
    );
    const path = `/registry/metadata/v1/instruments/${"x".repeat(10)}`;
    // The line of each miss is some 250 bytes.
    for (let i = 0; i < 36; i++) {
      const headers = { "x-request-id": "r".repeat(128) };
      const answers = await Promise.all(Array.from({ length: 100 }, () => send(gateway.url, { path, headers })));
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([404]));
    }
    const metrics = await (await fetch(`${gateway.operations}/metrics`)).text();
    expect(Number(/^registry_gateway_log_lines_dropped_total (\d+)/m.exec(metrics)?.[1])).toBeGreaterThan(0);
    expect((await fetch(`${gateway.operations}/livez`)).status).toBe(200);
    expect(await gateway.stop()).toBe(0);
  },
);
