import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { FileWatcher } from "../../src/config/watched-files.ts";
import { Reloader } from "../../src/commands/reloader.ts";
import { parseConfig } from "../../src/config/parse.ts";
import type { Config } from "../../src/config/schema.ts";
import { createLogger } from "../../src/observe/log.ts";
import { createMetrics } from "../../src/observe/metrics.ts";
import { passWithLooks } from "../support/looks.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { until } from "../support/until.ts";
import { useTemporaryFolder } from "../support/temporary-folder.ts";

const folder = useTemporaryFolder();

const FIRST = "upstreams: [{ name: amulet, urls: ['http://127.0.0.1:1'] }]\n";
const SECOND = `cache: { maxTtl: { info: 1h } }\n${FIRST}`;
const BAD = `cache: { maxTtl: { info: soon } }\n${FIRST}`;

interface Scene {
  readonly file: string;
  readonly reloader: Reloader;
  /** What was put to use, the latest last. */
  readonly applied: Config[];
  readonly lines: Record<string, unknown>[];
  refusal: Error | undefined;
  metric(name: string): Promise<number | undefined>;
  /** Lets time pass, with two looks at the file each second. */
  look(seconds: number): Promise<void>;
}

let scene: Scene;

function setUp(file: string): Scene {
  const { config } = parseConfig({ text: FIRST, file, env: {} });
  const { metrics, registry } = createMetrics();
  const lines: Record<string, unknown>[] = [];
  const applied: Config[] = [];
  const clock = new ManualClock();
  const files = new FileWatcher(clock);
  const reloader = new Reloader({
    file,
    text: FIRST,
    env: {},
    target: {
      get config() {
        return applied.at(-1) ?? config!;
      },
      async reload(next) {
        if (made.refusal !== undefined) throw made.refusal;
        applied.push(next);
      },
    },
    log: createLogger("info", { destination: { write: (line: string) => void lines.push(JSON.parse(line)) } }),
    metrics,
    files,
    clock,
  });
  const made: Scene = {
    file,
    reloader,
    applied,
    lines,
    refusal: undefined,
    async metric(name) {
      const text = await registry.metrics();
      const line = text.split("\n").find((each) => each.startsWith(`registry_gateway_${name} `));
      return line === undefined ? undefined : Number(line.split(" ")[1]);
    },
    look: (seconds) => passWithLooks(files, clock, seconds),
  };
  return made;
}

beforeEach(() => {
  const file = join(folder(), "gateway.yaml");
  writeFileSync(file, FIRST);
  scene = setUp(file);
  scene.reloader.start();
});

afterEach(() => scene.reloader.stop());

test("a file that stays as it is is not put to use again", async () => {
  await scene.look(3);
  await scene.reloader.reload("signal");
  expect(scene.applied).toEqual([]);
  expect(scene.lines.map(({ msg }) => msg)).toEqual(["configuration unchanged"]);
  expect(await scene.metric('config_reloads_total{result="unchanged"}')).toBe(1);
});

test.for<readonly [how: string, write: (file: string, text: string) => void]>([
  ["is written in place", (file, text) => writeFileSync(file, text)],
  [
    "is renamed over",
    (file, text) => {
      writeFileSync(`${file}.new`, text);
      renameSync(`${file}.new`, file);
    },
  ],
  [
    "was removed and is there again",
    (file, text) => {
      rmSync(file);
      writeFileSync(file, text);
    },
  ],
])("a file that %s is put to use", async ([, write]) => {
  write(scene.file, SECOND);
  await scene.look(2);
  await until(() => scene.applied.length === 1);
  expect(scene.applied[0]!.cache.maxTtl.info).toBe(3_600_000);
  expect(scene.lines).toMatchObject([{ msg: "configuration reloaded", cause: "file", changed: ["cache.maxTtl.info"] }]);
  expect(await scene.metric("config_last_reload_successful")).toBe(1);
});

test("a file behind symbolic links that are swapped, as Kubernetes does with a ConfigMap, is put to use", async () => {
  scene.reloader.stop();
  const root = join(folder(), "mounted");
  for (const [version, text] of [
    ["..2026_1", FIRST],
    ["..2026_2", SECOND],
  ] as const) {
    mkdirSync(join(root, version), { recursive: true });
    writeFileSync(join(root, version, "gateway.yaml"), text);
  }
  symlinkSync("..2026_1", join(root, "..data"));
  symlinkSync("..data/gateway.yaml", join(root, "gateway.yaml"));
  scene = setUp(join(root, "gateway.yaml"));
  scene.reloader.start();
  await scene.look(2);
  expect(scene.applied).toEqual([]);

  symlinkSync("..2026_2", join(root, "..data_tmp"));
  renameSync(join(root, "..data_tmp"), join(root, "..data"));
  await scene.look(2);
  await until(() => scene.applied.length === 1);
});

