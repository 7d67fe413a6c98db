import { createServer, type RequestListener } from "node:http";
import { createServer as createTcpServer, type Server } from "node:net";
import type { AddressInfo } from "node:net";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { ask } from "../../src/commands/operations-client.ts";
import { type Outcome, runHere } from "../support/command.ts";
import { type GatewayUnderTest, startGateway } from "../support/gateway.ts";
import { findFreePort } from "../support/ports.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { DSO } from "../support/sample.ts";
import { useTemporaryFolder } from "../support/temporary-folder.ts";
import { thisReplica } from "../../src/version.ts";

const startRegistry = useSampleRegistries();
const folder = useTemporaryFolder();

const TOKEN = "operations-token";

let gateway: GatewayUnderTest | undefined;
afterEach(() => gateway?.stop());

async function startOne(operations: Record<string, unknown> = {}): Promise<GatewayUnderTest> {
  const registry = await startRegistry();
  const dead = `http://127.0.0.1:${await findFreePort()}`;
  gateway = await startGateway({
    operations: { host: "127.0.0.1", port: 0, ...operations },
    upstreams: [
      { name: "amulet", admin: DSO, urls: [registry.url, dead] },
      { name: "gone", admin: "gone::1220ab", urls: [dead] },
    ],
  });
  expect((await fetch(`${gateway.registrar("amulet")}/registry/metadata/v1/instruments`)).status).toBe(200);
  return gateway;
}

function fileWith(name: string, text: string): string {
  const file = join(folder(), name);
  writeFileSync(file, text);
  return file;
}

function inJson({ code, stdout, stderr }: Outcome): unknown {
  expect([code, stderr]).toEqual([0, ""]);
  return JSON.parse(stdout);
}

/** What stderr says, on its one line. */
async function refusalOf(args: readonly string[], code = 1): Promise<string> {
  const outcome = await runHere(args);
  expect([outcome.code, outcome.stdout]).toEqual([code, ""]);
  expect(outcome.stderr.split("\n")).toHaveLength(2);
  return outcome.stderr;
}

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function answerWith(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  onTestFinished(() => server.closeAllConnections());
  return listen(server);
}

describe("status, nodes and upstreams", () => {
  test("print tables that fit the terminal, and why something is not well", async () => {
    const { operations } = await startOne();
    for (const command of ["status", "nodes", "upstreams"]) {
      const { code, stdout, stderr } = await runHere([command, "--url", operations]);
      expect([code, stderr]).toEqual([0, ""]);
      for (const line of stdout.split("\n")) expect(line.length).toBeLessThanOrEqual(100);
      expect(stdout).toMatch(/^UPSTREAM +/m);
      expect(stdout).toMatch(/^amulet +/m);
      expect(stdout).toMatch(/^gone(, node 0)?: \S/m);
    }
    const { stdout } = await runHere(["status", "--url", operations]);
    expect(stdout).toMatch(
      /^registry-gateway 0\.0\.0-test on \S+\/[0-9]+ has run for .*: [01] of 2 registries are well\./m,
    );
    expect(stdout).toMatch(/^memory +\d+ entries, \S+ \w+ of 64 MiB/m);
  });

  test("show one upstream alone, and say when there is none of its name", async () => {
    const { operations } = await startOne();
    for (const command of ["nodes", "upstreams"]) {
      const { stdout } = await runHere([command, "gone", "--url", operations]);
      expect(stdout).toContain("gone");
      expect(stdout).not.toContain("amulet");
      expect(await refusalOf([command, "other", "--url", operations])).toContain('no upstream "other"');
    }
  });

  test("print with --json what the listener answers", async () => {
    const { operations } = await startOne();
    for (const command of ["status", "nodes", "upstreams"]) {
      expect(inJson(await runHere([command, "--json", "--url", operations]))).toMatchObject({
        version: "0.0.0-test",
        upstreams: [{ name: "amulet", admin: DSO }, { name: "gone" }],
      });
    }
  });
});

