import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo, Server } from "node:net";
import { join } from "node:path";
import { describe, expect, it, test } from "vitest";
import { parse } from "yaml";
import { type Sandbox, type SandboxOptions, startSandbox } from "../../src/sandbox/sandbox.ts";
import { atEnd } from "../support/closing.ts";
import { temporaryFolder } from "../support/gateway.ts";
import { command } from "../support/command.ts";
import { Child } from "../support/process.ts";
import { startRedis } from "../support/redis.ts";
import { until } from "../support/until.ts";

const TLS = join(import.meta.dirname, "../fixtures/tls");

/** Nothing listens there. */
const DEAD = "http://127.0.0.1:9";
const OTHER = `other::1220${"ab".repeat(32)}`;

async function sandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const started = await startSandbox(options);
  atEnd(() => started.close());
  return started;
}

/** A file in a folder of its own. */
function fileOf(text: string, name = "gateway.yaml"): string {
  const file = join(temporaryFolder(), name);
  writeFileSync(file, text);
  return file;
}

function upstreams(...urls: string[]): string {
  return `upstreams:\n${urls.map((url, i) => `  - { name: u${i}, urls: ["${url}"] }\n`).join("")}`;
}

describe("the command line", () => {
  it.each<[args: string[], code: number, text: RegExp]>([
    [["--help"], 0, /Commands:\n {2}start/],
    [["check", "--help"], 0, /--diff <old>/],
    [["clients", "new", "--help"], 0, /--expires <when>/],
    [["--version"], 0, /^\d+\.\d+\.\d+\n$/],
    [["statsu"], 1, /there is no command statsu; did you mean "status"\?/],
    [["check", "--lvie"], 1, /unknown option '--lvie'/],
    [["start", "--port", "70000", "--upstream", DEAD], 1, /number from 0 to 65535/],
    [["start", "--config", "x", "--upstream", DEAD], 1, /cannot be used with/],
    [["inspect", "registry"], 1, /It is not a URL/],
    [["inspect"], 1, /missing required argument 'url'/],
  ])("%j ends with %d", async (args, code, text) => {
    const ended = await command(args);
    expect([ended.code, ended.stdout + ended.stderr]).toEqual([code, expect.stringMatching(text)]);
    expect(code === 0 ? ended.stderr : ended.stdout).toBe("");
  });
});

