import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { stringify } from "yaml";
import { temporaryFolder } from "../../support/gateway.ts";
import { Child } from "../../support/process.ts";
import { readText, ROOT } from "../../support/project.ts";
import { startRegistry } from "../../support/registry.ts";
import { until } from "../../support/until.ts";

/**
 * The steps of the Dockerfile, each stage in a folder in the place of its root: there is no container engine on every machine, and a
 * file that the build needs and no COPY names is found this way. What the last stage runs is left out: it is of the image alone.
 */
function build(): string {
  const roots: string[] = [];
  const names = new Map<string, string>();
  const stages = readText("Dockerfile")
    .split(/^FROM /m)
    .slice(1);
  for (const [at, stage] of stages.entries()) {
    const root = temporaryFolder();
    roots.push(root);
    names.set(/ AS (\w+)/.exec(stage)?.[1] ?? "last", root);
    let folder = root;
    for (const line of stage.split("\n")) {
      const [instruction, ...args] = line.split(" ");
      if (instruction === "WORKDIR") mkdirSync((folder = join(root, args[0]!)), { recursive: true });
      if (instruction === "COPY") copy(args, folder, names);
      if (instruction === "RUN" && at < stages.length - 1) shell(args.join(" "), folder);
    }
  }
  return roots.at(-1)!;
}

function copy(args: readonly string[], folder: string, names: ReadonlyMap<string, string>): void {
  const stage = args.find((each) => each.startsWith("--from="));
  const from = stage === undefined ? ROOT : names.get(stage.slice("--from=".length))!;
  const files = args.filter((each) => each !== stage);
  const target = files.pop()!;
  for (const file of files) {
    cpSync(join(from, file), target.endsWith("/") ? join(folder, file) : join(folder, target), { recursive: true });
  }
}

function shell(command: string, cwd: string): void {
  const env = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env["PATH"]}` };
  execFileSync("/bin/sh", ["-c", command], { cwd, env, stdio: ["ignore", "ignore", "inherit"] });
}

let app = "";
beforeAll(() => {
  const root = build();
  for (const folder of [root, (app = join(root, "app"))]) chmodSync(folder, 0o755);
});

test("the image holds what runs: the program and its production dependencies", () => {
  const files = execFileSync("find", [".", "-name", "node_modules", "-prune", "-o", "-type", "f", "-print"], {
    cwd: app,
    encoding: "utf8",
  });
  const kinds = files.split("\n").map((file) => file.split("/").slice(1, 3).join("/"));
  expect(kinds).toContain("dist/main.js");
  expect(kinds).toContain("dist/console");
  expect(files).not.toMatch(/\.test\.|^\.\/(src|test|tools)\//m);
  expect(spawnSync("ls", [join(app, "node_modules/vitest")]).status).not.toBe(0);
});

test("it serves as user 1000 with its own command, and its health check needs no good configuration", async () => {
  const amulet = await startRegistry("amulet");
  const folder = temporaryFolder();
  chmodSync(folder, 0o755);
  const env = { GATEWAY_CONFIG: join(folder, "gateway.yaml") };
  const listeners = { listen: { host: "127.0.0.1", port: 0 }, operations: { host: "127.0.0.1", port: 0 } };
  writeFileSync(env.GATEWAY_CONFIG, stringify({ ...listeners, upstreams: [amulet.upstream()] }));
  const [, ...entry] = JSON.parse(/^ENTRYPOINT (.*)$/m.exec(readText("Dockerfile"))![1]!) as string[];
  // Who is not root is without rights already.
  const user = process.getuid!() === 0 ? ["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups"] : [];
  const child = new Child([...entry, "start"], { program: [...user, process.execPath], cwd: app, env });
  const url = await until(() => {
    if (!child.isRunning) throw new Error(child.stdout + child.stderr);
    return child.lines.find(({ operationsUrl }) => operationsUrl !== undefined)?.["operationsUrl"] as
      | string
      | undefined;
  });
  const [, check = ""] = /^HEALTHCHECK .* CMD \["node", "-e", "(.*)"\]$/m.exec(readText("Dockerfile"))!;
  writeFileSync(env.GATEWAY_CONFIG, "operations: [");
  await until(() => child.lines.some(({ msg }) => msg === "configuration refused: what runs stays"));
  const isHealthy = (port: string): boolean => {
    const script = check.replace("/app/", `${app}/`);
    return (
      spawnSync(process.execPath, ["-e", script], { env: { ...process.env, ...env, OPERATIONS_PORT: port } }).status ===
      0
    );
  };
  expect(isHealthy(new URL(url).port)).toBe(true);
  child.signal("SIGINT");
  expect(await child.ended).toBe(0);
  expect(isHealthy(new URL(url).port)).toBe(false);
});
