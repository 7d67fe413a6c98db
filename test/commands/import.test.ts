import { createServer, type RequestListener, type Server } from "node:http";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { parseConfig } from "../../src/config/parse.ts";
import { type Outcome, runHere, useCommands } from "../support/command.ts";
import { SampleRegistry } from "../support/sample-registry.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const PUBLISHED = join(root, "test/fixtures/asset-lists/two-networks.json");

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "registry-gateway-import-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

const closing: (() => unknown)[] = [];
afterEach(async () => {
  await Promise.all(closing.splice(0).map((close) => close()));
});

const run = useCommands();

const importFile = (...args: string[]): Promise<Outcome> => runHere(["import", ...args]);

function write(json: unknown): string {
  const file = join(folder, `${Math.random()}.json`);
  writeFileSync(file, typeof json === "string" ? json : JSON.stringify(json));
  return file;
}

interface Listed {
  readonly symbol: string;
  readonly admin?: string;
  readonly registryURLs: readonly unknown[];
}

function listOf(...assets: readonly Listed[]): string {
  return write({ one: assets.map((asset) => Object.assign({ instrumentId: { admin: asset.admin } }, asset)) });
}

function upstreamsOf({ stdout }: Outcome) {
  const { config, problems } = parseConfig({ text: stdout, file: "imported", env: { HOME: "stolen" } });
  expect(problems).toEqual([]);
  return config!.upstreams.map(({ name, enabled, admin, urls }) => ({ name, enabled, admin, urls }));
}

async function startSample(admin: string): Promise<SampleRegistry> {
  const registry = new SampleRegistry({ admin, clock: systemClock() });
  await registry.start();
  closing.push(() => registry.stop());
  return registry;
}

