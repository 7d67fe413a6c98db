import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { useSampleRegistries } from "../../support/sample-registries.ts";
import { DSO, pemFile, UTILITY_ADMIN } from "../../support/sample.ts";
import { startRedis } from "../../support/redis.ts";
import { type Command, type Outcome, runHere, useCommands } from "../../support/command.ts";
import { useTemporaryFolder } from "../../support/temporary-folder.ts";

const run = useCommands();
const folder = useTemporaryFolder();
const startRegistry = useSampleRegistries();

const VERSION = (
  JSON.parse(readFileSync(new URL("../../../package.json", import.meta.url), "utf8")) as { version: string }
).version;

const ANY_PORTS = "listen: { host: 127.0.0.1, port: 0 }\noperations: { host: 127.0.0.1, port: 0 }\n";

function fileWith(text: string): string {
  const file = join(folder(), "gateway.yaml");
  writeFileSync(file, text);
  return file;
}

/** Exit code and both outputs of a command that ends by itself. */
async function outcomeOf(command: Command): Promise<Outcome> {
  const code = await command.ended;
  return { code, stdout: command.stdout, stderr: command.stderr };
}

describe("a command line", () => {
  test.each([["--help"], ["-h"], ["start", "--help"], ["demo", "-h"]])(
    "%s %s explains all commands",
    async (...args) => {
      const { code, stdout, stderr } = await runHere(args);
      expect([code, stderr]).toEqual([0, ""]);
      for (const command of [
        "start",
        "check",
        "demo",
        "explain",
        "import",
        "status",
        "purge",
        "nodes",
        "--upstream",
        "--live",
        "78",
      ]) {
        expect(stdout).toContain(command);
      }
    },
  );

  test("ends the process with its code", async () => {
    expect(await outcomeOf(run(["nonsense"]))).toMatchObject({ code: 1, stdout: "" });
  });

  test("--version prints the version of the package, and the commit that was built", async () => {
    const stdout = expect.stringMatching(new RegExp(`^${VERSION.replaceAll(".", "\\.")}( \\([0-9a-f]{12}\\))?\n$`));
    expect(await runHere(["--version"])).toEqual({ code: 0, stdout, stderr: "" });
  });

  test.each([
    [["nonsense"], "nonsense"],
    [["constructor"], "there is no command constructor"],
    [["toString", "more"], "there is no command toString"],
    [["nodes", "constructor", "amulet", "0"], "nodes takes nothing"],
    [["start", "more"], "argument"],
    [["--nonsense"], "--nonsense"],
    [["start", "--port", "8080"], "--upstream"],
    [["start", "--config", "x.yaml", "--upstream", "http://127.0.0.1:1"], "exclude"],
    [["--upstream", "http://127.0.0.1:1", "--port", "70000"], "--port"],
    [["explain"], "argument"],
    [["demo", "--port"], "--port"],
    [["demo", "--port", "9090"], "both 9090"],
  ])("%j is not understood: exit 1, and says why", async (args, why) => {
    const { code, stdout, stderr } = await runHere(args);
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toContain("registry-gateway: ");
    expect(stderr).toContain(why);
    expect(stderr).toContain("--help");
  });
});

const BAD: readonly [string, string, string][] = [
  ["no YAML", "upstreams: [", "gateway.yaml"],
  ["an unknown key", "upstreams: [{ name: a, urls: ['http://127.0.0.1:1'], colour: red }]\n", "colour"],
  [
    "a missing secret",
    "upstreams: [{ name: a, urls: ['http://127.0.0.1:1'], auth: { bearerTokenFile: /nowhere/x } }]\n",
    "bearerTokenFile",
  ],
];