describe("check", () => {
  test("a good file is said to be good, with what the process may come to take", async () => {
    const file = fileOf(upstreams(DEAD));
    const { code, stdout, stderr } = await command(["check", "--config", file]);
    expect([code, stdout]).toEqual([0, expect.stringContaining(`${file} is good`)]);
    expect(stdout).toMatch(
      /memory: 700 MiB at most \(process 220 \+ cache\.memory 64 \+ connections 352 \+ bodies 64\)/,
    );
    expect(stderr).toMatch(/^warning: admin of u0 is not set/);
  });

  test("every problem has a line with file, line, column and path", async () => {
    const file = fileOf(`listen: { ports: 80 }\ncache: { memory: 64 }\n${upstreams(DEAD)}`);
    const { code, stdout, stderr } = await command(["check", "--config", file]);
    expect([code, stdout]).toEqual([78, ""]);
    const [first, second, ...others] = stderr.trimEnd().split("\n");
    expect(first).toMatch(/gateway\.yaml:1:11: listen\.ports: unknown key; did you mean "port"\?$/);
    expect(second).toMatch(/gateway\.yaml:2:18: cache\.memory: must be a size/);
    expect(others).toEqual([]);
  });

  test("the file is found where the program looks for it", async () => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, "config"));
    writeFileSync(join(folder, "config/gateway.yaml"), upstreams(DEAD));
    const named = fileOf(upstreams(DEAD), "named.yaml");
    const usual = await command(["check"], { cwd: folder });
    const byVariable = await command(["check"], { cwd: folder, env: { GATEWAY_CONFIG: named } });
    expect(usual.stdout).toContain("config/gateway.yaml is good");
    expect(byVariable.stdout).toContain("named.yaml is good");
    expect((await command(["check"], { cwd: temporaryFolder() })).code).toBe(78);
  });

  test("the effective configuration is printed without secrets", async () => {
    const file = fileOf(`operations: { tokens: [{ name: ops, token: "\${TOKEN}" }] }\n${upstreams(DEAD)}`);
    const { stdout } = await command(["check", "--config", file, "--print"], { env: { TOKEN: "very-secret-token" } });
    expect(stdout).not.toContain("very-secret-token");
    const printed = parse(stdout) as { operations: object; cache: { ttl: object } };
    expect(printed.operations).toMatchObject({ tokens: [{ name: "ops", token: "…" }], port: 9090 });
    expect(printed.cache.ttl).toMatchObject({ info: "10m" });
  });

  test("what a reload would change is printed, defaults left out", async () => {
    const old = fileOf(`listen: { port: 8080 }\n${upstreams(DEAD)}`);
    const file = fileOf(`listen: { port: 8081 }\ncache: { memory: 1MiB }\n${upstreams(DEAD, `${DEAD}/x`)}`);
    const { code, stdout } = await command(["check", "--config", file, "--diff", old]);
    expect(code).toBe(0);
    expect(stdout).toContain("listen.port: 8080 → 8081\n");
    expect(stdout).toContain('cache.memory: "64MiB" → "1MiB"');
    expect(stdout).toContain("upstreams[u1].urls");
    expect(stdout).not.toContain("timeout");
    expect(stdout).toContain("at the next start alone: listen\n");
    expect((await command(["check", "--config", file, "--diff", file])).stdout).toBe("no difference\n");
  });

  test("live, each node says who it is, and a dead one is named", async () => {
    const [good, small] = [await sandbox(), await sandbox({ name: "small", pageSize: { most: 50, beyond: "refuse" } })];
    const well = fileOf(upstreams(good.url, small.url));
    const answer = await command(["check", "--config", well, "--live"]);
    expect(answer.code).toBe(0);
    expect(answer.stdout).toMatch(
      new RegExp(`u0 ${good.url}: admin ${good.admin}, \\d+ ms, pageSize=1000 gives 60, TLS`),
    );
    expect(answer.stdout).toMatch(
      /u1 .* pageSize=1000 is 400, application\/json, pageSize=100 is 400.*, pageSize=25 gives 25/,
    );
    expect(answer.stdout).toContain(`u0: to pin its admin, add this line to its entry: admin: "${good.admin}"`);
    const bad = fileOf(`${upstreams(DEAD, good.url, good.url)}redis: { url: "redis://127.0.0.1:9" }\n`);
    const failed = await command(["check", "--config", bad, "--live"]);
    expect(failed.code).toBe(78);
    expect(failed.stdout).toContain(`u0 ${DEAD}: nothing listens there`);
    expect(failed.stdout).toContain("u2: names the admin of u1: make them one upstream");
    expect(failed.stdout).toMatch(/^redis: .*refuses the connection/m);
  });

  test("live, nodes are asked with the upstream's TLS and credentials, and Redis with its password", async () => {
    const redis = await startRedis({ password: "a-password" });
    const server = createSecureServer(
      { cert: readFileSync(`${TLS}/server.pem`), key: readFileSync(`${TLS}/server-key.pem`) },
      (request, response) => {
        request.resume();
        if (request.headers.authorization !== "Bearer a-token") return void response.writeHead(401).end();
        response.setHeader("content-type", "application/json");
        response.end(request.url!.includes("/instruments") ? '{"instruments":[]}' : infoBody({}));
      },
    );
    const url = (await listen(server)).replace("http:", "https:");
    const entry = { name: "one", admin: OTHER, urls: [url], auth: { bearer: "a-token" } };
    const check = (keys: object): ReturnType<typeof command> =>
      command(["check", "--live", "--config", fileOf(JSON.stringify(keys))]);
    const well = await check({
      redis: { url: redis.url, password: "a-password" },
      upstreams: [{ ...entry, tls: { caFile: `${TLS}/ca.pem` } }],
    });
    expect([well.code, well.stdout]).toEqual([
      0,
      expect.stringMatching(/^redis: up, after \d+ ms\none https.*: admin other::/),
    ]);
    expect(well.stdout).toMatch(
      /pageSize=1000 gives 0, TLS: TLSv1\.3, its certificate ends on \d{4}-\d\d-\d\d, in \d+ days/,
    );
    const untrusted = await check({ redis: { url: redis.url, password: "another" }, upstreams: [entry] });
    expect(untrusted.code).toBe(78);
    expect(untrusted.stdout).toMatch(/^redis: (?!up).*password/m);
    expect(untrusted.stdout).toMatch(/^one https.*certificate/m);
    expect(untrusted.stdout + untrusted.stderr).not.toMatch(/a-token|a-password/);
  });

  test("live, nodes are asked with an OAuth 2.0 token as the gateway has it, and one that cannot be had is not well", async () => {
    const { url } = await sandbox();
    const registry = createServer((request, response) => {
      request.resume();
      if (request.headers.authorization !== "Bearer a-token") return void response.writeHead(401).end();
      response.setHeader("content-type", "application/json");
      response.end(request.url!.includes("/instruments") ? '{"instruments":[]}' : infoBody({}));
    });
    const login = createServer((request, response) => {
      request.resume();
      response.setHeader("content-type", "application/json");
      response.end('{"access_token":"a-token","token_type":"Bearer"}');
    });
    const oauth2 = { clientId: "gateway", clientSecret: "s3cret" };
    const check = (asked: string, tokenUrl: string): ReturnType<typeof command> => {
      const entry = { name: "one", urls: [asked], auth: { oauth2: { ...oauth2, tokenUrl } } };
      return command(["check", "--live", "--config", fileOf(JSON.stringify({ upstreams: [entry] }))]);
    };
    const well = await check(await listen(registry), `${await listen(login)}/token`);
    expect([well.code, well.stdout]).toEqual([0, expect.stringMatching(/^one http.*: admin other::/)]);
    const dead = await check(url, `${DEAD}/token`);
    expect([dead.code, dead.stdout]).toEqual([78, expect.stringMatching(/^one http.*: the token endpoint cannot be/)]);
    expect(well.stdout + well.stderr + dead.stdout + dead.stderr).not.toMatch(/a-token|s3cret/);
  });

  test("certificates that have ended are warned of", async () => {
    const ended = { certFile: `${TLS}/ended.pem`, keyFile: `${TLS}/ended-key.pem` };
    const keys = { listen: { tls: ended }, upstreams: [{ name: "one", admin: OTHER, urls: [DEAD], tls: ended }] };
    const { code, stderr } = await command(["check", "--config", fileOf(JSON.stringify(keys))]);
    expect(code).toBe(0);
    expect(stderr).toMatch(/^warning: listen\.tls\.certFile: .*ended on 2021/m);
    expect(stderr).toMatch(/^warning: client certificate for one: its certificate has ended on/m);
  });
});

