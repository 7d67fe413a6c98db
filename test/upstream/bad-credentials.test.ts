import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TLSSocket } from "node:tls";
import { describe, expect, onTestFinished, test } from "vitest";
import type { UpstreamEnvironment } from "../../src/upstream/parts.ts";
import { Upstreams } from "../../src/upstream/upstreams.ts";
import { tlsFolder } from "../support/redis.ts";
import { ManualClock } from "../support/manual-clock.ts";
import {
  ADMIN,
  acceptCall,
  openUpstream,
  startRegistry,
  streamedCall,
  upstreamConfigs,
} from "../support/upstream-registries.ts";

const pemFile = (name: string) => join(tlsFolder, `${name}.pem`);
const pem = (name: string) => readFileSync(pemFile(name), "utf8");

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "credentials-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return folder;
}

/** Six seconds pass, in which files are looked at until what is in them is in use. */
async function takeFiles({ files }: Pick<UpstreamEnvironment, "files">, clock: ManualClock): Promise<void> {
  for (let i = 0; i < 4; i++) {
    clock.advance(1_500);
    await files.look();
  }
}

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => server.closeAllConnections());
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

const BAD: readonly [what: string, content: string | undefined, fault: string][] = [
  ["two lines", "two\r\nlines", "is not one line of text without control characters"],
  ["a NUL", "n\0ul", "is not one line of text without control characters"],
  ["letters that no header holds", "sécret", "holds other than ASCII characters"],
  ["nothing", "\n", "is empty"],
  ["no file", undefined, "is not there"],
];

describe("a bearer file with", () => {
  function write(file: string, content: string | undefined): void {
    if (content === undefined) rmSync(file);
    else writeFileSync(file, content);
  }

  test.each(BAD)("%s leaves the last good token in use, and is told once", async (_what, content, fault) => {
    const clock = new ManualClock();
    const file = join(newFolder(), "token");
    writeFileSync(file, "one");
    const registry = await startRegistry();
    const { upstream, observer, environment } = openUpstream(
      [registry],
      { auth: { bearerTokenFile: file } },
      { clock },
    );
    const call = async () => {
      await takeFiles(environment, clock);
      await upstream.call(acceptCall({ deadline: clock.now() + 10_000 }));
      return registry.calls.last?.headers.authorization;
    };
    expect(await call()).toBe("Bearer one");
    write(file, content);
    for (let i = 0; i < 3; i++) expect(await call()).toBe("Bearer one");
    const answer = await upstream.stream(streamedCall({ deadline: clock.now() + 10_000 }));
    answer.body.resume();
    expect(answer.status).toBe(200);
    writeFileSync(file, "two");
    expect(await call()).toBe("Bearer two");
    const told = observer.events.filter((event) => event.startsWith("credential"));
    expect(told).toEqual([
      expect.stringContaining(`credential amulet auth.bearerTokenFile ${fault}`),
      "credential amulet auth.bearerTokenFile good",
    ]);
    expect(told.join()).not.toMatch(/lines|sécret|token$/);
  });

  test.each(BAD)("%s from the start is 502 until it is good", async (_what, content) => {
    const clock = new ManualClock();
    const file = join(newFolder(), "token");
    writeFileSync(file, "good");
    const configs = upstreamConfigs({
      name: "amulet",
      urls: [(await startRegistry()).url],
      auth: { bearerTokenFile: file },
    });
    write(file, content);
    const { environment } = openUpstream([], { urls: ["http://127.0.0.1:1"] }, { clock });
    const upstreams = new Upstreams(configs, environment);
    onTestFinished(() => upstreams.close());
    const call = () => upstreams.byName("amulet")!.call(acceptCall({ deadline: clock.now() + 10_000 }));
    await expect(call()).rejects.toMatchObject({
      status: 502,
      message: expect.stringMatching(
        /the gateway has no good credentials for upstream "amulet": look at the files of its auth/,
      ),
    });
    writeFileSync(file, "good");
    await takeFiles(environment, clock);
    expect((await call()).status).toBe(200);
  });
});