describe("a bad configuration", () => {
  test.each(BAD)("of %s ends check with 78, and it says where", async (_what, text, where) => {
    const { code, stderr } = await runHere(["check", "--config", fileWith(text)]);
    expect([code, stderr]).toEqual([78, expect.stringContaining(where)]);
  });

  test("is reported without the secret that makes it one", async () => {
    const file = fileWith(
      "upstreams: [{ name: a, urls: ['http://127.0.0.1:1'], auth: { bearerToken: *Tr0ub4dor3 } }]\n",
    );
    const [started, checked, data] = await Promise.all([
      outcomeOf(run(["start", "--config", file])),
      outcomeOf(run(["check", "--config", file])),
      outcomeOf(run(["check", "--json", "--config", file])),
    ]);
    for (const { code, stdout, stderr } of [started, checked, data]) {
      expect([code, stdout + stderr]).toEqual([78, expect.stringContaining("no such anchor")]);
      expect(stdout + stderr).not.toContain("Tr0ub");
    }
  });

  test("that is missing ends start and check with 78, and names the file that was looked for", async () => {
    const file = join(folder(), "nowhere.yaml");
    const [started, checked] = await Promise.all([
      outcomeOf(run(["start"], { GATEWAY_CONFIG: file })),
      runHere(["check"], { GATEWAY_CONFIG: file }),
    ]);
    for (const { code, stderr } of [started, checked]) {
      expect([code, stderr]).toEqual([78, expect.stringContaining("nowhere.yaml")]);
    }
    for (const line of started.stdout.trimEnd().split("\n")) expect(JSON.parse(line)).toHaveProperty("level");
  });

  test("has all its problems told at once", async () => {
    const file = fileWith("docs: none\nlog: { level: loud }\nupstreams: [{ name: a, urls: ['nonsense'] }]\n");
    const { code, stderr } = await runHere(["check", "--config", file]);
    expect(code).toBe(78);
    for (const where of ["docs", "log.level", "urls"]) expect(stderr).toContain(where);
    for (const line of [1, 2, 3]) expect(stderr).toMatch(new RegExp(`gateway\\.yaml:${line}\\b`));
  });
});

