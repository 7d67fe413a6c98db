import { once } from "node:events";
import { renameSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { beforeAll, describe, expect, it, test } from "vitest";
import { type Sandbox, type SandboxOptions, startSandbox } from "../../src/sandbox/sandbox.ts";
import { endpointPath } from "../../src/spec/operations.ts";
import { atEnd } from "../support/closing.ts";
import { command } from "../support/command.ts";
import { type Line, OperationsSite, startGateway, temporaryFolder } from "../support/gateway.ts";
import { send, Site } from "../support/http.ts";
import { Child, PROGRAM, startProcess } from "../support/process.ts";
import { until } from "../support/until.ts";

const PREFIX = "/api/token-standard/v0/registrars";
const INFO = endpointPath("info");

async function sandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const started = await startSandbox(options);
  atEnd(() => started.close());
  return started;
}

/** Nobody reads half of it. */
function writeWhole(file: string, values: object): void {
  writeFileSync(`${file}.new`, JSON.stringify(values));
  renameSync(`${file}.new`, file);
}

function upstream(name: string, { url, admin }: Sandbox, more: object = {}): object {
  return { name, admin, urls: [url], ...more };
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, "127.0.0.1");
  const isFree = await once(server, "listening").then(
    () => true,
    () => false,
  );
  server.close();
  return isFree;
}

describe("start", () => {
  test("a bad file ends it with 78 and every problem on stderr", async () => {
    const file = join(temporaryFolder(), "gateway.yaml");
    writeFileSync(file, "listen: { ports: 1 }\nupstreams: []\n");
    const { code, stdout, stderr } = await command(["start", "--config", file]);
    expect([code, stdout]).toEqual([78, ""]);
    expect(stderr).toMatch(/gateway\.yaml:1:11: listen\.ports: unknown key.*\n.*gateway\.yaml:2:12: upstreams/);
  });

  test("a port that is taken ends it with 1", async () => {
    const { url } = await sandbox();
    const { port } = new URL(url);
    const { code, stderr } = await command(["start", "--upstream", url, "--port", port]);
    expect([code, stderr]).toEqual([1, expect.stringMatching(`cannot start: the port is taken \\(\\S+:${port}\\)`)]);
  });

  // pino tried to write its last lines for ever.
  test("a port that is taken ends it with 1 while the log is on a full disk, too", async () => {
    const { url } = await sandbox();
    const program = ["/bin/sh", "-c", 'exec "$@" >/dev/full', "sh", ...PROGRAM];
    // There is a line that waits.
    const redis = "redis://127.0.0.1:9";
    const child = new Child(["start", "--upstream", url, "--port", new URL(url).port, "--redis", redis], { program });
    await until(() => !child.isRunning, 20_000);
    expect([await child.ended, child.stderr]).toEqual([1, expect.stringContaining("the port is taken")]);
  });

  test("options that do not go together end it with 1", async () => {
    const { code, stderr } = await command(["start", "--port", "8081"]);
    expect([code, stderr]).toEqual([1, expect.stringContaining("--port and --redis go with --upstream")]);
  });
});

/** The program with a module before it. */
function programAfter(module: string): string[] {
  return [process.execPath, "--import", `data:text/javascript,${encodeURIComponent(module)}`, ...PROGRAM.slice(1)];
}

describe("a process", () => {
  test("that is told to reload while it loads its modules comes up", async () => {
    const module = `import { registerHooks } from "node:module";
      const resolve = (name, context, next) => {
        if (name.endsWith("/start.ts")) process.kill(process.pid, "SIGHUP");
        return next(name, context);
      };
      registerHooks({ resolve });`;
    const { child } = await startProcess(
      { upstreams: [upstream("one", await sandbox())] },
      { program: programAfter(module) },
    );
    child.signal("SIGINT");
    expect(await child.ended).toBe(0);
  });

  test("that fails in an unexpected way ends with 1, and its last line says why", async () => {
    const module = 'process.on("SIGUSR2", () => { throw new Error("a mistake of ours"); });';
    const { child } = await startProcess(
      { upstreams: [upstream("one", await sandbox())] },
      { program: programAfter(module) },
    );
    child.signal("SIGUSR2");
    expect(await child.ended).toBe(1);
    expect(child.lines.at(-1)).toMatchObject({
      level: "fatal",
      msg: "unexpected error",
      err: { message: "a mistake of ours" },
    });
  });
});