describe("nodes and upstreams", () => {
  test("cordon a node and bring it back, and have an upstream answer from the cache alone", async () => {
    const { operations } = await startOne();
    const act = (...args: string[]) => runHere([...args, "--url", operations]);
    const cordoned = await act("nodes", "cordon", "amulet", "1", "--for", "30m", "--reason", "disk full");
    expect([cordoned.code, cordoned.stderr]).toEqual([0, ""]);
    expect(cordoned.stdout).toMatch(
      /^amulet, node 1 \(http:\S+\): cordoned, until \S+ \(disk full\); on\s+this replica$/m,
    );
    expect((await act("nodes", "amulet")).stdout).toMatch(/^amulet +1 +\S+, cordoned /m);
    expect(await refusalOf(["nodes", "cordon", "amulet", "0", "--url", operations])).toContain("(409)");
    expect(await refusalOf(["nodes", "cordon", "amulet", "7", "--url", operations])).toContain("(404)");
    const mode = await act("upstreams", "cache-only", "amulet", "--reason", "maintenance");
    expect(mode.stdout).toBe("amulet: cache-only (maintenance); on this replica\n");
    const { stdout } = await act("status");
    expect(stdout).toMatch(/^amulet +\S+ +cache-only /m);
    expect(stdout).toMatch(/^In force, by operators:\n(.*\n)*amulet, node 1 \(http:\S+\): cordoned.*\n/m);
    expect((await act("nodes", "activate", "amulet", "1")).stdout).toMatch(/^amulet, node 1 .*: active/);
    expect((await act("upstreams", "normal", "amulet")).stdout).toContain("amulet: normal");
    expect((await act("status")).stdout).not.toContain("In force");
  });
});

describe("purge", () => {
  test("shows what operators did, page by page", async () => {
    const { operations } = await startOne();
    const url = ["--url", operations];
    for (const mode of ["cache-only", "normal"]) {
      expect((await runHere(["upstreams", mode, "amulet", ...url])).code).toBe(0);
    }
    const first = await runHere(["audit", "--limit", "1", ...url]);
    expect([first.code, first.stderr]).toEqual([0, ""]);
    expect(first.stdout).toMatch(
      /^AT +BY +DID +WHAT +REACHED\n\S+Z +no token +upstream +\{"upstream":"amulet","mode":"normal"\}/,
    );
    const [, next] = /--before (\S+)/.exec(first.stdout)!;
    const second = await runHere(["audit", "--before", next!, ...url]);
    expect(second.stdout).toContain('"cache-only"');
    expect(second.stdout).not.toMatch(/"normal"|--before/);
    expect((await runHere(["audit", "--limit", "0", ...url])).stderr).toContain(
      "limit must be a whole number from 1 to 500",
    );
  });

  test("purges what it names, so that the next request asks the registry", async () => {
    const started = await startOne();
    const { operations } = started;
    const cacheStatus = async () => {
      const answer = await fetch(`${started.registrar("amulet")}/registry/metadata/v1/instruments`);
      await answer.text();
      return answer.headers.get("cache-status");
    };
    expect(await cacheStatus()).toContain("hit");
    const purged = await runHere(["purge", "amulet", "--endpoint", "instruments", "--url", operations]);
    expect(purged).toEqual({ code: 0, stdout: "purged: amulet, instruments; on this replica\n", stderr: "" });
    expect(await cacheStatus()).toContain("fwd=");
    expect(await cacheStatus()).toContain("hit");
    const all = await runHere(["purge", "--all", "--url", operations]);
    expect([all.code, all.stdout]).toEqual([0, "purged: everything; on this replica\n"]);

    const nobody = "http://127.0.0.1:1";
    const several = await runHere(["purge", "--all", nobody, operations]);
    expect(several.code).toBe(1);
    expect(several.stdout).toBe(`${nobody}\n${operations}\npurged: everything; on this replica\n`);
    expect(several.stderr).toContain(`${nobody}/ does not answer`);
    expect(await cacheStatus()).toContain("fwd=");
    const one = await runHere(["purge", "amulet", "--instrument", "Amulet", "--json", "--url", operations]);
    expect(inJson(one)).toEqual({
      purged: { upstream: "amulet", endpoint: "instrument", instrument: "Amulet" },
      scope: "replica",
      replicas: { took: [expect.objectContaining({ name: thisReplica.name })], missing: [], of: 1 },
    });
  });

  test("says what the listener refuses", async () => {
    const { operations } = await startOne();
    expect(await refusalOf(["purge", "other", "--url", operations])).toContain('(404): there is no upstream "other"');
    expect(await refusalOf(["purge", "amulet", "--endpoint", "x", "--url", operations])).toContain("(400): the purge");
  });

  test.each([
    [["purge"], "--all"],
    [["purge", "amulet", "--all"], "--all"],
    [["purge", "amulet", "bonds"], "--all"],
    [["purge", "--all", "http://127.0.0.1:9090", "--url", "http://127.0.0.1:9091"], "--url"],
    [["purge", "--all", "--instrument", "x"], "--instrument"],
    [["nodes", "cordon", "amulet"], "cordon UPSTREAM NODE"],
    [["nodes", "drain", "amulet", "0"], "cordon UPSTREAM NODE"],
    [["nodes", "cordon", "amulet", "first"], "NODE"],
    [["nodes", "cordon", "amulet", "0", "--weight", "101"], "--weight"],
    [["nodes", "--for", "30m"], "--for"],
    [["upstreams", "off", "amulet"], "cache-only"],
    [["status", "--url", "localhost:9090"], "--url"],
    [["status", "--url", "http://user:secret@localhost:9090"], "--token-file"],
    [["explain", "localhost/x"], "explain"],
  ])("%j is not understood", async (args, why) => {
    const { code, stdout, stderr } = await runHere(args);
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toContain(why);
    expect(stderr).not.toContain("secret");
  });
});