describe("check", () => {
  test("says when the certificates that it names end, and warns of one that has", async () => {
    const tls = (name: string, key: string) => `{ certFile: ${pemFile(name)}, keyFile: ${pemFile(key)} }`;
    const config = (name: string, key: string) =>
      fileWith(
        `listen: { tls: ${tls(name, key)} }\nupstreams: [{ name: a, urls: [https://a.example], tls: ${tls("client", "client-key")} }]\n`,
      );
    const ended = await runHere(["check", "--config", config("ended", "ended-key")]);
    expect(ended.code).toBe(0);
    expect(ended.stdout).toContain("listen.tls.certFile: ends on 2021-01-01T00:00:00.000Z");
    expect(ended.stdout).toContain("warning: listen.tls.certFile: has ended on 2021-01-01T00:00:00.000Z");
    expect(ended.stdout).toMatch(/upstreams\[a\]\.tls\.certFile: ends on 2126-/);
    const good = await runHere(["check", "--json", "--config", config("server", "server-key")]);
    const report = JSON.parse(good.stdout) as { certificates: object[]; warnings: string[] };
    expect(report.certificates).toHaveLength(2);
    expect(report.warnings.filter((warning) => warning.includes("certFile"))).toEqual([]);
  });

  test("says that a good file is good, and prints it without secrets", async () => {
    const file = fileWith(
      "upstreams: [{ name: a, urls: ['http://127.0.0.1:1'], auth: { bearerToken: very-secret } }]\n",
    );
    const plain = await runHere(["check", "--config", file]);
    expect(plain.code).toBe(0);
    expect(plain.stdout).toContain("good");
    expect(plain.stdout).toMatch(/^memory: about [0-9]+ MiB at full load; limit the process to [0-9]+ MiB$/m);
    const printed = await runHere(["check", "--config", file, "--print"]);
    expect(printed.code).toBe(0);
    expect(printed.stdout).toContain("keepAliveTimeout");
    expect(printed.stdout).not.toContain("very-secret");
  });

  test("takes the file from the environment", async () => {
    const file = fileWith("upstreams: [{ name: a, urls: ['${WHERE:-http://127.0.0.1:1}'] }]\n");
    expect((await runHere(["check"], { GATEWAY_CONFIG: file })).code).toBe(0);
  });

  test("--json prints one object for scripts: problems, warnings, and what else was asked for", async () => {
    const entry = "upstreams: [{ name: a, urls: ['http://127.0.0.1:1'], auth: { bearerToken: very-secret } }]\n";
    const good = fileWith(`log: { level: debug }\n${entry}`);
    const old = join(folder(), "old.yaml");
    writeFileSync(old, entry);
    const well = await runHere(["check", "--json", "--print", "--diff", old, "--config", good]);
    expect([well.code, well.stderr]).toEqual([0, ""]);
    expect(JSON.parse(well.stdout)).toMatchObject({
      file: good,
      good: true,
      problems: [],
      memory: { underLoadMiB: expect.any(Number), limitMiB: expect.any(Number) },
      warnings: expect.arrayContaining([expect.stringContaining("upstreams[a].admin is not set")]),
      changes: [{ path: "log.level", before: "info", after: "debug", effect: "reload" }],
      config: { log: { level: "debug" }, upstreams: [{ auth: { bearerToken: "***" } }] },
    });
    expect(well.stdout).not.toContain("very-secret");

    const registry = await startRegistry();
    const wrong = `upstreams: [{ name: amulet, admin: "${UTILITY_ADMIN}", urls: ["${registry.url}"] }]\n`;
    const ill = await runHere(["check", "--json", "--live", "--config", fileWith(wrong)]);
    expect(ill.code).toBe(78);
    expect(JSON.parse(ill.stdout)).toMatchObject({ good: false, live: [expect.stringContaining("amulet")] });

    const bad = await runHere(["check", "--json", "--config", fileWith("docs: none\nupstreams: []\n")]);
    expect([bad.code, bad.stderr]).toEqual([78, ""]);
    expect(JSON.parse(bad.stdout)).toMatchObject({
      good: false,
      problems: [
        { line: 1, path: "docs", message: expect.any(String) },
        { line: 2, path: "upstreams", message: expect.any(String) },
      ],
    });
    const missing = await runHere(["check", "--json", "--config", join(folder(), "nowhere.yaml")]);
    expect([missing.code, JSON.parse(missing.stdout)]).toEqual([
      78,
      expect.objectContaining({
        good: false,
        problems: [expect.objectContaining({ message: "there is no such file" })],
      }),
    ]);
  });

  test("--live asks each node, and is 78 when one is not well", async () => {
    const registry = await startRegistry();
    const good = fileWith(`upstreams: [{ name: amulet, admin: "${DSO}", urls: ["${registry.url}"] }]\n`);
    const well = await runHere(["check", "--live", "--config", good]);
    expect([well.code, well.stderr]).toEqual([0, ""]);
    expect(well.stdout).toContain("amulet");
    const bad = fileWith(`upstreams: [{ name: amulet, admin: "${UTILITY_ADMIN}", urls: ["${registry.url}"] }]\n`);
    const ill = await runHere(["check", "--live", "--config", bad]);
    expect(ill.code).toBe(78);
    expect(ill.stdout).toContain("amulet");
  });

  test.each([
    ["refuses every listing is not well", 401, 78, "takes no page size of 1000, 100, 25: it answered 401"],
    ["breaks off every listing is not well", 0, 78, "sends no listing: "],
    ["was asked too much is well", 429, 0, "says nothing of page sizes (429)"],
  ])("--live: a node that proves its admin and %s", async (_what, status, code, said) => {
    const registry = createHttpServer(({ url }, response) => {
      if (url!.endsWith("/info")) response.end(JSON.stringify({ adminId: DSO, supportedApis: {} }));
      else if (status === 0) response.destroy();
      else response.writeHead(status).end("{}");
    });
    await new Promise<void>((resolve) => registry.listen(0, "127.0.0.1", resolve));
    const { port } = registry.address() as AddressInfo;
    const file = fileWith(`upstreams: [{ name: amulet, admin: "${DSO}", urls: ["http://127.0.0.1:${port}"] }]\n`);
    const ended = await runHere(["check", "--live", "--config", file]);
    registry.closeAllConnections();
    registry.close();
    expect([ended.code, ended.stdout]).toEqual([code, expect.stringContaining(`: admin ${DSO}, `)]);
    expect(ended.stdout).toContain(said);
  });

  test("--live asks what it has to ask, however few calls rateLimit lets through", async () => {
    const registry = await startRegistry();
    const entry = `{ name: amulet, admin: "${DSO}", urls: ["${registry.url}"], rateLimit: { requests: 1, per: 1m } }`;
    const { code, stdout } = await runHere(["check", "--live", "--config", fileWith(`upstreams: [${entry}]\n`)]);
    expect([code, stdout]).toEqual([0, expect.stringMatching(/: admin DSO::.*takes pages of/)]);
  });

  test("warns of an admin that is not pinned, and --live prints the line to paste", async () => {
    const registry = await startRegistry();
    const entry = `upstreams:\n  - name: amulet\n    urls: ["${registry.url}"]\n`;
    const unpinned = await runHere(["check", "--live", "--config", fileWith(entry)]);
    expect(unpinned.stdout).toContain("warning: upstreams[amulet].admin is not set");
    const [, line] = /paste this line into its entry: (admin: .*)$/m.exec(unpinned.stdout)!;
    const pinned = await runHere(["check", "--live", "--config", fileWith(`${entry}    ${line}\n`)]);
    expect([pinned.code, pinned.stdout]).toEqual([0, expect.stringContaining("is good")]);
    expect(pinned.stdout).not.toMatch(/is not set|paste/);
  });

  test("--live tries Redis, and is 78 where it refuses the login", async () => {
    const [registry, redis] = [await startRegistry(), await startRedis({ password: "right" })];
    try {
      const upstreams = `upstreams: [{ name: amulet, admin: "${DSO}", urls: ["${registry.url}"] }]\n`;
      const good = fileWith(`redis: { url: "${redis.url}", password: right }\n${upstreams}`);
      const well = await runHere(["check", "--live", "--config", good]);
      expect([well.code, well.stdout]).toEqual([0, expect.stringMatching(/^redis: answers/m)]);
      const bad = fileWith(`redis: { url: "${redis.url}", password: wrong }\n${upstreams}`);
      const ill = await runHere(["check", "--live", "--config", bad]);
      expect([ill.code, ill.stdout]).toEqual([78, expect.stringMatching(/^redis: refuses the login/m)]);
    } finally {
      await redis.stop();
    }
  });

  test("--live names the status of a token endpoint that gives no token", async () => {
    const registry = await startRegistry();
    const endpoint = createHttpServer((_request, response) => response.writeHead(418).end("no"));
    await new Promise<void>((resolve) => endpoint.listen(0, "127.0.0.1", resolve));
    const { port } = endpoint.address() as AddressInfo;
    const auth = `auth: { oauth2: { tokenUrl: "http://127.0.0.1:${port}/token", clientId: c, clientSecret: s } }`;
    const file = fileWith(`upstreams: [{ name: amulet, urls: ["${registry.url}"], ${auth} }]\n`);
    const { code, stdout } = await runHere(["check", "--live", "--config", file]);
    endpoint.close();
    expect([code, stdout]).toEqual([78, expect.stringContaining("their token endpoint answered 418")]);
  });
});