describe("one without a file", () => {
  let [one, two]: Sandbox[] = [];
  let child: Child;
  let base: URL;
  beforeAll(async () => {
    [one, two] = [await sandbox({ name: "one" }), await sandbox({ name: "two" })];
    // The operations listener has its usual port, which another program may have for a while.
    await until(() => isFree(9090));
    child = new Child(["start", "--upstream", `${one.url}/registry/`, "--upstream", two.url, "--port", "0"]);
  });

  test("serves what --upstream names, and says whose registries they are", async () => {
    const said = await until(() => {
      if (!child.isRunning) throw new Error(`it ended: ${child.stderr}`);
      return child.stderr.includes(one!.admin) && child.stderr.includes(two!.admin) && child.stderr;
    });
    expect(said).toMatch(new RegExp(`127\\.0\\.0\\.1: admin ${one!.admin}\\n {2}base URL http://`));
    base = new URL(new RegExp(`admin ${two!.admin}\\n {2}base URL (\\S+)`).exec(said)![1]!);
    base.hostname = "127.0.0.1";
    const { json } = await send(base.origin, { path: base.pathname + INFO });
    expect(json).toMatchObject({ adminId: two!.admin });
  });

  test("that drains is ended at once by another signal, with 1", async () => {
    two!.setFaults({ hang: 1 });
    const path = base.pathname + endpointPath("transfer_accept", "00");
    const held = send(base.origin, { path, body: "{}" }).catch(() => undefined);
    await until(() => two!.calls.transfer_accept > 0);
    child.signal("SIGTERM");
    await until(() => child.lines.some(({ msg }) => msg === "stopping"));
    child.signal("SIGINT");
    expect(await child.ended).toBe(1);
    await held;
  });
});