describe("a client certificate", () => {
  /** A registry that asks for a client certificate, and notes whose it was shown. */
  async function startStrictRegistry() {
    const names: string[] = [];
    const server = createTlsServer(
      { cert: pem("server"), key: pem("server-key"), ca: pem("ca"), requestCert: true, rejectUnauthorized: false },
      (request, response) => {
        names.push((request.socket as TLSSocket).getPeerCertificate().subject.CN as string);
        response.setHeader("connection", "close");
        response.end(request.method === "GET" ? JSON.stringify({ adminId: ADMIN, supportedApis: {} }) : "{}");
      },
    );
    return { url: `https://127.0.0.1:${await listen(server)}`, names };
  }

  function copyPair() {
    const folder = newFolder();
    const [certFile, keyFile] = [join(folder, "cert.pem"), join(folder, "key.pem")];
    copyFileSync(pemFile("client"), certFile);
    copyFileSync(pemFile("client-key"), keyFile);
    return { caFile: pemFile("ca"), certFile, keyFile };
  }

  test("whose key does not match is not used: the last good one stays until both have changed", async () => {
    const clock = new ManualClock();
    const { url, names } = await startStrictRegistry();
    const tls = copyPair();
    const { upstream, observer, environment } = openUpstream([url], { tls }, { clock });
    const call = async () => {
      await takeFiles(environment, clock);
      return (await upstream.call(acceptCall({ deadline: clock.now() + 10_000 }))).status;
    };
    expect(await call()).toBe(200);
    copyFileSync(pemFile("server"), tls.certFile);
    expect(await call()).toBe(200);
    expect(await call()).toBe(200);
    expect(new Set(names)).toEqual(new Set(["sample client"]));
    copyFileSync(pemFile("server-key"), tls.keyFile);
    expect(await call()).toBe(200);
    expect(new Set(names).size).toBe(2);
    expect(observer.events.filter((event) => event.startsWith("credential"))).toEqual([
      "credential amulet tls is not the key of the certificate",
      "credential amulet tls good",
    ]);
  });

  test("that is no good from the start is 502 at once, directly and through a proxy", async () => {
    const { url, names } = await startStrictRegistry();
    for (const more of [{}, { httpProxy: "http://127.0.0.1:1" }]) {
      const tls = copyPair();
      const configs = upstreamConfigs({ name: "amulet", urls: [url], tls, ...more });
      copyFileSync(pemFile("server-key"), tls.keyFile);
      const { environment } = openUpstream(["http://127.0.0.1:1"]);
      const upstreams = new Upstreams(configs, environment);
      onTestFinished(() => upstreams.close());
      await expect(upstreams.byName("amulet")!.call(acceptCall())).rejects.toMatchObject({
        status: 502,
        message: expect.stringMatching(/no good credentials for upstream "amulet": look at the files of its tls/),
      });
    }
    expect(names).toEqual([]);
  });

  test("an authority that is cut off is not used", async () => {
    const clock = new ManualClock();
    const caFile = join(newFolder(), "ca.pem");
    writeFileSync(caFile, pem("ca"));
    const registry = await startRegistry({ tls: { cert: pem("server"), key: pem("server-key") } });
    const { upstream } = openUpstream([registry], { tls: { caFile } }, { clock });
    const call = async () => (await upstream.call(acceptCall({ deadline: clock.now() + 10_000 }))).status;
    expect(await call()).toBe(200);
    writeFileSync(caFile, pem("ca").slice(0, 300));
    // Older than a connection may become.
    clock.advance(61_000);
    expect(await call()).toBe(200);
    clock.advance(61_000);
    expect(await call()).toBe(200);
  });
});

/** A registry with a token file, and what reloads make of it. */
async function startWithToken() {
  const clock = new ManualClock();
  const folder = newFolder();
  const files = { token: join(folder, "token"), next: join(folder, "next") };
  writeFileSync(files.token, "one");
  writeFileSync(files.next, "soon");
  const registry = await startRegistry();
  const keys = (more: Record<string, unknown>) => upstreamConfigs({ name: "amulet", urls: [registry.url], ...more });
  const first = keys({ auth: { bearerTokenFile: files.token } });
  const changed = keys({ auth: { bearerTokenFile: files.token }, timeout: "9s" });
  const moved = keys({ auth: { bearerTokenFile: files.next }, timeout: "9s" });
  rmSync(files.next);
  const { environment, observer } = openUpstream(["http://127.0.0.1:1"], {}, { clock });
  const upstreams = new Upstreams(first, environment);
  const call = async (of: Upstreams) => {
    await takeFiles(environment, clock);
    await of.byName("amulet")!.call(acceptCall({ deadline: clock.now() + 9_000 }));
    return registry.calls.last?.headers.authorization;
  };
  expect(await call(upstreams)).toBe("Bearer one");
  const reload = async (configs: typeof first, before: Upstreams, users?: Promise<void>) => {
    const next = new Upstreams(configs, environment, before);
    onTestFinished(() => next.close());
    const closed = before.closeExcept(next, users);
    if (users === undefined) await closed;
    return next;
  };
  const look = () => takeFiles(environment, clock);
  const faults = () => [...observer.credentialFaults.values()].filter((fault) => fault !== undefined);
  return { files, observer, upstreams, keys, first, changed, moved, call, reload, look, faults };
}

