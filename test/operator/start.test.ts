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
import { Child, run } from "../support/process.ts";
import { until } from "../support/until.ts";

const PREFIX = "/api/token-standard/v0/registrars";
const INFO = endpointPath("info");

async function sandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const started = await startSandbox(options);
  atEnd(() => started.close());
  return started;
}

interface Served {
  readonly child: Child;
  readonly file: string;
  readonly site: Site;
  readonly operations: OperationsSite;
  write(keys: object): void;
  /** Log lines with this message so far. */
  readonly lines: (msg: string) => readonly Line[];
}

/** The program in a process of its own, with a file that a test may write anew, ready. */
async function serve(keys: object): Promise<Served> {
  const file = join(temporaryFolder(), "gateway.yaml");
  const write = (values: object): void => {
    const listeners = { listen: { host: "127.0.0.1", port: 0 }, operations: { port: 0 } };
    writeWhole(file, { ...listeners, shutdown: { grace: "0s" }, ...values });
  };
  write(keys);
  const child = new Child(["start", "--config", file]);
  return { ...(await addressesOf(child)), child, file, write };
}

/** Nobody reads half of it. */
function writeWhole(file: string, values: object): void {
  writeFileSync(`${file}.new`, JSON.stringify(values));
  renameSync(`${file}.new`, file);
}

async function addressesOf(child: Child): Promise<Pick<Served, "site" | "operations" | "lines">> {
  const lines = (msg: string): readonly Line[] => child.lines.filter((line) => line["msg"] === msg);
  const listening = await until(() => {
    if (!child.isRunning) throw new Error(`the gateway ended:\n${child.stdout}${child.stderr}`);
    return lines("listening")[0];
  });
  const operations = new OperationsSite(String(listening["operationsUrl"]));
  await until(async () => (await operations.get("/readyz")).status === 200);
  return { site: new Site(String(listening["url"])), operations, lines };
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
    const { code, stdout, stderr } = await run(["start", "--config", file]);
    expect([code, stdout]).toEqual([78, ""]);
    expect(stderr).toMatch(/gateway\.yaml:1:11: listen\.ports: unknown key.*\n.*gateway\.yaml:2:12: upstreams/);
  });

  test("a port that is taken ends it with 1", async () => {
    const { url } = await sandbox();
    const { port } = new URL(url);
    const { code, stderr } = await run(["start", "--upstream", url, "--port", port]);
    expect([code, stderr]).toEqual([1, expect.stringMatching(`cannot start: the port is taken \\(\\S+:${port}\\)`)]);
  });

  test("options that do not go together end it with 1", async () => {
    const { code, stderr } = await run(["start", "--port", "8081"]);
    expect([code, stderr]).toEqual([1, expect.stringContaining("--port and --redis go with --upstream")]);
  });

  test("without a file it serves what --upstream names, and says whose registries they are", async () => {
    const [one, two] = [await sandbox({ name: "one" }), await sandbox({ name: "two" })];
    // The operations listener has its usual port, which another program may have for a while.
    await until(() => isFree(9090));
    const child = new Child(["start", "--upstream", `${one.url}/registry/`, "--upstream", two.url, "--port", "0"]);
    const said = await until(() => {
      if (!child.isRunning) throw new Error(`it ended: ${child.stderr}`);
      return child.stderr.includes(one.admin) && child.stderr.includes(two.admin) && child.stderr;
    });
    expect(said).toMatch(new RegExp(`127\\.0\\.0\\.1: admin ${one.admin}\\n {2}base URL http://`));
    const [, base = ""] = new RegExp(`admin ${two.admin}\\n {2}base URL (\\S+)`).exec(said) ?? [];
    const { origin, pathname } = new URL(base);
    expect((await send(origin.replace("localhost", "127.0.0.1"), { path: pathname + INFO })).json).toMatchObject({
      adminId: two.admin,
    });
  });

  test("SIGHUP reloads, SIGUSR2 does nothing, SIGTERM ends it cleanly, and stdout has JSON lines alone", async () => {
    const { child, operations, lines } = await serve({ upstreams: [upstream("amulet", await sandbox())] });
    child.signal("SIGUSR2");
    child.signal("SIGHUP");
    await until(() => lines("configuration reloaded")[0]);
    expect(lines("configuration reloaded")[0]).toMatchObject({ cause: "signal", changed: [] });
    expect((await operations.get("/livez")).status).toBe(200);
    // As npm sends it: to the group, and then to its child again.
    child.signal("SIGTERM");
    child.signal("SIGTERM");
    expect(await child.ended).toBe(0);
    expect(child.lines.map(({ msg }) => msg)).toContain("stopping");
  });

  test("another signal ends one that drains at once, with 1", async () => {
    const registry = await sandbox();
    const { child, site } = await serve({ upstreams: [upstream("one", registry)], shutdown: { grace: "10s" } });
    registry.setFaults({ hang: 1 });
    const held = site.post(`${PREFIX}/one${endpointPath("transfer_accept", "00")}`).catch(() => undefined);
    await until(() => registry.calls.transfer_accept > 0);
    child.signal("SIGTERM");
    await until(() => child.lines.some(({ msg }) => msg === "stopping"));
    child.signal("SIGINT");
    expect(await child.ended).toBe(1);
    await held;
  });
});