describe("inspect", () => {
  interface Report {
    readonly isGateway: boolean;
    readonly findings: readonly { about: string; severity: string; text: string }[];
  }

  async function inspect(url: string): Promise<{ code: number | null; say: (about: string) => string } & Report> {
    const { code, stdout } = await command(["inspect", url, "--json"]);
    const report = JSON.parse(stdout) as Report;
    const lines = (about: string): string[] =>
      report.findings.filter((each) => each.about === about).map(({ severity, text }) => `${severity}: ${text}`);
    return { ...report, code, say: (about) => lines(about).join("\n") };
  }

  test("a registry is described", async () => {
    const { url, admin } = await sandbox({ cacheControl: "max-age=60", apis: "v1" });
    const { code, say, isGateway } = await inspect(`${url}/registry/`);
    expect([code, isGateway]).toEqual([0, false]);
    expect(say("admin")).toBe(`good: ${admin}`);
    expect(say("APIs named")).toContain("splice-api-token-allocation-instruction-v1");
    expect(say("APIs served")).toBe("note: transfer-instruction-v1, allocation-instruction-v1, allocation-v1");
    expect(say("page size")).toBe("good: pageSize=1000 gives 60\nnote: pageSize=0 is 400, application/json");
    expect(say("paging")).toBe("good: without pageSize 60 instruments in 3 pages, to the end");
    expect(say("errors")).toMatch(/^good: an unknown instrument is 404.*\ngood: a broken body is 400/);
    expect(say("freshness")).toContain("info: cache-control: max-age=60");
    expect(say("CORS")).toBe("good: pages of other origins may call it");
    expect(say("TLS")).toBe("note: none: it is read in the clear");
    expect(say("latency")).toMatch(/median \d+ ms/);
    expect(say("rate limit")).toBe("note: none was met");
  });

  test("people read it as a table", async () => {
    const { url, admin } = await sandbox();
    const { stdout } = await command(["inspect", url]);
    expect(stdout).toMatch(new RegExp(`^admin {2,}good {2,}${admin}$`, "m"));
  });

  test("a 429 is waited for, and is no answer to what was asked", async () => {
    const server = createServer((request, response) => {
      request.resume();
      asked += 1;
      if (asked === 1) response.writeHead(429, { "retry-after": "0" }).end("busy");
      else response.setHeader("content-type", "application/json").end(infoBody({ "splice-api-token-metadata-v1": 2 }));
    });
    let asked = 0;
    const { say, code } = await inspect(await listen(server));
    expect(code).toBe(1);
    expect(say("admin")).toBe(`good: ${OTHER}`);
    expect(say("rate limit")).toMatch(/^warning: 1 of \d+ answers were 429, Retry-After: 0$/);
    expect(say("APIs named")).toContain("warning: clients count 1 alone: splice-api-token-metadata-v1");
    expect(say("paging")).toMatch(/^error: page 1 is no page of instruments/);
  });

  test("a listing that never ends is an error", async () => {
    const server = createServer((request, response) => {
      request.resume();
      const page = JSON.stringify({ instruments: [], nextPageToken: "again" });
      response.setHeader("content-type", "application/json");
      response.end(request.url!.includes("/instruments") ? page : infoBody({}));
    });
    const { say, code } = await inspect(await listen(server));
    expect(code).toBe(1);
    expect(say("paging")).toMatch(/^error: .* a token comes back: it never ends$/);
  });

  it.each([
    ["html-404", /^error: its info is 404, text\/html, a web page: the URL is probably wrong$/],
    ["bad-json", /^error: it answers no info of a registry/],
    ["error-500", /^error: its info is 500, application\/json$/],
  ] as const)("where %s answers, that is all", async (fault, text) => {
    const { url } = await sandbox({ faults: { [fault]: 1 } });
    const { code, say } = await inspect(url);
    expect([code, say("admin")]).toEqual([1, expect.stringMatching(text)]);
  });

  test("where nothing answers, it says so", async () => {
    const { code, say } = await inspect(DEAD);
    expect([code, say("answers")]).toEqual([1, "error: nothing listens there"]);
  });
});

