import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, it, test } from "vitest";
import { atEnd } from "../support/closing.ts";
import { until } from "../support/until.ts";

/** Writes 20,000 lines, says how many were left out, and at a word on standard input one more. */
const PROGRAM = `
import { createLog } from "${join(import.meta.dirname, "../../src/observe/log.ts")}";
const { log, droppedLines, flush } = createLog({ level: "info", hits: 0, addresses: false });
for (let i = 0; i < 20_000; i += 1) {
  log.info({ i, text: "x".repeat(300) }, "early");
  if (i % 100 === 0) await new Promise((resolve) => setImmediate(resolve));
}
process.stderr.write(String(droppedLines()));
process.stdin.once("data", async () => {
  log.info("late");
  await flush();
  process.exit(0);
});
`;

/** Writes a line at each word on standard input, and says how many were left out. */
const LINE_BY_LINE = `
import { createLog } from "${join(import.meta.dirname, "../../src/observe/log.ts")}";
const { log, droppedLines } = createLog({ level: "info", hits: 0, addresses: false });
process.stdin.on("data", () => {
  log.info("a line");
  process.stderr.write(droppedLines() + "\\n");
});
`;

/** Ends while a write is under way, with lines behind it. */
const ENDING = `
import { createLog } from "${join(import.meta.dirname, "../../src/observe/log.ts")}";
const { log, flush } = createLog({ level: "info", hits: 0, addresses: false });
for (let i = 0; i < 60; i += 1) log.info({ text: "x".repeat(300) }, "early");
log.info("last");
await flush();
process.exit(0);
`;

test("the log of a process that ends has its last line", async () => {
  const child = spawn(process.execPath, ["--input-type=module", "--eval", ENDING], { stdio: "pipe" });
  expect(await text(child.stdout)).toMatch(/"last"\}\n$/);
});

describe("a log that nobody reads", () => {
  it("whose reader is gone counts its lines as left out", async () => {
    const child = spawn(process.execPath, ["--input-type=module", "--eval", LINE_BY_LINE], { stdio: "pipe" });
    atEnd(() => child.kill("SIGKILL"));
    child.stdout.destroy();
    let dropped = 0;
    child.stderr.on("data", (chunk: Buffer) => (dropped = Number(chunk.toString().trimEnd().split("\n").at(-1))));
    await until(() => (child.stdin.write("go\n"), dropped > 3), 20_000);
  });

  it("that is on a full disk does not keep the process from its end", async () => {
    const full = openSync("/dev/full", "w");
    const child = spawn(process.execPath, ["--input-type=module", "--eval", PROGRAM], {
      stdio: ["pipe", full, "pipe"],
    });
    closeSync(full);
    atEnd(() => child.kill("SIGKILL"));
    await once(child.stderr!, "data");
    child.stdin!.write("go\n");
    await until(() => child.exitCode === 0, 20_000);
  });

  it("stops nothing: lines are left out and counted, and it goes on when it is read again", async () => {
    const child = spawn(process.execPath, ["--input-type=module", "--eval", PROGRAM], { stdio: "pipe" });
    atEnd(() => child.kill("SIGKILL"));
    let dropped = "";
    child.stderr.on("data", (chunk: Buffer) => (dropped += chunk.toString()));
    await until(() => dropped !== "");
    expect(Number(dropped)).toBeGreaterThan(10_000);

    let text = "";
    child.stdout.on("data", (chunk: Buffer) => (text += chunk.toString()));
    await until(() => text.split("\n").length > 2_000);
    child.stdin.write("go\n");
    const [code] = (await once(child, "close")) as [number];
    expect(code).toBe(0);
    const lines = text
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as { msg: string; i?: number });
    expect(lines.filter(({ msg }) => msg === "early")).toHaveLength(20_000 - Number(dropped));
    expect(lines.at(-1)?.msg).toBe("late");
  });
});