const named = (...names: string[]) => names.map((name) => ({ name, version: "0.2.0", revision: "-" }));

describe("nodes and upstreams send what they are told", () => {
  const NODE = {
    upstream: "a",
    node: 1,
    url: "https://b.example",
    state: "cordoned",
    weight: null,
    mode: null,
    reason: "disk",
    until: "T",
  };
  test.each([
    [
      ["nodes", "cordon", "a", "1", "--for", "30m", "--reason", "disk", "--force"],
      "POST /nodes",
      { upstream: "a", node: 1, state: "cordoned", for: "30m", reason: "disk", force: true },
      "a, node 1 (https://b.example): cordoned, until T (disk); on 2 of 3 replicas, not yet on c (0.2.0)\n",
      NODE,
    ],
    [
      ["nodes", "activate", "a", "0", "https://b.example", "--weight", "50"],
      "POST /nodes",
      { upstream: "a", node: 0, url: "https://b.example", state: "active", weight: 50 },
      "a, node 0 (https://b.example): active, weight 50; on 3 of 3 replicas\n",
      { ...NODE, node: 0, state: "active", weight: 50, reason: null, until: null },
    ],
    [
      ["upstreams", "cache-only", "a", "--for", "5m"],
      "POST /upstreams",
      { upstream: "a", mode: "cache-only", for: "5m" },
      "a: cache-only; on this replica\n",
      { upstream: "a", node: null, state: null, weight: null, mode: "cache-only", reason: null, until: null },
    ],
  ])("%j", async (args, request, body, printed, action) => {
    const replicas = {
      "POST /nodes":
        action.node === 1
          ? { took: named("a", "b"), missing: named("c"), of: 3 }
          : { took: named("a", "b", "c"), missing: [], of: 3 },
      "POST /upstreams": { took: named("a"), missing: [], of: 1 },
    }[request];
    const seen: unknown[] = [];
    const url = await answerWith((incoming, response) => {
      let text = "";
      incoming.on("data", (chunk: Buffer) => (text += chunk.toString()));
      incoming.on("end", () => {
        seen.push(`${incoming.method} ${incoming.url}`, incoming.headers["content-type"], JSON.parse(text));
        response.end(JSON.stringify({ action, scope: "fleet", replicas }));
      });
    });
    expect(await runHere([...args, "--url", url])).toEqual({ code: 0, stdout: printed, stderr: "" });
    expect(seen).toEqual([request, "application/json", body]);
  });
});