describe("start", () => {
  test("serves a file while its upstreams are down, logs JSON alone, and ends with 0 at SIGINT, without grace", async () => {
    const registry = await startRegistry();
    const { url } = registry;
    await registry.kill();
    const file = fileWith(`${ANY_PORTS}shutdown: { grace: 10m }\nupstreams: [{ name: amulet, urls: ["${url}"] }]\n`);
    const command = run(["--config", file]);
    const [, port] = await command.printed(/"publicPort":(\d+)/);
    const status = async () => (await fetch(`http://127.0.0.1:${port}/registry/metadata/v1/info`)).status;
    expect(await status()).toBe(502);
    await registry.revive();
    await expect.poll(status).toBe(200);
    command.signal("SIGINT");
    expect(await command.ended).toBe(0);
    expect(command.lines.every((line) => typeof line.msg === "string" && typeof line.time === "string")).toBe(true);
    expect(command.lines.at(-1)).toMatchObject({ msg: "stopped" });
  });

  test("makes up for a SIGHUP that comes before it serves", async () => {
    // It waits for Redis, which never answers here.
    const redis = createServer();
    await new Promise<void>((resolve) => {
      redis.listen(0, "127.0.0.1", resolve);
    });
    const connected = once(redis, "connection");
    const { port } = redis.address() as AddressInfo;
    const file = fileWith(
      `${ANY_PORTS}redis: { url: "redis://127.0.0.1:${port}" }\nupstreams: [{ name: a, urls: ['http://127.0.0.1:1'] }]\n`,
    );
    const command = run(["--config", file]);
    const [socket] = (await connected) as [Socket];
    command.signal("SIGHUP");
    await command.printed(/"cause":"signal".*"configuration unchanged"/);
    socket.destroy();
    redis.close();
  });

  test("ends with 1 when its port is taken", async () => {
    const other = createServer();
    await new Promise<void>((resolve) => {
      other.listen(0, "127.0.0.1", resolve);
    });
    const { port } = other.address() as AddressInfo;
    const file = fileWith(
      `listen: { host: 127.0.0.1, port: ${port} }\noperations: { port: 0 }\nupstreams: [{ name: a, urls: ['http://127.0.0.1:1'] }]\n`,
    );
    const { code, stdout } = await outcomeOf(run(["start", "--config", file]));
    other.close();
    expect(code).toBe(1);
    expect(stdout).toContain("EADDRINUSE");
  });

  test("needs no file at all: admins are learned and printed", async () => {
    const [amulet, bonds] = [await startRegistry(), await startRegistry({ admin: UTILITY_ADMIN })];
    const args = ["--upstream", amulet.url, "--upstream", `${bonds.url}/registry/`, "--port", "0"];
    const command = await startWithFlags(args);
    const [, port] = await command.printed(/"publicPort":(\d+)/);
    for (const admin of [DSO, UTILITY_ADMIN]) {
      await expect.poll(() => command.stderr).toContain(`instrument admin ${admin}`);
      const address = `:${port}/api/token-standard/v0/registrars/${encodeURIComponent(admin)}`;
      await expect.poll(() => command.stderr).toContain(address);
      const base = `http://127.0.0.1:${port}/api/token-standard/v0/registrars/${admin}`;
      const info = (await (await fetch(`${base}/registry/metadata/v1/info`)).json()) as { adminId: string };
      expect(info.adminId).toBe(admin);
    }
    expect(command.stdout).toContain("admin proved");
    for (const admin of [DSO, UTILITY_ADMIN]) expect(command.stdout).not.toContain(admin);
    command.signal("SIGINT");
    expect(await command.ended).toBe(0);
  });
});

/** Without a file the operations port is the usual one: waits for its turn when somebody else has it for a moment. */
async function startWithFlags(args: readonly string[]): Promise<Command> {
  for (let i = 0; ; i++) {
    const command = run(args);
    const outcome = await Promise.race([command.printed(/"msg":"(listening|cannot start)"/), command.ended]);
    if (typeof outcome === "object" && outcome?.[1] === "listening") return command;
    await command.ended;
    if (i === 20 || !command.stdout.includes("EADDRINUSE")) throw new Error(command.stdout + command.stderr);
  }
}

test("explain says when no gateway answers", async () => {
  const { code, stderr } = await runHere([
    "explain",
    "/registry/metadata/v1/info",
    "--operations",
    "http://127.0.0.1:1",
  ]);
  expect(code).toBe(1);
  expect(stderr).toContain("does not answer");
});
