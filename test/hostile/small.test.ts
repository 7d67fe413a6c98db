import { setTimeout as pause } from "node:timers/promises";
import { beforeAll, describe, expect, test } from "vitest";
import { ACCEPT, CANCEL, DRAFT, FACTORY, INFO, LIST, PREFIX } from "../support/endpoints.ts";
import { type GatewayProcess, startProcess } from "../support/process.ts";
import { readText } from "../support/project.ts";
import { sendAndReset, sendRaw } from "../support/raw.ts";
import { type Registry, startRegistry } from "../support/registry.ts";
import { until } from "../support/until.ts";

/** What is small, and shameful where it goes wrong. */

/** Ends colours, turns the direction of text, breaks lines. */
const ACTING = "a\u001b[31m\u009b\u202e\u2066\u2028\u200b\r\nb";
// oxlint-disable-next-line no-control-regex
const ACTS = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f]/;

let amulet: Registry;
let gateway: GatewayProcess;

beforeAll(async () => {
  amulet = await startRegistry();
  gateway = await startProcess({ log: { level: "debug", hits: 1 }, upstreams: [amulet.upstream({ retries: 0 })] });
});

const withBody = (path: string, sent: string): string =>
  `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n${sent}`;
const withoutBody = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`;

/** The worst that the log has said of what a test did. */
async function levelsSince(before: number): Promise<Set<unknown>> {
  // Lines are written together, ten times a second.
  await pause(300);
  return new Set(gateway.child.lines.slice(before).map(({ level }) => level));
}

test("requests that their clients break off are no lines above info on either listener", async () => {
  const { site, operations, child } = gateway;
  const before = child.lines.length;
  const broken = ["GET /st", "GET /status HTTP/1.1\r\nHo", withBody("/purge", ""), withBody("/purge", "{"), "POST"];
  const asked = ["/status", "/metrics", "/requests", "/explain?path=/registry/x", "/console/", "/config"];
  for (const text of [...broken, ...asked.map(withoutBody)]) {
    for (let round = 0; round < 3; round += 1) await sendAndReset(operations.url, text);
  }
  amulet.on(CANCEL, "hang");
  for (const path of [FACTORY, CANCEL, DRAFT, "/registry", "/x"]) {
    for (const text of [withBody(path, ""), withBody(path, "{"), withoutBody(path).slice(0, -2)])
      await sendAndReset(site.url, text);
  }
  amulet.reset();
  for (const level of await levelsSince(before)) expect(["debug", "info"]).toContain(level);
  expect((await operations.get("/livez")).status).toBe(200);
});

test("no client causes a line above warn, whatever it sends", async () => {
  const { site, operations, child } = gateway;
  const before = child.lines.length;
  const targets = ["*", "//", "/%", "/%00", `/${"a".repeat(20_000)}`, "http://x/", `${PREFIX}/a/registry/..%2f`, LIST];
  for (const { url } of [site, operations]) {
    for (const target of targets)
      for (const method of ["GET", "POST", "OPTIONS", "CONNECT", "TRACE", "A"]) {
        const fields = "Host: a\r\nConnection: close\r\nContent-Length: 2\r\nContent-Type: application/json\r\n";
        await sendRaw(url, `${method} ${target} HTTP/1.1\r\n${fields}\r\n{}`);
      }
    for (const text of [
      "\u0016\u0003\u0001",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      "GET / HTTP/9.9\r\n\r\n",
      "\r\n".repeat(9),
    ])
      await sendRaw(url, text, { isHalfClosed: true });
  }
  amulet.on("*", "reset");
  for (const path of [CANCEL, FACTORY, DRAFT, ACCEPT]) await site.post(path, '{"choiceArguments":{}}');
  amulet.reset();
  for (const level of await levelsSince(before)) expect(["debug", "info", "warn"]).toContain(level);
});

test("a key that comes twice in a purge, in whatever form, is 400", async () => {
  for (const body of [
    '{"upstream":"amulet","upstream":"amulet"}',
    '{"upstream":"amulet","\\u0075pstream":"amulet"}',
    '{"upstream":"x","upstream":"amulet"}',
  ])
    expect((await gateway.operations.post("/purge", body)).outcome).toBe("400 invalid_request");
});

describe("texts of registries that act on a terminal or turn text round are escaped", () => {
  test("in the log, in /status, /requests and /metrics, and in errors of ours", async () => {
    const { site, operations, child } = gateway;
    const texts: string[] = [];
    const look = async (): Promise<void> => {
      for (const path of ["/status", "/requests", "/metrics", `/explain?path=${LIST}`])
        texts.push((await operations.get(path)).text);
    };
    for (const [at, fields] of [[], ["Content-Type", "text/plain"], ["Retry-After", "0"]].entries()) {
      amulet.on("*", { status: [500, 400, 429][at]!, fields, body: ACTING });
      for (const answer of [await site.post(CANCEL), await site.get(`${LIST}?pageToken=${at}`), await site.get(DRAFT)])
        texts.push(answer.code === undefined ? "" : answer.text);
      await look();
    }
    // Admins of such characters, or far too long: of a registry that named another, and of two whose admin is to be learned.
    const odd = await startRegistry("odd", { admin: ACTING });
    const long = await startRegistry("long", { admin: "a".repeat(2 ** 20) });
    const learned = [odd, long].map((each) => each.upstream({ admin: false }));
    amulet.on("info", { body: { adminId: ACTING, supportedApis: {} } });
    gateway.write({
      log: { level: "debug", hits: 1 },
      upstreams: [amulet.upstream({ proofEvery: "10s" }), ...learned],
    });
    await until(async () => (await operations.status()).upstreams.length === 3);
    for (const name of ["odd", "long"]) {
      const answer = await site.get(`${PREFIX}/${name}${INFO}`);
      expect(answer.outcome).toMatch(/^(502 upstream_invalid|503 upstream_down)$/);
      texts.push(answer.text);
    }
    await amulet.close();
    await amulet.restart();
    await until(async () => {
      await site.post(`${PREFIX}/amulet${CANCEL}`);
      return (await operations.upstream("amulet")).state === "down";
    });
    await look();
    expect(texts.at(-4)).toContain("names another admin");
    expect(texts.at(-4)).toContain("that is no party id");
    for (const path of ["/", "/catalog/v1/registries?partial=true"]) texts.push((await site.get(path)).text);
    expect(Math.max(...texts.map(({ length }) => length))).toBeLessThan(100_000);
    for (const text of texts) expect(ACTS.exec(text)?.[0]).toBeUndefined();
    expect(child.stdout).toMatch(/^[\n\u0020-\u007e]*$/);
    amulet.reset();
  });
});

test("a debugger is opened by no signal: image, unit and `npm start` run without SIGUSR1", async () => {
  for (const file of ["package.json", "Dockerfile", "config/systemd/registry-gateway@.service"])
    expect([file, readText(file)]).toEqual([file, expect.stringContaining("--disable-sigusr1")]);
  const registry = await startRegistry();
  const other = await startProcess({ upstreams: [registry] });
  for (const signal of ["SIGUSR1", "SIGUSR2"] as const) other.child.signal(signal);
  await pause(500);
  expect((await other.operations.get("/livez")).status).toBe(200);
  expect(other.child.stderr).toBe("");
});