describe("the address and the token", () => {
  test("come from the configuration: its file may name the token's", async () => {
    const port = await findFreePort();
    const { operations } = await startOne({ port, token: TOKEN });
    const tokenFile = fileWith("token", `${TOKEN}\n`);
    const upstreams = "upstreams: [{ name: a, urls: ['http://127.0.0.1:1'] }]\n";
    const file = fileWith(
      "gateway.yaml",
      `operations: { host: 0.0.0.0, port: ${port}, tokenFile: token }\n${upstreams}`,
    );
    expect((await runHere(["status", "--config", file])).code).toBe(0);
    expect((await runHere(["status"], { GATEWAY_CONFIG: file })).code).toBe(0);
    expect((await runHere(["status", "--url", operations, "--token-file", tokenFile])).code).toBe(0);
    expect((await runHere(["status", "--url", operations, "--config", file])).code).toBe(0);
  });

  test("401: a token is not sent to a URL for which none was named", async () => {
    const seen: unknown[] = [];
    const url = await answerWith(({ headers }, response) => {
      seen.push(headers.authorization);
      response.writeHead(401, { "registry-gateway-error": "unauthenticated" }).end('{"error":"registry-gateway: no"}');
    });
    const file = fileWith(
      "gateway.yaml",
      `operations: { token: ${TOKEN} }\nupstreams: [{ name: a, urls: ['http://127.0.0.1:1'] }]\n`,
    );
    const outcome = await runHere(["status", "--url", url], { GATEWAY_CONFIG: file });
    expect([outcome.code, outcome.stderr]).toEqual([1, expect.stringMatching(/\(401\): no\. .*--token-file/)]);
    expect(seen).toEqual([undefined]);
  });

  test.each([
    ["a configuration that is not there", undefined, /there is no such file\n.*--url/],
    ["a bad one", "operations: { port: none }\n", /operations\.port.*\n(.*\n)*.*--url/],
  ])("%s is 78", async (_what, text, why) => {
    const file = text === undefined ? join(folder(), "nowhere.yaml") : fileWith("gateway.yaml", text);
    for (const command of ["status", "nodes", "upstreams"]) {
      const { code, stdout, stderr } = await runHere([command, "--config", file]);
      expect([code, stdout]).toEqual([78, ""]);
      expect(stderr).toMatch(why);
    }
  });

  test("a configuration that is bad elsewhere still names the listener and its token", async () => {
    const { operations } = await startOne({ token: TOKEN });
    const { port } = new URL(operations);
    const text = `operations: { port: ${port}, token: ${TOKEN} }\nupstreams: [{ name: a, url: nowhere }]\nlisten: 7\n`;
    const { code, stdout } = await runHere(["status", "--config", fileWith("gateway.yaml", text)]);
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^amulet +/m)]);
  });

  test("a secret without quotes, for which YAML has a warning, is repeated in none", async () => {
    const { operations } = await startOne({ token: TOKEN });
    const { port } = new URL(operations);
    const text = `operations: { port: ${port}, token: ${TOKEN} }\nredis: { url: !Tr0ub4dor3 }\n`;
    const warnings = vi.spyOn(process, "emitWarning").mockReturnValue();
    const { code } = await runHere(["status", "--config", fileWith("gateway.yaml", text)]);
    expect([code, warnings.mock.calls]).toEqual([0, []]);
    warnings.mockRestore();
  });

  test("the last node is cordoned by --force, which the refusal names as it is given here", async () => {
    const { operations } = await startOne();
    const refusal = await refusalOf(["nodes", "cordon", "gone", "0", "--url", operations]);
    expect(refusal).toContain("add --force to cordon it all the same");
    const { code } = await runHere(["nodes", "cordon", "gone", "0", "--force", "--url", operations]);
    expect(code).toBe(0);
  });

  test("a port that is any free one cannot be known, nor a token without its file", async () => {
    const text = "operations: { port: 0 }\nupstreams: [{ name: a, urls: ['http://127.0.0.1:1'] }]\n";
    expect(await refusalOf(["status", "--config", fileWith("gateway.yaml", text)])).toContain("operations.port is 0");
    const missing = join(folder(), "missing");
    expect(await refusalOf(["status", "--token-file", missing])).toContain(`${missing} is not there`);
  });
});

