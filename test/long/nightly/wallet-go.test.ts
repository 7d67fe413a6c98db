import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { startSandbox } from "../../../src/sandbox/sandbox.ts";
import { startGateway } from "../../support/gateway.ts";
import { GO, provideProgram } from "../../support/programs.ts";
import { useTemporaryFolder } from "../../support/temporary-folder.ts";
import { readWalletExamples } from "../../support/wallet-examples.ts";

const execute = promisify(execFile);
const temporaryFolder = useTemporaryFolder();

test("the Go program of the page runs as it is written", async () => {
  const go = provideProgram(GO);
  const folder = temporaryFolder();
  writeFileSync(join(folder, "main.go"), readWalletExamples().get("main.go")!);
  await using registry = await startSandbox({ admin: "amulet::1220aa", instruments: 5 });
  const { url, admin } = registry;
  const gateway = await startGateway({ upstreams: [{ name: "amulet", admin, urls: [url] }] });
  onTestFinished(() => gateway.stop());
  // Nothing of it comes from elsewhere.
  const env = { ...process.env, GATEWAY: gateway.url, HOME: folder, GOCACHE: join(folder, "cache"), GOPROXY: "off" };
  const run = async (...args: string[]) => (await execute(go, args, { cwd: folder, env, timeout: 300_000 })).stdout;
  await run("vet", "main.go");
  expect(await run("fmt", "main.go")).toBe("");
  expect(await run("run", "main.go", admin)).toBe("200 5 \n");
  expect(await run("run", "main.go", "nobody::1220")).toBe("404 0 admin_unknown\n");
}, 900_000);