function infoBody(supportedApis: object): string {
  return JSON.stringify({ adminId: OTHER, supportedApis });
}

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  atEnd(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe("import", () => {
  function listOf(...entries: [admin: string, ...urls: string[]][]): string {
    const assets = entries.map(([admin, ...registryURLs]) => ({ instrumentId: { admin, id: "x" }, registryURLs }));
    return JSON.stringify({ MainNet: assets, TestNet: [] });
  }

  test("a list becomes upstreams that the program takes", async () => {
    const list = fileOf(listOf([OTHER, "https://a.example/registry/"], ["no party", "https://b.example"]), "list.json");
    const { code, stdout, stderr } = await command(["import", list]);
    expect(code).toBe(0);
    expect(parse(stdout)).toEqual({ upstreams: [{ name: "other", admin: OTHER, urls: ["https://a.example"] }] });
    expect(stderr).toMatch(/"MainNet", entry 1: names no party/);
    expect((await command(["check", "--config", fileOf(stdout)])).code).toBe(0);
  });

  test("a list is read from a URL, and one network may be chosen", async () => {
    const server = createServer((_request, response) => response.end(listOf([OTHER, "https://a.example"])));
    const url = await listen(server);
    expect((await command(["import", url, "--network", "MainNet"])).stdout).toContain("name: other");
    const none = await command(["import", url, "--network", "DevNet"]);
    expect([none.code, none.stderr]).toEqual([1, expect.stringContaining('it has "MainNet", "TestNet"')]);
  });

  test("verified, each URL is asked whose it is, and what does not fit is left out", async () => {
    const [one, two] = [await sandbox({ name: "one" }), await sandbox({ name: "two" })];
    const wrong = await sandbox({ name: "wrong", faults: { "html-404": 1 } });
    const entries: [string, ...string[]][] = [
      [one.admin, one.url, two.url, DEAD],
      [OTHER, wrong.url],
    ];
    const { code, stdout } = await command(["import", fileOf(listOf(...entries), "list.json"), "--verify"]);
    expect(code).toBe(0);
    expect(parse(stdout)).toEqual({ upstreams: [{ name: "one", admin: one.admin, urls: [one.url] }] });
    expect(stdout).toContain(`# left out: ${two.url} is of another admin, "${two.admin}"`);
    expect(stdout).toContain(`# left out: ${DEAD} does not answer: nothing listens there`);
    expect(stdout).toContain(`# left out: ${wrong.url} is no registry: its info is 404`);
    expect(stdout).toContain(`# left out: ${OTHER}: none of its URLs fits`);
  });

  it.each([
    ["<html>", /is a web page/],
    [undefined, /is not there/],
  ])("%s is no list", async (text, message) => {
    const file = text === undefined ? join(temporaryFolder(), "none.json") : fileOf(text, "list.json");
    const { code, stdout, stderr } = await command(["import", file]);
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(message);
  });
});

describe("sandbox", () => {
  test("it prints where it is, has the faults that it is told, and ends with Ctrl-C", async () => {
    const child = new Child([
      "sandbox",
      "--port",
      "0",
      "--name",
      "mine",
      "--instruments",
      "7",
      "--fault",
      "html-502=1",
    ]);
    const url = await until(() => /base URL {2}(\S+)/.exec(child.stdout)?.[1]);
    expect(child.stdout).toMatch(/admin {5}mine::1220/);
    expect((await fetch(`${url}/registry/metadata/v1/instruments`)).status).toBe(502);
    child.signal("SIGINT");
    expect(await child.ended).toBe(0);
  });

  test("a port that is taken is said", async () => {
    const { url } = await sandbox();
    const { code, stderr } = await command(["sandbox", "--port", new URL(url).port]);
    expect([code, stderr]).toEqual([1, expect.stringContaining("the port is taken. Choose another --port")]);
  });

  it.each([
    [["--fault", "none=1"], /there is no fault none/],
    [["--fault", "slow=2"], /the rate of slow is a share from 0 to 1/],
    [["--rate-limit", "often"], /It is a rate such as 120\/1m/],
    [["--latency", "long"], /It is a duration such as 400ms/],
    [["--paging", "maybe"], /Allowed choices are token-id/],
  ])("%j is refused", async (args, message) => {
    const { code, stderr } = await command(["sandbox", "--port", "0", ...args]);
    expect([code, stderr]).toEqual([1, expect.stringMatching(message)]);
  });
});

describe("clients", () => {
  test("a new key is printed once, and its line is one of a good keys file", async () => {
    const made = await command(["clients", "new", "acme", "--tier", "partner", "--expires", "90d"]);
    expect(made.stdout.match(/rgk_[A-Za-z0-9_-]{43}_[0-9a-f]{8}/g)).toHaveLength(1);
    const line = made.stdout.trimEnd().split("\n").at(-1)!;
    const { expires, ...others } = JSON.parse(line) as Record<string, string>;
    expect(others).toEqual({ name: "acme", tier: "partner", digest: expect.any(String) as string });
    expect((Date.parse(expires!) - Date.now()) / 86_400_000).toBeCloseTo(90, 1);
    const file = fileOf(`${line}\n`, "clients.jsonl");
    const checked = await command(["clients", "check", file]);
    expect([checked.code, checked.stdout]).toEqual([0, `${file} is good: keys: 1, clients: 1\n`]);
    writeFileSync(file, readFileSync(file, "utf8").replace(expires!, "2020-01-01T00:00:00Z"));
    expect((await command(["clients", "check", file])).stderr).toContain("warning: a key of acme has expired");
  });

  test("what is wrong with a keys file is said with its line", async () => {
    const file = fileOf('\n{"name":"a","tier":"t"}\n', "clients.jsonl");
    const { code, stderr } = await command(["clients", "check", file]);
    expect([code, stderr]).toEqual([78, expect.stringContaining(`${file}:2: digest must be`)]);
    expect((await command(["clients", "check", `${file}.none`])).code).toBe(78);
  });

  it.each([
    [[" a"], /name must be/],
    [["a", "--tier", "no tier"], /tier must be/],
    [["a", "--expires", "soon"], /--expires takes how long/],
    [["a", "--expires", "2020-01-01T00:00:00Z"], /a time in the future/],
  ])("no key is made for %j", async (args, message) => {
    const { code, stdout, stderr } = await command(["clients", "new", ...args]);
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(message);
  });
});
