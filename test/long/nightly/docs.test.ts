import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { basename, delimiter, dirname, join } from "node:path";
import { expect, test } from "vitest";
import { atEnd } from "../../support/closing.ts";
import { blocks } from "../../support/docs.ts";
import { expecting, FACTORY } from "../../support/endpoints.ts";
import { startGateway, temporaryFolder } from "../../support/gateway.ts";
import { Site } from "../../support/http.ts";
import { Child, run } from "../../support/process.ts";
import { ROOT } from "../../support/project.ts";
import { startRegistry } from "../../support/registry.ts";
import { until } from "../../support/until.ts";

/** The block of a page that begins so, as a shell gets it. */
function blockThatBegins(page: string, begin: string): string {
  const found = blocks().find((each) => each.page === page && each.text.startsWith(begin));
  if (found === undefined) throw new Error(`${page} has no block that begins with ${begin}`);
  return found.text;
}

/** A shell with the Node that runs the tests, and what it prints. */
function inShell(script: string, cwd: string): Child {
  const env = { PATH: `${dirname(process.execPath)}${delimiter}${process.env["PATH"]}` };
  return new Child(["-ec", script], { program: ["bash"], env, cwd });
}

test("README.md: a fresh clone has the demo run by its first line", async () => {
  const clone = join(temporaryFolder(), "clone");
  const isLeft = (path: string): boolean => !/^(node_modules|dist|\.git)$/.test(basename(path));
  cpSync(ROOT, clone, { recursive: true, filter: isLeft });
  const [line = ""] = blockThatBegins("README.md", "npm ci && npm run demo").split("#", 1);
  // The usual ports may be another's on the machine that runs the tests.
  const demo = inShell(`${line.trim()} -- --port 0 --operations-port 0`, clone);
  await until(() => {
    if (!demo.isRunning) throw new Error(`the demo ended:\n${demo.stdout}${demo.stderr}`);
    return demo.stdout.includes("Stop with Ctrl-C");
  }, 300_000);
  const [, url = ""] = /console {2}(\S+)/.exec(demo.stdout)!;
  expect((await new Site(new URL(url).origin).get("/console/")).status).toBe(200);
});

test("docs/wallets.md: a typed client is made of the gateway's own description", async () => {
  const gateway = await startGateway({ upstreams: [await startRegistry()] });
  const folder = temporaryFolder();
  const line = blockThatBegins("docs/wallets.md", "npx openapi-typescript").replace(
    "http://localhost:8080",
    gateway.url,
  );
  const made = inShell(line.replace("npx ", "npx --yes "), folder);
  expect([await made.ended, made.stderr]).toEqual([0, expect.not.stringContaining("✘")]);
  const types = readFileSync(join(folder, "registry.d.ts"), "utf8");
  expect(types).toContain('"/registry/metadata/v1/instruments"');
  expect(types).toContain("nextPageToken");
});

test("docs/operations.md: OpenTelemetry's own loader makes a span of a request, and one of each attempt below it", async () => {
  const spans: Span[] = [];
  const collector = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      spans.push(...spansOf(Buffer.concat(chunks)));
      response.end();
    });
  });
  collector.listen(0, "127.0.0.1");
  atEnd(() => collector.close());
  await until(() => collector.listening);
  const amulet = await startRegistry();
  const folder = temporaryFolder();
  const file = join(folder, "gateway.yaml");
  const listeners = "listen: { host: 127.0.0.1, port: 0 }\noperations: { port: 0 }\n";
  writeFileSync(file, `${listeners}upstreams: [{ name: amulet, urls: ["${amulet.url}"] }]\n`);
  mkdirSync(join(folder, "otel"));
  const script = blockThatBegins("docs/operations.md", "npm install --prefix /opt/otel")
    .replaceAll("/opt/otel", join(folder, "otel"))
    .replace("http://127.0.0.1:4318", `http://127.0.0.1:${(collector.address() as AddressInfo).port}`)
    .replace("registry-gateway start", `exec ${process.execPath} ${join(ROOT, "dist/main.js")} start`)
    .replace("/etc/registry-gateway/gateway.yaml", file);
  const built = await run(["run", "build"], { program: ["npm"], cwd: ROOT });
  expect(built.code).toBe(0);
  const env = "export OTEL_EXPORTER_OTLP_PROTOCOL=http/json OTEL_BSP_SCHEDULE_DELAY=200 OTEL_LOGS_EXPORTER=none\n";
  const gateway = inShell(env + script, folder);
  const url = await until(() => {
    if (!gateway.isRunning) throw new Error(`it ended:\n${gateway.stdout}${gateway.stderr}`);
    return /"url":"([^"]+)"/.exec(gateway.stdout)?.[1];
  }, 300_000);
  expect((await new Site(url).post(FACTORY, expecting(amulet.admin))).status).toBe(200);
  const [ofServer, ofClient] = [2, 3];
  await until(() => {
    const request = spans.find(({ name, kind }) => kind === ofServer && name.startsWith("POST"));
    return spans.some(({ kind, parentSpanId }) => kind === ofClient && parentSpanId === request?.spanId);
  });
});

interface Span {
  readonly name: string;
  readonly kind: number;
  readonly spanId: string;
  readonly parentSpanId?: string;
}

/** The spans of an export in JSON. */
function spansOf(body: Buffer): Span[] {
  const { resourceSpans = [] } = JSON.parse(body.toString()) as {
    resourceSpans?: { scopeSpans: { spans: Span[] }[] }[];
  };
  return resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans));
}