describe("a reload while a registry's file is no good", () => {
  test("changes the rest of the registry, which goes on with the last good credentials", async () => {
    const { files, observer, upstreams, changed, call, reload } = await startWithToken();
    writeFileSync(files.token, "two\nlines");
    const next = await reload(changed, upstreams);
    expect(next.byName("amulet")!.config.timeout).toBe(9_000);
    expect(await call(next)).toBe("Bearer one");
    expect(observer.events.filter((event) => event.startsWith("credential"))).toEqual([
      expect.stringContaining("credential amulet auth.bearerTokenFile is not one line"),
    ]);
  });

  test("leaves it as it was where it names another file, until that is there", async () => {
    const { files, observer, upstreams, moved, call, reload } = await startWithToken();
    const next = await reload(moved, upstreams);
    expect(next.byName("amulet")).toBe(upstreams.byName("amulet"));
    expect(await call(next)).toBe("Bearer one");
    expect(observer.events).toContain("credential amulet auth.bearerTokenFile is not there");
    writeFileSync(files.next, "two");
    const last = await reload(moved, next);
    expect(last.byName("amulet")!.config.timeout).toBe(9_000);
    expect(await call(last)).toBe("Bearer two");
  });
});

describe("a registry's credential that is no good is told no more", () => {
  // It was for ever: only the upstream that could not take its place had looked at that file.
  test("when the configuration that named it is taken back", async () => {
    const { upstreams, first, moved, reload, faults } = await startWithToken();
    const kept = await reload(moved, upstreams);
    expect(faults()).toEqual(["is not there"]);
    const last = await reload(first, kept);
    expect(last.byName("amulet")).toBe(upstreams.byName("amulet"));
    expect(faults()).toEqual([]);
  });

  // Requests that began before go on with it, and what it named was looked at for as long.
  test.each(["another kind of credential", "another registry"])(
    "when it was for what %s took the place of",
    async (what) => {
      const { files, upstreams, keys, reload, look, faults } = await startWithToken();
      const next = keys(
        what === "another registry" ? { name: "bonds" } : { auth: { header: { name: "x-key", value: "k" } } },
      );
      const requests = Promise.withResolvers<void>();
      await reload(next, upstreams, requests.promise);
      rmSync(files.token);
      await look();
      requests.resolve();
      expect(faults()).toEqual([]);
    },
  );
});

describe("a registry that refuses single requests", () => {
  async function setUp(status: number) {
    const clock = new ManualClock();
    let isDown = false;
    let isHanging = false;
    let asked = 0;
    const endpoint = createServer((_request, response) => {
      asked += 1;
      if (isHanging) return;
      if (isDown) return response.writeHead(503).end();
      return response.end(JSON.stringify({ access_token: `t${asked}`, expires_in: 3_600 }));
    });
    const tokenUrl = `http://127.0.0.1:${await listen(endpoint)}/token`;
    const registry = await startRegistry();
    const auth = { oauth2: { tokenUrl, clientId: "i", clientSecret: "s" } };
    const { upstream } = openUpstream([registry], { auth }, { clock });
    const call = () => upstream.call(acceptCall({ deadline: clock.now() + 10_000 }));
    await call();
    const refuse = async (times: number) => {
      await registry.faults.set({ kind: "status", status, operations: ["transfer_accept"] });
      for (let i = 0; i < times; i++) await expect(call()).rejects.toMatchObject({ status: 502 });
      await registry.faults.set();
    };
    return {
      clock,
      registry,
      call,
      refuse,
      asked: () => asked,
      takeDown: () => (isDown = true),
      hang: () => (isHanging = true),
    };
  }

  test.each([401, 403])("with %i, a hundred times, makes one new token, and one more after 10 s", async (status) => {
    const { clock, call, refuse, asked, registry } = await setUp(status);
    await refuse(100);
    await call();
    expect(asked()).toBe(2);
    clock.advance(10_000);
    await refuse(100);
    await call();
    expect(asked()).toBe(3);
    expect(registry.calls.last?.headers.authorization).toBe("Bearer t3");
  });

  test("while a new token is long in coming goes on with the one there is, after a second", async () => {
    const { clock, call, refuse, asked, registry, hang } = await setUp(403);
    hang();
    await refuse(1);
    const waiting = call();
    await expect.poll(asked).toBe(2);
    clock.advance(1_000);
    expect((await waiting).status).toBe(200);
    expect((await call()).status).toBe(200);
    expect(registry.calls.last?.headers.authorization).toBe("Bearer t1");
  });

  test("while no new token is to be had goes on with the one there is", async () => {
    const { call, refuse, asked, registry, takeDown } = await setUp(403);
    takeDown();
    await refuse(20);
    expect((await call()).status).toBe(200);
    expect(registry.calls.last?.headers.authorization).toBe("Bearer t1");
    expect(asked()).toBe(2);
  });
});