describe("what does not answer as an operations listener is told with what to do:", () => {
  test("a port where nothing listens", async () => {
    const url = `http://127.0.0.1:${await findFreePort()}`;
    expect(await refusalOf(["status", "--url", url])).toMatch(/nothing listens there.*operations\.port/);
  });

  test("the public listener, and a path below", async () => {
    const { url } = await startOne();
    expect(await refusalOf(["status", "--url", url])).toMatch(/\(404\).* Is it the operations listener/);
  });

  test("a host that it does not answer to", async () => {
    const url = await answerWith((_request, response) => {
      const text = '{"error":"registry-gateway: this listener does not answer to the host \\"x\\""}';
      response.writeHead(421, { "registry-gateway-error": "misdirected_request" }).end(text);
    });
    expect(await refusalOf(["status", "--url", url])).toMatch(/\(421\): this listener.*operations\.hosts/);
  });

  test("a purge that other replicas do not know of yet", async () => {
    const url = await answerWith((_request, response) => {
      response.writeHead(503, { "registry-gateway-error": "redis_away", "retry-after": "5" });
      response.end('{"error":"registry-gateway: purged on this replica only: Redis is away"}');
    });
    expect(await refusalOf(["purge", "--all", "--url", url])).toMatch(/\(503\): purged on this .* Try again in 5 s\./);
  });

  test.each<[string, RequestListener, RegExp]>([
    ["a page", (_request, response) => response.end("<html>"), /does not answer with JSON/],
    ["other JSON", (_request, response) => response.end('{"upstreams":[{}]}'), /of another form/],
    ["null", (_request, response) => response.end("null"), /of another form/],
    ["an error page", (_request, response) => response.writeHead(500).end("<html>"), /\(500\): it does not say why/],
    ["a redirect", (_request, response) => response.writeHead(302, { location: "/x" }).end(), /\(302\)/],
    ["no answer", ({ socket }) => socket.destroy(), /closes the connection/],
    ["an endless answer", (_request, response) => endless(response), /more than 32MiB/],
  ])("%s", async (_what, listener, why) => {
    const url = await answerWith(listener);
    for (const command of ["status", "nodes"]) expect(await refusalOf([command, "--url", url])).toMatch(why);
  });

  test("something that never answers, in time", async () => {
    const url = await listen(createTcpServer((socket) => onTestFinished(() => void socket.destroy())));
    const asked = ask({ url: `${url}/`, token: undefined, deadline: 300 }, { path: "status" });
    await expect(asked).rejects.toThrow(`${url}/ does not answer within 0.3 s`);
  });

  test("something that begins to answer and never ends, in time", async () => {
    const url = await answerWith((_request, response) => void response.writeHead(200).write("{"));
    const asked = ask({ url: `${url}/`, token: undefined, deadline: 300 }, { path: "status" });
    await expect(asked).rejects.toThrow(`${url}/ does not answer within 0.3 s`);
  });
});

function endless(response: Parameters<RequestListener>[1]): void {
  const chunk = Buffer.alloc(1024 * 1024, " ");
  const write = () => {
    while (response.write(chunk));
  };
  response.on("drain", write);
  write();
}

describe("explain tells in words", () => {
  test("what is stored, where, for how long, and what the next request gets", async () => {
    const started = await startOne();
    const { operations } = started;
    const url = `${started.registrar("amulet")}/registry/metadata/v1/instruments`;
    const { code, stdout } = await runHere(["explain", `${url}#top`, "--url", operations]);
    expect(code).toBe(0);
    for (const line of stdout.split("\n")) expect(line.length).toBeLessThanOrEqual(100);
    expect(stdout).toMatch(/^registry: amulet, admin/);
    expect(stdout).toMatch(/^The next request is answered from memory: fresh for another \d+(\.\d)? s\.$/m);
    expect(stdout).toMatch(/^Entry 1, in memory: status 200, \S+ \w+, ETag/m);
    expect(stdout).toMatch(/^ {2}when stale: used while it is refreshed for 30 s, by cache\.staleWhileRevalidate$/m);
    await runHere(["purge", "amulet", "--url", operations]);
    const purged = await runHere(["explain", url, "--url", operations]);
    expect(purged.stdout).toContain("The next request asks the registry: the stored answer is purged.");
  });

  test("why nothing is ever stored, and why a path is refused", async () => {
    const started = await startOne();
    const { operations } = started;
    const factory = `${started.registrar("amulet")}/registry/transfer-instruction/v1/transfer-factory`;
    const { code, stdout } = await runHere(["explain", factory, "--url", operations]);
    expect([code, stdout]).toEqual([0, expect.stringContaining("Never answered from the cache: factories")]);
    expect(await refusalOf(["explain", "/nowhere", "--url", operations])).toContain("(404)");
  });
});
