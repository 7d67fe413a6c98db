import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { PinFile } from "../../../src/discovery/pin-file.ts";
import { useTemporaryFolder } from "../../support/temporary-folder.ts";
import { runs } from "../../support/thorough.ts";

const folder = useTemporaryFolder();

const SOURCE = join(import.meta.dirname, "../../../src/discovery/pin-file.ts");
const PINS = 400;
const KILLS = runs(1, 6);

/** Writes 400 pins of one version after the other, and says each that is written. */
const WRITER = `
import { PinFile } from ${JSON.stringify(SOURCE)};
const [path, first] = process.argv.slice(-2);
const file = new PinFile(path);
for (let version = Number(first); ; version += 1) {
  const urls = ["https://registry.example"];
  const pin = { name: "one", version, published: urls, urls, mended: [], refused: [], source: "a", since: "2026-01-01T00:00:00Z" };
  await file.write(Array.from({ length: ${PINS} }, (_, at) => ({ admin: "r" + at + "::1220aa", ...pin })));
  process.stdout.write(version + "\\n");
}`;

/** Resolves with the version that was said first after this, of many. */
async function nextLine(child: ChildProcess): Promise<number> {
  const [chunk] = (await once(child.stdout!, "data")) as [Buffer];
  return Number(chunk.toString().trim().split("\n").at(-1));
}

test("a process that is killed while it writes the file leaves it whole, and no older than it has said", async () => {
  const path = join(folder(), "pins.json");
  let version = 1;
  for (let kill = 0; kill < KILLS; kill += 1) {
    const args = ["--input-type=module", "--eval", WRITER, "--", path, String(version)];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    const ended = once(child, "close");
    // At another moment of the next write each time.
    const said = await nextLine(child);
    for (let turn = 0; turn < kill * 100; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    child.kill("SIGKILL");
    await ended;
    const pins = new PinFile(path).read()!;
    expect(pins).toHaveLength(PINS);
    expect(new Set(pins.map((pin) => pin.version)).size).toBe(1);
    expect(pins[0]!.version).toBeGreaterThanOrEqual(said);
    expect((statSync(path).mode & 0o777).toString(8)).toBe("600");
    version = pins[0]!.version + 1;
  }
  // What a kill left behind is beside it, and never read.
  expect(readdirSync(folder()).every((name) => name === "pins.json" || name.endsWith(".tmp"))).toBe(true);
});