describe("a reload", () => {
  test("takes what was written while the gateway came up", async () => {
    const [one, two] = [await sandbox({ name: "one" }), await sandbox({ name: "two" })];
    const file = join(temporaryFolder(), "gateway.yaml");
    const write = (...upstreams: object[]): void => {
      writeWhole(file, { listen: { port: 0 }, operations: { port: 0 }, upstreams });
    };
    write(upstream("one", one));
    const { atimeMs: written } = statSync(file);
    const child = new Child(["start", "--config", file]);
    const isListening = (): boolean => child.stdout.includes('"listening"');
    // The file says when it was read: from then on it takes some tenths of a second to listen.
    while (statSync(file).atimeMs === written && !isListening()) await setTimeout(1);
    write(upstream("one", one), upstream("two", two));
    const { lines } = await addressesOf(child);
    const line = await until(() => lines("configuration reloaded")[0]);
    expect(line).toMatchObject({ cause: "file", changed: expect.arrayContaining(["upstreams[two].urls"]) as unknown });
  });

  describe("of one that runs", () => {
    const token = join(temporaryFolder(), "token");
    const operations = { port: 0, tokens: [{ name: "ops", token: `\${file:${token}}` }] };
    let served: Served;
    let [one, two]: Sandbox[] = [];
    beforeAll(async () => {
      writeFileSync(token, "the-first-operators-token\n");
      [one, two] = [await sandbox({ name: "one" }), await sandbox({ name: "two" })];
      served = await serve({ operations, upstreams: [upstream("one", one)] });
    });

    /** Waits for the next log line with this message, which `change` leads to. */
    async function lineAfter(change: () => void, msg: string): Promise<Line> {
      const before = served.child.lines.length;
      change();
      return until(() => served.child.lines.slice(before).find((line) => line["msg"] === msg));
    }
    const reloaded = (upstreams: object[]): Promise<Line> =>
      lineAfter(() => served.write({ operations, upstreams }), "configuration reloaded");
    const refused = (keys: object): Promise<Line> =>
      lineAfter(() => served.write({ operations, ...keys }), "configuration refused: what runs stays");

    test("takes a changed file within 2 s, and says what changed", async () => {
      await reloaded([upstream("one", one!)]);
      expect((await served.site.get(`${PREFIX}/two${INFO}`)).outcome).toBe("404 admin_unknown");
      const { cause, changed } = await reloaded([upstream("one", one!), upstream("two", two!)]);
      await until(async () => (await served.site.get(`${PREFIX}/two${INFO}`)).status === 200);
      expect([cause, changed]).toEqual(["file", expect.arrayContaining(["upstreams[two].urls"])]);
      expect(changed).not.toContain("upstreams[one].urls");
    });

    test("of a thousand keys is a line of JSON as any other, and so is one with a thousand problems", async () => {
      const resting = (more: object) =>
        Array.from({ length: 700 }, (_, i) => {
          const name = `a-registry-with-a-long-name-${i}`;
          return { name, admin: `${name}::1220`, urls: [`https://${name}.example`], mode: "cache-only", ...more };
        });
      expect((await reloaded(resting({})))["changed"]).toHaveLength(51);
      const { problems } = await refused({ upstreams: resting({ "an-unknown-key": 1 }) });
      expect(problems).toHaveLength(51);
      expect((problems as string[]).at(-1)).toBe("and 650 more");
    });

    test("refuses a bad file as a whole, with its lines, until it is mended", async () => {
      await reloaded([upstream("one", one!)]);
      expect(await refused({ upstreams: [upstream("two", one!)], cors: { origin: "*" } })).toMatchObject({
        level: "error",
        problems: [expect.stringMatching(/:1:\d+: cors\.origin: unknown key/)],
      });
      expect((await served.site.get(`${PREFIX}/one${INFO}`)).status).toBe(200);
      const successful = (): Promise<number> =>
        served.operations.metric("registry_gateway_config_last_reload_successful");
      expect(await successful()).toBe(0);
      await reloaded([upstream("two", one!)]);
      await until(async () => (await served.site.get(`${PREFIX}/two${INFO}`)).status === 200);
      expect(await successful()).toBe(1);
    });

    test("takes a replaced secret, whose file the configuration names", async () => {
      const status = async (text: string): Promise<number> =>
        (await served.operations.get("/status", { authorization: `Bearer ${text}` })).status;
      expect(await status("the-first-operators-token")).toBe(200);
      const write = (): void => writeFileSync(token, "the-second-operators-token\n");
      expect((await lineAfter(write, "configuration reloaded"))["changed"]).toEqual(["operations.tokens[ops].token"]);
      expect(await status("the-second-operators-token")).toBe(200);
      expect(await status("the-first-operators-token")).toBe(401);
      expect(served.child.stdout).not.toContain("operators-token");
    });
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

  test("what is no operations listener is said to be none", async () => {
    const { url } = await sandbox();
    const { code, stderr } = await command(["status", "--url", url]);
    expect([code, stderr]).toEqual([1, expect.stringContaining("is it one?")]);
  });
});

test("the demo prints commands that work, and ends with Ctrl-C", async () => {
  const child = new Child(["demo", "--port", "0", "--operations-port", "0"]);
  const text = await until(() => child.stdout.includes("Stop with Ctrl-C") && child.stdout);
  const [, listing = ""] = /-w '[^']*' '([^']+)'/.exec(text) ?? [];
  const [, info = "", key = ""] = /curl -si '(\S+)' -H 'x-api-key: (rgk_\w[^']+)'/.exec(text) ?? [];
  const [, factory = "", body = ""] = /3\. .*\n {2}curl -s (\S+) .* -d '(.*)' \|/.exec(text) ?? [];
  expect((await fetch(listing)).headers.get("cache-status")).toContain("fwd=uri-miss");
  expect((await fetch(listing)).headers.get("cache-status")).toContain("hit");
  expect((await fetch(info, { headers: { "x-api-key": key } })).headers.get("ratelimit-policy")).toContain("6000");
  const headers = { "content-type": "application/json" };
  expect((await fetch(factory, { method: "POST", headers, body })).status).toBe(200);
  const [, operations = ""] = /console {2}(\S+)\/console/.exec(text) ?? [];
  expect((await command(["status", "--url", operations])).stdout).toMatch(/^funds +up/m);
  child.signal("SIGINT");
  expect(await child.ended).toBe(0);
  expect(child.stderr).toBe("");
});