test("a file that is just being written is not looked at before it stays the same", async () => {
  for (const text of ["upstreams:", FIRST.slice(0, 20), BAD]) {
    writeFileSync(scene.file, text);
    await scene.look(0.5);
  }
  writeFileSync(scene.file, SECOND);
  await scene.look(2);
  await until(() => scene.applied.length === 1);
  expect(scene.lines.map(({ msg }) => msg)).toEqual(["configuration reloaded"]);
});

test("a bad file leaves everything as it is, says what is wrong where, and says so once", async () => {
  writeFileSync(scene.file, BAD);
  await scene.look(6);
  expect(scene.applied).toEqual([]);
  expect(scene.lines).toMatchObject([
    {
      level: "error",
      msg: "configuration refused: the one in use stays",
      problems: [{ line: 1, path: "cache.maxTtl.info" }],
    },
  ]);
  expect(await scene.metric("config_last_reload_successful")).toBe(0);
  expect(await scene.metric('config_reloads_total{result="refused"}')).toBe(1);

  writeFileSync(scene.file, FIRST);
  await scene.look(2);
  await until(() => scene.lines.length === 2);
  expect(await scene.metric("config_last_reload_successful")).toBe(1);
});

test("a bad file is reported without the secret that makes it one", async () => {
  writeFileSync(scene.file, `operations: { token: !Tr0ub4dor3 }\n${FIRST}`);
  await scene.look(6);
  expect(scene.lines).toHaveLength(1);
  expect(JSON.stringify([scene.lines, scene.reloader.last])).not.toContain("Tr0ub");
});

test("a file that is gone is refused like a bad one", async () => {
  rmSync(scene.file);
  await scene.look(4);
  expect(scene.lines).toMatchObject([{ problems: [{ message: "the file cannot be read" }] }]);
  expect(await scene.metric("config_last_reload_successful")).toBe(0);
});

test("a configuration that cannot be put to use is tried again at the next signal", async () => {
  scene.refusal = new Error("ENOENT: no such file");
  writeFileSync(scene.file, SECOND);
  await scene.reloader.reload("signal");
  expect(await scene.metric("config_last_reload_successful")).toBe(0);
  scene.refusal = undefined;
  await scene.reloader.reload("signal");
  expect(scene.applied.length).toBe(1);
  expect(await scene.metric("config_last_reload_successful")).toBe(1);
});

test("what needs a restart is named and stays, the rest is put to use", async () => {
  writeFileSync(
    scene.file,
    `listen: { port: 1234 }\nrouting: { prefix: /other, plain: 'off' }\nredis: { url: 'redis://127.0.0.1:1' }\n${SECOND}`,
  );
  await scene.reloader.reload("signal");
  const [config] = scene.applied;
  expect(config).toMatchObject({ listen: { port: 8080 }, routing: { plain: "off" } });
  expect(config!.routing.prefix).toBe("/api/token-standard/v0/registrars");
  expect(config!.cache.maxTtl.info).toBe(3_600_000);
  expect(config).not.toHaveProperty("redis");
  const [reloaded, restart] = scene.lines;
  expect(reloaded).toMatchObject({ changed: ["routing.plain", "cache.maxTtl.info"] });
  expect(restart).toMatchObject({ level: "warn" });
  expect(restart!["changed"]).toEqual(expect.arrayContaining(["listen.port", "routing.prefix", "redis.url"]));
});