describe("one with a file", () => {
  const [folder, token] = [temporaryFolder(), join(temporaryFolder(), "token")];
  const file = join(folder, "gateway.yaml");
  const keys = {
    listen: { host: "127.0.0.1", port: 0 },
    operations: { port: 0, tokens: [{ name: "ops", token: `\${file:${token}}` }] },
    shutdown: { grace: "0s" },
  };
  const write = (more: object): void => writeWhole(file, { ...keys, ...more });
  let [one, two]: Sandbox[] = [];
  let child: Child;
  let site: Site;
  let operations: OperationsSite;

  beforeAll(async () => {
    writeFileSync(token, "the-first-operators-token\n");
    [one, two] = [await sandbox({ name: "one" }), await sandbox({ name: "two" })];
    write({ upstreams: [upstream("one", one)] });
    const { atimeMs: written } = statSync(file);
    child = new Child(["start", "--config", file]);
    // The file says when it was read: from then on it takes some tenths of a second to listen.
    while (statSync(file).atimeMs === written && !child.stdout.includes('"listening"')) await setTimeout(1);
    write({ upstreams: [upstream("one", one), upstream("two", two)] });
    const listening = await until(() => {
      if (!child.isRunning) throw new Error(`the gateway ended:\n${child.stdout}${child.stderr}`);
      return child.lines.find(({ msg }) => msg === "listening");
    });
    site = new Site(String(listening["url"]));
    operations = new OperationsSite(String(listening["operationsUrl"]));
    await until(async () => (await operations.get("/readyz")).status === 200);
  });

  /** Waits for the next log line with this message, which `change` leads to. */
  async function lineAfter(change: () => void, msg: string): Promise<Line> {
    const before = child.lines.length;
    change();
    return until(() => child.lines.slice(before).find((line) => line["msg"] === msg));
  }
  const reloaded = (...upstreams: object[]): Promise<Line> =>
    lineAfter(() => write({ upstreams }), "configuration reloaded");
  const refused = (more: object): Promise<Line> =>
    lineAfter(() => write(more), "configuration refused: what runs stays");

  test("takes what was written while it came up", async () => {
    const line = await until(() => child.lines.find(({ msg }) => msg === "configuration reloaded"));
    expect(line).toMatchObject({ cause: "file", changed: expect.arrayContaining(["upstreams[two].urls"]) as unknown });
  });

  test("takes a changed file within 2 s, and says what changed", async () => {
    await reloaded(upstream("one", one!));
    expect((await site.get(`${PREFIX}/two${INFO}`)).outcome).toBe("404 admin_unknown");
    const { cause, changed } = await reloaded(upstream("one", one!), upstream("two", two!));
    await until(async () => (await site.get(`${PREFIX}/two${INFO}`)).status === 200);
    expect([cause, changed]).toEqual(["file", expect.arrayContaining(["upstreams[two].urls"])]);
    expect(changed).not.toContain("upstreams[one].urls");
  });

  test("says a thousand changes and a thousand problems in a line of JSON each", async () => {
    const resting = (more: object) =>
      Array.from({ length: 700 }, (_, i) => {
        const name = `a-registry-with-a-long-name-${i}`;
        return { name, admin: `${name}::1220`, urls: [`https://${name}.example`], mode: "cache-only", ...more };
      });
    expect((await reloaded(...resting({})))["changed"]).toHaveLength(51);
    const { problems } = await refused({ upstreams: resting({ "an-unknown-key": 1 }) });
    expect(problems).toHaveLength(51);
    expect((problems as string[]).at(-1)).toBe("and 650 more");
  });

  test("refuses a bad file as a whole, with its lines, until it is mended", async () => {
    await reloaded(upstream("one", one!));
    expect(await refused({ upstreams: [upstream("two", one!)], cors: { origin: "*" } })).toMatchObject({
      level: "error",
      problems: [expect.stringMatching(/:1:\d+: cors\.origin: unknown key/)],
    });
    expect((await site.get(`${PREFIX}/one${INFO}`)).status).toBe(200);
    const successful = (): Promise<number> => operations.metric("registry_gateway_config_last_reload_successful");
    expect(await successful()).toBe(0);
    await reloaded(upstream("two", one!));
    await until(async () => (await site.get(`${PREFIX}/two${INFO}`)).status === 200);
    expect(await successful()).toBe(1);
  });

  test("takes a replaced secret, whose file the configuration names", async () => {
    const status = async (text: string): Promise<number> =>
      (await operations.get("/status", { authorization: `Bearer ${text}` })).status;
    expect(await status("the-first-operators-token")).toBe(200);
    const replace = (): void => writeFileSync(token, "the-second-operators-token\n");
    expect((await lineAfter(replace, "configuration reloaded"))["changed"]).toEqual(["operations.tokens[ops].token"]);
    expect(await status("the-second-operators-token")).toBe(200);
    expect(await status("the-first-operators-token")).toBe(401);
    expect(child.stdout).not.toContain("operators-token");
  });

  test("reloads at SIGHUP, goes on at SIGUSR2, ends cleanly at SIGTERM, and has JSON lines alone on stdout", async () => {
    child.signal("SIGUSR2");
    const line = await lineAfter(() => child.signal("SIGHUP"), "configuration reloaded");
    expect(line).toMatchObject({ cause: "signal", changed: [] });
    expect((await operations.get("/livez")).status).toBe(200);
    // As npm sends it: to the group, and then to its child again.
    child.signal("SIGTERM");
    child.signal("SIGTERM");
    expect(await child.ended).toBe(0);
    expect(child.lines.map(({ msg }) => msg)).toContain("stopping");
  });
});

