import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { copyFileSync, renameSync, writeFileSync } from "node:fs";
import { Agent, request, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { TLSSocket } from "node:tls";
import { expect, onTestFinished, test } from "vitest";
import { FileWatcher } from "../../src/config/watched-files.ts";
import { ClientConnections } from "../../src/connections/connections.ts";
import { ListenerCertificate } from "../../src/connections/tls.ts";
import { passWithLooks } from "../support/looks.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { pem, pemFile } from "../support/sample.ts";
import { useTemporaryFolder } from "../support/temporary-folder.ts";

const temporaryFolder = useTemporaryFolder();

interface Scene {
  readonly clock: ManualClock;
  readonly port: number;
  readonly faults: (string | undefined)[];
  readonly replaced: string[];
  readonly outOfTime: string[];
  /** Puts files of test/fixtures/tls in the place of those in use, as a mount of secrets does. */
  readonly put: (cert: string, key: string) => void;
  /** Lets the files be looked at. */
  readonly look: () => Promise<void>;
  readonly write: (text: string) => void;
}

async function start(tls: object = {}, first: readonly [string, string] = ["server", "server-key"]): Promise<Scene> {
  const outOfTime: string[] = [];
  const folder = temporaryFolder();
  const [certFile, keyFile] = [join(folder, "cert.pem"), join(folder, "key.pem")];
  const put = (cert: string, key: string) => {
    for (const [name, file] of [
      [cert, certFile],
      [key, keyFile],
    ] as const) {
      copyFileSync(pemFile(name), `${file}.new`);
      renameSync(`${file}.new`, file);
    }
  };
  put(...first);
  const clock = new ManualClock();
  // The certificates of the tests begin in 2026.
  clock.stepWall(Date.UTC(2027, 0, 1) - clock.wallNow());
  const files = new FileWatcher(clock);
  const faults: (string | undefined)[] = [];
  const replaced: string[] = [];
  const certificate = new ListenerCertificate({
    tls: { certFile, keyFile, clientAuth: "none", ...tls },
    files,
    onLook: (fault) => faults.push(fault),
    onReplaced: ([listener]) => replaced.push(listener!.expiresAt),
    onOutOfTime: (fault) => outOfTime.push(fault),
  });
  const connections = new ClientConnections({ clock, max: 100 });
  const server = connections.createServer({ keepAliveTimeout: 60_000 }, (_request, response) => response.end("ok"), {
    certificate,
    onHandshakeFailed: () => undefined,
  }) as Server;
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(async () => {
    certificate.close();
    connections.closeAll();
    await new Promise((resolve) => server.close(resolve));
  });
  const look = () => passWithLooks(files, clock, 4);
  const { port } = server.address() as AddressInfo;
  return { clock, port, faults, replaced, outOfTime, put, look, write: (text) => writeFileSync(certFile, text) };
}

/** Sends a request; the name in the certificate that the server showed. */
function shown(port: number, agent: Agent): Promise<string> {
  return new Promise((resolve, reject) => {
    const sent = request({ host: "127.0.0.1", port, agent, ca: pem("ca-and-successor") }, (response) => {
      const { fingerprint256 } = (response.socket as TLSSocket).getPeerCertificate();
      response.resume().on("end", () => resolve(fingerprint256));
    });
    sent.on("error", reject);
    sent.end();
  });
}

const anew = () => new Agent({ keepAlive: false, maxCachedSessions: 0 });

test("a certificate that is replaced serves new connections, and those that are open stay", async () => {
  const { port, put, look, replaced } = await start();
  const kept = new Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(() => kept.destroy());
  const before = await shown(port, kept);
  put("successor", "successor-key");
  await look();
  const after = await shown(port, anew());
  expect(after).not.toBe(before);
  expect(await shown(port, kept)).toBe(before);
  expect(replaced).toEqual([new Date(new X509Certificate(pem("successor")).validTo).toISOString()]);
  put("server", "server-key");
  await look();
  expect(await shown(port, anew())).toBe(before);
});

test.each([
  ["a key of another certificate", "server", "client-key"],
  ["no certificate", "server-key", "server-key"],
])("%s leaves the last good pair in use, and is told", async (_what, cert, key) => {
  const { port, put, look, faults, replaced } = await start();
  const before = await shown(port, anew());
  put(cert, key);
  await look();
  expect(faults.at(-1)).toMatch(/certificate/);
  expect([await shown(port, anew()), replaced]).toEqual([before, []]);
  put("successor", "successor-key");
  await look();
  expect(faults.at(-1)).toBeUndefined();
  expect(await shown(port, anew())).not.toBe(before);
});

test.each(["ended", "to-come"])("a certificate that is out of its time (%s) leaves a good one in use", async (name) => {
  const { port, put, look, faults, replaced } = await start();
  const before = await shown(port, anew());
  put(name, "ended-key");
  await look();
  expect(faults.at(-1)).toMatch(/^(ended on 2021|does not begin before 2100)/);
  expect([await shown(port, anew()), replaced]).toEqual([before, []]);
  put("successor", "successor-key");
  await look();
  expect([faults.at(-1), replaced.length]).toEqual([undefined, 1]);
});

test("a start does with a certificate that has ended, and a better one takes its place", async () => {
  const { put, look, faults, replaced, outOfTime } = await start({}, ["ended-later", "ended-key"]);
  expect(outOfTime).toEqual([expect.stringContaining("ended on 2022")]);
  put("ended", "ended-key");
  await look();
  expect([faults.at(-1), replaced]).toEqual([expect.stringContaining("ended on 2021"), []]);
  put("server", "server-key");
  await look();
  expect([faults.at(-1), replaced.length]).toEqual([undefined, 1]);
});

test("a file that is half written is not used", async () => {
  const { port, write, look, faults } = await start();
  const before = await shown(port, anew());
  write(pem("successor").slice(0, 400));
  await look();
  expect(faults.at(-1)).toMatch(/ends within a certificate/);
  expect(await shown(port, anew())).toBe(before);
});

test("no request fails while certificates change, on connections old and new", async () => {
  const { port, put, look } = await start();
  const kept = new Agent({ keepAlive: true, maxSockets: 4 });
  onTestFinished(() => kept.destroy());
  const done = new AbortController();
  const load = async (agent: () => Agent) => {
    let answered = 0;
    for (; !done.signal.aborted; answered++) await shown(port, agent());
    return answered;
  };
  const loads = Promise.all([load(anew), load(anew), load(() => kept), load(() => kept)]);
  for (let i = 0; i < 6; i++) {
    if (i % 2 === 0) put("successor", "successor-key");
    else put("server", "server-key");
    await look();
    await shown(port, anew());
  }
  done.abort();
  for (const answered of await loads) expect(answered).toBeGreaterThan(5);
});

test("what clients cannot be told by is bad from the start", () => {
  const tls = { certFile: pemFile("server"), keyFile: pemFile("client-key"), clientAuth: "none" as const };
  const options = {
    files: new FileWatcher(new ManualClock()),
    onLook: () => undefined,
    onReplaced: () => undefined,
    onOutOfTime: () => undefined,
  };
  expect(() => new ListenerCertificate({ tls, ...options })).toThrow(/listen\.tls cannot be used: .*is not the key/);
});
