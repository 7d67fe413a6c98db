import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
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

describe("a log that nobody reads", () => {
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