describe("the operations commands", () => {
  test("find the listener and its token in the configuration, whatever else cannot be read", async () => {
    const registry = await sandbox({ name: "one" });
    const token = "an-operators-token-of-28-ch";
    const tokens = [
      { name: "viewer", token: `${token}-viewer`, readonly: true },
      { name: "ops", token: "${OPS}" },
    ];
    const gateway = await startGateway(
      { operations: { tokens }, upstreams: [upstream("one", registry)] },
      { env: { OPS: token } },
    );
    await until(async () => (await gateway.operations.get("/readyz")).status === 200);
    // As an operator's shell has it: the port is known, a variable of another key is not set.
    const { port } = new URL(gateway.operations.url);
    const file = join(temporaryFolder(), "gateway.yaml");
    const keys = { operations: { port: Number(port), tokens }, redis: { url: "${REDIS}" }, upstreams: "${UPSTREAMS}" };
    writeFileSync(file, JSON.stringify(keys));
    const env = { OPS: token };

    const status = await command(["status", "--config", file, "--exit-code"], { env });
    expect([status.code, status.stderr]).toEqual([0, ""]);
    expect(status.stdout).toMatch(new RegExp(`^one +up +normal +1 of 1 .*${registry.admin}$`, "m"));
    const json = await command(["status", "--config", file, "--json"], { env: { GATEWAY_CONFIG: file, OPS: token } });
    expect(JSON.parse(json.stdout)).toMatchObject({ health: { level: "well" } });

    await gateway.get(`${PREFIX}/one${INFO}`);
    const explained = await command(["explain", `${gateway.url}${PREFIX}/one${INFO}`, "--config", file], { env });
    expect(explained.stdout).toMatch(/^info of one \(one::1220/);
    expect(explained.stdout).toMatch(/^The next request is answered from memory/m);

    const purged = await command(["purge", "one", "--config", file], { env });
    expect([purged.code, purged.stdout]).toEqual([0, "one is purged\n"]);
    expect((await gateway.get(`${PREFIX}/one${INFO}`)).cache).toBe("miss");
    expect((await command(["purge", "--config", file], { env })).stdout).toBe("everything is purged\n");
    const line = gateway.lines.find(({ msg }) => msg === "purged");
    expect(line).toMatchObject({ upstream: "one", by: "ops" });

    const unknown = await command(["purge", "two", "--config", file], { env });
    expect([unknown.code, unknown.stderr]).toEqual([
      1,
      expect.stringContaining('no enabled upstream has the name "two"'),
    ]);
    const viewer = await command(["status", "--config", file]);
    expect(viewer.code).toBe(0);
    const nobody = await command(["status", "--url", gateway.operations.url]);
    expect([nobody.code, nobody.stderr]).toEqual([1, expect.stringContaining("--token")]);
    const named = await command(["status", "--url", gateway.operations.url, "--token", token]);
    expect(named.code).toBe(0);
  });

  test("the exit code of status says how bad it is, and an inspected gateway says that it is one", async () => {
    const dead = await sandbox({ name: "dead" });
    await dead.close();
    const gateway = await startGateway({ upstreams: [upstream("one", await sandbox()), upstream("dead", dead)] });
    await until(async () => ((await gateway.operations.upstream("dead")) as { state: string }).state === "down");
    const { code, stdout } = await command(["status", "--exit-code", "--url", gateway.operations.url]);
    expect([code, stdout]).toEqual([2, expect.stringMatching(/^dead is down since .*\n {2}page: dead is down/)]);
    expect((await command(["status", "--url", gateway.operations.url])).code).toBe(0);
    const inspected = await command(["inspect", `${gateway.url}${PREFIX}/one`]);
    expect([inspected.code, inspected.stdout]).toEqual([
      0,
      expect.stringMatching(/^gateway +note +a registry-gateway:/m),
    ]);
    const plain = await command(["inspect", gateway.url]);
    expect(plain.stdout).toMatch(/^admin +error +its info is 400 of the gateway itself \(admin_missing\)$/m);
  });

  it.each([
    [["status", "--url", "http://127.0.0.1:9"], /cannot be asked: nothing listens there/],
    [["explain", "registry"], /explain takes a URL/],
    [["status", "--config", "/none/gateway.yaml"], /\/none\/gateway\.yaml is not there/],
  ])("%j says what is wrong", async (args, message) => {
    const { code, stderr } = await command(args);
    expect([code, stderr]).toEqual([1, expect.stringMatching(message)]);
  });

  test("take the file that the gateway takes, and repeat nothing of another", async () => {
    const address = "operations: { port: 9 }\nupstreams:\n";
    const entry = (at: number, tls: string): string =>
      `  - { name: r${at}, urls: ["http://127.0.0.1:9"], tls: ${tls} }\n`;
    const many = Array.from({ length: 200 }, (_none, at) => entry(at, at === 0 ? "&ours {}" : "*ours")).join("");
    const secret = "operations: { tokens: [{ name: ops, token: *a-secret-without-quotes }] }\n";
    const ask = (text: string) => {
      const file = join(temporaryFolder(), "gateway.yaml");
      writeFileSync(file, text);
      return command(["status", "--config", file]);
    };
    expect((await ask(address + many)).stderr).toContain("127.0.0.1:9 cannot be asked");
    const { code, stderr } = await ask(secret);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/is not valid YAML: .*check.*--url and --token/)]);
    expect(stderr).not.toContain("a-secret");
  });

  test("what is no operations listener is said to be none", async () => {
    const { url } = await sandbox();
    const { code, stderr } = await command(["status", "--url", url]);
    expect([code, stderr]).toEqual([1, expect.stringContaining("is it one?")]);
  });
});
