import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { printLine, printLines } from "../../../src/commands/terminal.ts";
import { toPrintable } from "../../../src/words/printable.ts";
import { runHere, useCommands } from "../../support/command.ts";

const run = useCommands();

/** What a terminal acts on instead of showing it; line breaks and the escapes of the text's own apart. */
const DANGEROUS = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;

/** Clears the screen, sets the title, turns the direction, begins a line of its own, and is invisible. */
const EVIL = "\u001b[2J\u001b]0;owned\u0007\u009b31mgood\u202e::1220\r\nb: admin good\u2028\u200b\u{e0041}";

test.each([
  ["plain::1220ab", "plain::1220ab"],
  ["Grüße → 株式", "Grüße → 株式"],
  ["a\u001b[31mb", String.raw`a\u001b[31mb`],
  ["a\nb\tc\u007f", String.raw`a\u000ab\u0009c\u007f`],
  ["\u009b31m", String.raw`\u009b31m`],
  ["a\u202eb\u2066c\u200bd\ufeff", String.raw`a\u202eb\u2066c\u200bd\ufeff`],
  ["\ud800", String.raw`\ud800`],
  ["\u{e0041}", String.raw`\udb40\udc41`],
])("%j is shown as %s", (text, shown) => {
  expect(toPrintable(text)).toBe(shown);
});

test("a line stays one line, and several stay as many", () => {
  let printed = "";
  const output = { write: (text: string | Uint8Array) => ((printed += String(text)), true) };
  printLine("a\nb", output);
  printLines("a\nb\n", output);
  expect(printed).toBe(String.raw`a\u000ab` + "\na\nb\n");
});

describe("what a registry says does not reach the operator's terminal as it is:", () => {
  async function startEvil(body: unknown): Promise<string> {
    const server = createServer((_request, response) => response.end(JSON.stringify(body)));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => server.closeAllConnections());
    onTestFinished(() => void server.close());
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  function write(name: string, text: string): string {
    const folder = mkdtempSync(join(tmpdir(), "terminal-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  }

  async function outputOf(args: readonly string[]): Promise<string> {
    const { stdout, stderr } = await runHere(args);
    return stdout + stderr;
  }

  function expectHarmless(output: string): void {
    for (const line of output.split("\n")) expect(line).not.toMatch(DANGEROUS);
    expect(output).not.toMatch(/^b: admin good/m);
  }

  const INFO = { adminId: EVIL, supportedApis: {} };

  test("check --live", async () => {
    const url = await startEvil(INFO);
    const file = write("gateway.yaml", `upstreams: [{ name: a, urls: ["${url}"] }]\n`);
    const output = await outputOf(["check", "--live", "--config", file]);
    expect(output).toContain(`a ${url}: `);
    expectHarmless(output);
  });

  test("start with --upstream, which prints the admins that it learns", async () => {
    const url = await startEvil(INFO);
    const command = run(["start", "--upstream", url, "--port", "0"]);
    await command.printed(/"msg":"listening"/);
    command.signal("SIGINT");
    await command.ended;
    expectHarmless(command.stderr);
  });

  test("explain", async () => {
    const url = await startEvil({ stored: EVIL });
    const output = await outputOf(["explain", "/x", "--url", url, "--json"]);
    expectHarmless(output);
    expect(JSON.parse(output)).toEqual({ stored: EVIL });
    const inWords = await startEvil({ upstream: EVIL, admin: EVIL, operation: EVIL, cached: false, reason: EVIL });
    const words = await outputOf(["explain", "/x", "--url", inWords]);
    expect(words).toContain("Never answered from the cache");
    expectHarmless(words);
  });

  test("status, nodes and upstreams", async () => {
    const measured = { latencyMs: 1, inFlight: 0, ejections: 0, weight: 1 };
    const node = { url: EVIL, state: EVIL, lastError: EVIL, cordoned: false, ...measured };
    const numbers = { running: 0, queued: 0, retriesLeft: 0, budgetLeft: null };
    const words = { name: EVIL, admin: EVIL, state: EVIL, mode: EVIL, lastError: `x${EVIL}`, breaker: EVIL };
    const lastDifference = { operation: EVIL, nodes: [[0], [1]], parts: [EVIL], at: EVIL };
    const finding = { severity: EVIL, text: EVIL, since: EVIL };
    const action = {
      upstream: EVIL,
      node: 0,
      url: EVIL,
      state: "cordoned",
      weight: null,
      mode: EVIL,
      reason: EVIL,
      until: EVIL,
    };
    const url = await startEvil({
      version: EVIL,
      uptimeSeconds: 1,
      replica: { name: EVIL, revision: EVIL },
      cache: { memory: { entries: 0, bytes: 0, maxBytes: 0 } },
      redis: { configured: true, state: "away", lastError: EVIL, pendingPurges: 0 },
      health: { sentence: EVIL, findings: [finding, finding] },
      inForce: [action],
      upstreams: [{ ...words, ...numbers, lastDifference, nodes: [node] }],
    });
    for (const command of ["status", "nodes", "upstreams"]) {
      for (const more of [[], ["--json"]]) {
        const output = await outputOf([command, "--url", url, ...more]);
        expect(output).toContain("owned");
        expectHarmless(output);
      }
    }
  });

  test("import, with --verify and without", async () => {
    const url = await startEvil(INFO);
    const assets = [
      { symbol: "evil", instrumentId: { admin: EVIL }, registryURLs: [url] },
      { symbol: EVIL, registryURLs: [url, EVIL] },
    ];
    const file = write("list.json", JSON.stringify({ [EVIL]: assets }));
    for (const more of [[], ["--verify", "--allow-private"]]) {
      const output = await outputOf(["import", file, ...more]);
      expect(output).toContain("upstreams:");
      expectHarmless(output);
    }
    expectHarmless(await outputOf(["import", write("list.json", `{"MainNet": ${EVIL}`)]));
  });
});