async function startServer(listener: RequestListener): Promise<string> {
  const server: Server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe("import", () => {
  test("turns a published list into upstreams, one for each admin, with all its nodes", async () => {
    const ended = await importFile(PUBLISHED);
    expect(ended.code).toBe(0);
    expect(ended.stderr).toContain("No registry");
    expect(upstreamsOf(ended)).toEqual([
      {
        name: "DSO",
        enabled: true,
        admin: expect.stringMatching(/^DSO::122013f1/),
        urls: ["https://registry.one.example", "https://registry.two.example"],
      },
      expect.objectContaining({
        name: "cbtc-network-sample",
        urls: ["https://bonds.example/api/token-standard/v0/registrars/cbtc"],
      }),
      expect.objectContaining({ name: "DSO-2", admin: expect.stringMatching(/aaaa$/) }),
    ]);
  });

  test("reads a list in the form in which it is published", async () => {
    const ended = await importFile(join(root, "test/fixtures/asset-lists/published.json"), "--network", "MainNet");
    expect([ended.code, ended.stderr]).toEqual([0, ""]);
    const registrar = (admin: string) => `https://utilities.example/api/token-standard/v0/registrars/${admin}`;
    const [, dollar, basket] = upstreamsOf(ended).map(({ admin }) => admin!);
    expect(upstreamsOf(ended)).toEqual([
      expect.objectContaining({
        name: "DSO",
        urls: [1, 2, 3, 4].map((n) => `https://scan.sv-${n}.network.example/api/scan`),
      }),
      expect.objectContaining({ name: "dollar-rep", urls: [registrar(dollar!)] }),
      expect.objectContaining({ name: "basket-issuer", urls: [registrar(basket!)] }),
    ]);
  });

  test("names ten of the networks that a list has where the one that is asked for is not there", async () => {
    const networks = Object.fromEntries(Array.from({ length: 90_000 }, (_, at) => [`net-${at}`, []]));
    const { code, stderr } = await importFile(write(JSON.stringify(networks)), "--network", "MainNet");
    expect(code).toBe(1);
    expect(stderr).toContain('"net-9" and 89990 more');
    expect(stderr.length).toBeLessThan(500);
  });

  test("refuses a file that is larger than any list", async () => {
    const ended = await importFile(write(`{"MainNet":[]${" ".repeat(10 * 2 ** 20)}}`));
    expect([ended.code, ended.stdout]).toEqual([1, ""]);
    expect(ended.stderr).toContain("is larger than 4MiB");
  });

  test("takes one network where one is asked for", async () => {
    const ended = await importFile(PUBLISHED, "--network", "testnet");
    expect(upstreamsOf(ended).map(({ urls }) => urls)).toEqual([["https://registry.test.example"]]);
    const unknown = await importFile(PUBLISHED, "--network", "moon");
    expect([unknown.code, unknown.stdout]).toEqual([1, ""]);
    expect(unknown.stderr).toContain('it has "mainnet", "testnet"');
  });

  test("writes what a list says as text, whatever it says", async () => {
    const registryURLs = ["https://a.example/${HOME}"];
    const ended = await importFile(
      write({
        "\u001b[31m": [
          { symbol: "x\u001b[31m", instrumentId: { admin: "${HOME}\n# \"': {}\u0007::1220" }, registryURLs },
          { symbol: "y", instrumentId: { admin: "y::1220" }, registryURLs },
        ],
      }),
    );
    for (const control of ["\u0007", "\u001b"]) expect(ended.stdout + ended.stderr).not.toContain(control);
    expect([ended.code, upstreamsOf(ended).map(({ urls }) => urls)]).toEqual([0, [["https://a.example/$%7BHOME%7D"]]]);
  });

  test("prints with exit 0 what check takes: no admin that is none, nor one in two spellings", async () => {
    const registryURLs = ["https://a.example"];
    const twice = ["bar::1220AB", "bar::1220ab"].map((admin) => ({ symbol: admin, admin, registryURLs }));
    const spelled = await importFile(listOf(...twice));
    expect([spelled.code, upstreamsOf(spelled).map(({ admin }) => admin)]).toEqual([1, ["bar::1220AB"]]);
    expect(spelled.stderr).toContain('"bar::1220AB" on "one" and "bar::1220ab" on "one" are one admin');

    const foo = { symbol: "Foo", admin: "foo", registryURLs };
    const alone = await importFile(listOf(foo));
    expect([alone.code, alone.stdout]).toEqual([1, "upstreams: []\n"]);
    const beside = await importFile(listOf(foo, twice[0]!));
    expect([beside.code, upstreamsOf(beside).map(({ name }) => name)]).toEqual([0, ["bar"]]);
    expect(beside.stderr).toContain('"one: Foo": names an admin that is no party id; left out');

    const many = Array.from({ length: 1_001 }, (_, at) => ({ symbol: "X", admin: `x${at}::1220`, registryURLs }));
    const more = await importFile(listOf(...many));
    expect([more.code, more.stderr]).toEqual([1, "upstreams: has 1001 items: at most 1000 are allowed\n"]);
  });

  test("writes a base that ends in /registry so that it is read as that base", async () => {
    const ended = await importFile(
      listOf({ symbol: "X", admin: "x::1220", registryURLs: ["https://x.example/registry/registry/"] }),
    );
    expect([ended.code, upstreamsOf(ended).map(({ urls }) => urls)]).toEqual([0, [["https://x.example/registry"]]]);
  });

  test("leaves out a URL that is longer than any, and says only how it begins", async () => {
    const long = `https://x.example/${"x".repeat(100_000)}`;
    const ended = await importFile(
      listOf({ symbol: "X", admin: "x::1220", registryURLs: [long, "https://x.example"] }),
    );
    expect(upstreamsOf(ended).map(({ urls }) => urls)).toEqual([["https://x.example"]]);
    expect(ended.stderr).toContain("is longer than 2048 characters");
    expect(ended.stderr.length).toBeLessThan(500);
  });

  test("leaves out what is no URL, and the second network of an admin, and says so", async () => {
    const bad = await importFile(
      listOf({ symbol: "X", admin: "x::1220", registryURLs: ["ftp://x.example", "https://u:p@x.example", 7] }),
    );
    expect([bad.code, bad.stdout.trim()]).toEqual([1, "upstreams: []"]);
    expect(bad.stderr).toContain("must begin with http:// or https://");
    const assets = (url: string) => [{ instrumentId: { admin: "x::1220" }, registryURLs: [url] }];
    const twice = await importFile(write({ a: assets("https://a.example"), b: assets("https://b.example") }));
    expect(twice.code).toBe(1);
    expect(twice.stderr).toContain("choose with --network");
    expect(upstreamsOf(twice).map(({ urls }) => urls)).toEqual([["https://a.example"]]);
  });

  test.each([
    ["no JSON", "{"],
    ["no networks", "{}"],
    ["an object of texts", '{"version":"1.0.0"}'],
    ["a web page", "<!doctype html><title>assets</title>"],
    ["a list", "[]"],
    ["an object of objects", '{"MainNet":{}}'],
  ])("says that %s is no asset list", async (_, text) => {
    const { code, stdout, stderr } = await importFile(write(text));
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).not.toContain("    at ");
  });
});