describe("a configuration that waits for a file that it names", () => {
  const withToken = (file: string) => `operations: { tokenFile: ${file} }\n${SECOND}`;

  test("is refused, and put to use when the file appears", async () => {
    const token = join(folder(), "token");
    writeFileSync(scene.file, withToken(token));
    await scene.look(3);
    expect(scene.lines).toMatchObject([{ problems: [{ path: "operations.tokenFile" }] }]);
    await scene.look(5);
    expect(scene.lines).toHaveLength(1);
    expect(await scene.metric("config_last_reload_successful")).toBe(0);

    writeFileSync(token, "s3cret\n");
    await scene.look(2);
    await until(() => scene.applied.length === 1);
    expect(scene.applied[0]!.cache.maxTtl.info).toBe(3_600_000);
    expect(await scene.metric("config_last_reload_successful")).toBe(1);
  });

  test("is tried again when the file changes, and refused as long as it is no good", async () => {
    const token = join(folder(), "token");
    writeFileSync(token, "two\nlines\n");
    writeFileSync(scene.file, withToken(token));
    await scene.look(3);
    writeFileSync(token, "two\nother lines\n");
    await scene.look(3);
    expect(scene.lines).toMatchObject([{ level: "error" }, { level: "error" }]);
    writeFileSync(token, "one\n");
    await scene.look(2);
    await until(() => scene.applied.length === 1);
  });

  test("is tried once for each change, however often it was refused before", async () => {
    const token = join(folder(), "token");
    const amulet = `  - { name: amulet, urls: ['http://127.0.0.1:1'], auth: { bearerTokenFile: ${token} } }\n`;
    scene.refusal = new Error("no such tier");
    writeFileSync(scene.file, `upstreams:\n${amulet}  - { name: other, urls: ['http://127.0.0.1:2'] }\n`);
    await scene.look(3);
    for (let i = 1; i <= 5; i += 1) {
      writeFileSync(token, "two\n".repeat(i + 1));
      await scene.look(3);
    }
    expect(scene.lines).toHaveLength(6);
  });

  test("is put to use but for the registry whose file is no good, and tried again when that is there", async () => {
    const token = join(folder(), "token");
    const other = "  - { name: other, urls: ['http://127.0.0.1:2'] }\n";
    const amulet = `  - { name: amulet, urls: ['http://127.0.0.1:1'], auth: { bearerTokenFile: ${token} } }\n`;
    writeFileSync(scene.file, `upstreams:\n${amulet}${other}`);
    await scene.look(2);
    await until(() => scene.lines.length === 2);
    expect(scene.applied.at(-1)!.upstreams.map(({ name }) => name)).toEqual(["amulet", "other"]);
    expect(scene.lines).toMatchObject([
      { msg: "configuration reloaded" },
      { level: "error", problems: [{ line: 2, path: "upstreams[0].auth.bearerTokenFile" }] },
    ]);
    await scene.look(4);
    expect(scene.applied).toHaveLength(1);
    writeFileSync(token, "s3cret\n");
    await scene.look(2);
    await until(() => scene.applied.length === 2);
    await scene.look(4);
    expect(scene.applied).toHaveLength(2);
  });
});

describe("a file that may be half of one that is being written waits for a second look:", () => {
  const upstream = (name: string, port: number) => `  - { name: ${name}, urls: ['http://127.0.0.1:${port}'] }\n`;
  const TWO = `docs: true\nupstreams:\n${upstream("amulet", 1)}${upstream("bonds", 2)}cors: { origins: [] }\n`;

  test.for<readonly [what: string, half: string]>([
    [
      "one without an upstream that is in use",
      `docs: true\nupstreams:\n${upstream("amulet", 1)}${upstream("x", 3)}${upstream("y", 4)}`,
    ],
    ["one with fewer keys", TWO.slice(0, TWO.indexOf("cors"))],
    ["one that ends within a line", `${TWO}log: { hits: 0 }`],
    ["one that ends within a structure", `${TWO}log: { hits: 0,\n`],
    ["one whose last key lacks its value", `${TWO}${upstream("c", 3).replace(/urls.*/s, "urls:\n")}`],
  ])("%s", async ([, half]) => {
    writeFileSync(scene.file, TWO);
    await scene.look(2);
    await until(() => scene.applied.length === 1);
    scene.lines.length = 0;

    writeFileSync(scene.file, half);
    await scene.look(4);
    expect([scene.applied.length, scene.lines]).toEqual([1, []]);
    writeFileSync(scene.file, `${TWO}log: { hits: 0.5 }\n`);
    await scene.look(2);
    await until(() => scene.applied.length === 2);
    expect(scene.applied[1]!.log.hits).toBe(0.5);
    expect(scene.lines.map(({ msg }) => msg)).toEqual(["configuration reloaded"]);
  });

  test("one that stays so is meant so", async () => {
    writeFileSync(scene.file, TWO);
    await scene.look(2);
    await until(() => scene.applied.length === 1);
    writeFileSync(scene.file, FIRST);
    await scene.look(7);
    await until(() => scene.applied.length === 2);
    expect(scene.applied[1]!.upstreams).toHaveLength(1);
  });
});