describe("import --verify", () => {
  test("connects to no address of this machine or its network", async () => {
    const registry = await startSample("a::1220");
    const { port } = new URL(registry.url);
    const hosts = ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1"];
    const list = listOf(
      ...hosts.map((host, at) => ({ symbol: host, admin: `a${at}::1220`, registryURLs: [`http://${host}:${port}`] })),
    );
    const ended = await importFile(list, "--verify");
    expect(ended.code).toBe(1);
    expect(ended.stderr.match(/is at an address that is not public/g)).toHaveLength(hosts.length);
    expect(registry.connections.accepted).toBe(0);
    expect(upstreamsSwitchedOff(ended)).toBe(hosts.length);
  });

  test("with --allow-private asks each registry who it is, and fills in what the list left open", async () => {
    const [one, other] = await Promise.all([startSample("one::1220"), startSample("other::1220")]);
    const list = listOf(
      { symbol: "One", admin: "one::1220", registryURLs: [`${one.url}/registry/`] },
      { symbol: "Other", registryURLs: [other.url] },
    );
    const ended = await importFile(list, "--verify", "--allow-private");
    expect([ended.code, upstreamsOf(ended).map(({ admin }) => admin)]).toEqual([0, ["one::1220", "other::1220"]]);
  });

  test("mends a URL that is known to be published wrongly", async () => {
    const registry = await startSample("one::1220");
    const list = write({
      MainNet: [{ instrumentId: { admin: "one::1220" }, registryURLs: [`${registry.url}/api/scan/registry/`] }],
    });
    const ended = await importFile(list, "--verify", "--allow-private");
    expect([ended.code, upstreamsOf(ended).map(({ urls }) => urls)]).toEqual([0, [[registry.url]]]);
    expect(ended.stderr).toContain(`"${registry.url}/api/scan": is meant to be "${registry.url}"`);
  });

  test("ends well in a process of its own, which waits between the questions to one host", async () => {
    const registry = await startServer((_request, response) => {
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ adminId: "one::1220", supportedApis: {} }));
    });
    const registryURLs = Array.from({ length: 10 }, (_, at) => `${registry}/${at}`);
    const list = listOf({ symbol: "One", admin: "one::1220", registryURLs });
    const command = run(["import", list, "--verify", "--allow-private"]);
    expect([await command.ended, command.stderr.match(/: admin "one::1220"/g)?.length]).toEqual([0, 10]);
  });

  test("writes a URL once that is listed as it should be and mended, too", async () => {
    const { url } = await startSample("one::1220");
    const list = listOf({ symbol: "One", admin: "one::1220", registryURLs: [`${url}/api/scan/registry/`, url] });
    const ended = await importFile(list, "--verify", "--allow-private");
    expect([ended.code, upstreamsOf(ended).map(({ urls }) => urls)]).toEqual([0, [[url]]]);
  });

  test("switches off a registry that is another admin's, fails, redirects, or answers nonsense", async () => {
    const stranger = await startSample("stranger::1220");
    const redirecting = await startServer((_request, response) => {
      response.writeHead(302, { location: `${stranger.url}/registry/metadata/v1/info` }).end();
    });
    const endless = await startServer((_request, response) => {
      response.writeHead(200, { "content-type": "application/json" });
      const timer = setInterval(() => response.write(" ".repeat(32 * 1024)), 1);
      response.once("close", () => clearInterval(timer));
    });
    const nonsense = await startServer((_request, response) => response.end("<html>"));
    const cases: [string, string, RegExp][] = [
      ["a::1220", stranger.url, /name different admins: \["a::1220","stranger::1220"\]/],
      ["b::1220", redirecting, /302/],
      ["c::1220", endless, /more than the 256KiB/],
      ["d::1220", nonsense, /HTML page/],
      ["e::1220", "http://127.0.0.1:1", /it refused the connection/],
    ];
    const list = listOf(...cases.map(([admin, url]) => ({ symbol: admin, admin, registryURLs: [url] })));
    const ended = await importFile(list, "--verify", "--allow-private");
    expect(ended.code).toBe(1);
    for (const [, , why] of cases) expect(ended.stdout).toMatch(why);
    expect(upstreamsSwitchedOff(ended)).toBe(cases.length);
  });
});

function upstreamsSwitchedOff({ stdout }: Outcome): number {
  return stdout.match(/^ {4}enabled: false$/gm)?.length ?? 0;
}
