import { describe, expect, test } from "vitest";
import { useOperationsListener } from "../support/operations-listener.ts";
import { ownError } from "../support/own-error.ts";
import { sendRaw } from "../support/raw-connection.ts";
import { errorOf, send } from "../support/send.ts";

const OPEN = ["/livez", "/readyz", "/metrics"];
const GUARDED = ["/status", "/config", "/requests", "/audit", "/explain?path=/", "/nothing", "/console/../status"];

const start = useOperationsListener();

async function statusOf(base: string, path: string, authorization?: string, method = "GET"): Promise<number> {
  const headers = new Headers(authorization === undefined ? {} : { authorization });
  if (method === "POST") headers.set("content-type", "application/json");
  const answer = await fetch(base + path, { headers, method, ...(method === "POST" ? { body: "{}" } : {}) });
  const body = await answer.text();
  if (answer.status >= 400) {
    expect(answer.headers.get("content-type")).toMatch(/^application\/json/);
    expect(answer.headers.get("www-authenticate")).toBe(answer.status === 401 ? "Bearer" : null);
    expect(JSON.parse(body)).toEqual(ownError());
  }
  return answer.status;
}

describe("an operations listener that other machines can reach", () => {
  test("answers probes and metrics to anybody", async () => {
    const base = await start({ isExposed: true, token: "secret" });
    for (const path of OPEN) expect([path, await statusOf(base, path)]).toEqual([path, 200]);
  });

  test("answers all else to the token alone", async () => {
    const base = await start({ isExposed: true, token: "secret" });
    for (const given of [
      undefined,
      "",
      "secret",
      "Bearer",
      "Bearer ",
      "Bearer secre",
      "Bearer secret2",
      "Basic secret",
    ]) {
      for (const path of GUARDED) expect(await statusOf(base, path, given)).toBe(401);
      expect(await statusOf(base, "/purge", given, "POST")).toBe(401);
    }
    expect(await statusOf(base, "/status", "Bearer secret")).toBe(200);
    expect(await statusOf(base, "/status", "bearer secret")).toBe(200);
    expect(await statusOf(base, "/purge", "Bearer secret", "POST")).toBe(200);
    expect(await statusOf(base, "/nothing", "Bearer secret")).toBe(404);
  });

  test("answers all else to nobody without a token configured", async () => {
    const base = await start({ isExposed: true });
    for (const path of GUARDED) expect(await statusOf(base, path, "Bearer undefined")).toBe(403);
    expect(await statusOf(base, "/purge", "Bearer ", "POST")).toBe(403);
    for (const path of OPEN) expect(await statusOf(base, path)).toBe(200);
  });

  test("takes no other spelling of a path for a probe", async () => {
    const base = await start({ isExposed: true, token: "secret" });
    for (const path of [
      "/status/",
      "//status",
      "/livez/../status",
      "/%73tatus",
      "/STATUS",
      "/livez%2f..%2fstatus",
      "/status?/livez",
    ]) {
      expect([200, 302]).not.toContain(await statusOf(base, path));
    }
  });
});

describe("an operations listener on loopback", () => {
  test("needs no token where none is configured", async () => {
    const base = await start({ isExposed: false });
    for (const path of [...OPEN, "/status", "/explain?path=/"]) expect(await statusOf(base, path)).toBe(200);
    expect(await statusOf(base, "/purge", undefined, "POST")).toBe(200);
  });

  test("needs the token that is configured, but for probes and metrics", async () => {
    const base = await start({ isExposed: false, token: "secret" });
    for (const path of OPEN) expect([path, await statusOf(base, path)]).toEqual([path, 200]);
    for (const path of GUARDED) expect(await statusOf(base, path)).toBe(401);
    expect(await statusOf(base, "/purge", undefined, "POST")).toBe(401);
    expect(await statusOf(base, "/status", "Bearer secret")).toBe(200);
    expect(await statusOf(base, "/status", "bearer secret")).toBe(200);
    expect(await statusOf(base, "/purge", "Bearer secret", "POST")).toBe(200);
  });
});

const PURGE = { path: "/purge", body: "{}" };

describe("an operations listener answers to its own names alone", () => {
  test.each([
    "evil.example",
    "evil.example:9090",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "ops.internal.x",
    "0x7f.1",
  ])("and %s is none", async (host) => {
    const base = await start({ isExposed: false, hosts: ["ops.internal"] });
    for (const request of [{ path: "/status" }, { path: "/explain?path=/" }, { path: "/nothing" }, PURGE]) {
      const answer = await send(base, { ...request, headers: { host } });
      expect(answer.status).toBe(421);
      expect(errorOf(answer)).toMatch(/^registry-gateway: .*operations\.hosts/);
    }
    for (const path of OPEN) expect((await send(base, { path, headers: { host } })).status).toBe(200);
  });

  test.each([
    "localhost",
    "LOCALHOST:9090",
    "localhost.",
    "127.0.0.1:1",
    "10.1.2.3",
    "[::1]",
    "[2001:db8::1]:9090",
    "ops.internal",
    "Ops.Internal.:9090",
  ])("and %s is one", async (host) => {
    const base = await start({ isExposed: false, hosts: ["ops.internal"] });
    expect((await send(base, { path: "/status", headers: { host } })).status).toBe(200);
    expect((await send(base, { ...PURGE, headers: { host } })).status).toBe(200);
  });

  test("and tells a stranger by name nothing about its token", async () => {
    const base = await start({ isExposed: true, token: "secret" });
    const headers = { host: "evil.example", authorization: "Bearer secret" };
    expect((await send(base, { path: "/status", headers })).status).toBe(421);
  });

  test.each([
    ["no Host", "GET /status HTTP/1.1\r\n", 400],
    ["no Host in HTTP/1.0", "GET /status HTTP/1.0\r\n", 421],
    ["two Hosts", "GET /status HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n", 400],
    ["a list of Hosts", "GET /status HTTP/1.1\r\nHost: localhost, evil.example\r\n", 400],
    ["an empty Host", "GET /status HTTP/1.1\r\nHost:\r\n", 400],
    ["user information", "GET /status HTTP/1.1\r\nHost: localhost@evil.example\r\n", 400],
  ])("and %s names none of them", async (_what, head, status) => {
    const base = await start({ isExposed: false });
    expect((await sendRaw(base, `${head}Connection: close\r\n\r\n`)).statuses).toEqual([status]);
  });
});

describe("an operations listener does nothing for a web page of another origin", () => {
  const FOREIGN: readonly Record<string, string>[] = [
    { origin: "https://evil.example" },
    { origin: "http://localhost:3000" },
    { origin: "http://127.0.0.1:9090" },
    { origin: "null" },
    { origin: "" },
    { origin: "http://localhost:9090, https://evil.example" },
    { "sec-fetch-site": "cross-site" },
    { "sec-fetch-site": "same-site" },
    { "sec-fetch-site": "something new" },
    { origin: "http://localhost:9090", "sec-fetch-site": "cross-site" },
  ];
  test.each(FOREIGN)("%j", async (fields) => {
    const base = await start({ isExposed: true, token: "secret" });
    const headers = { host: "localhost:9090", authorization: "Bearer secret", ...fields };
    for (const request of [{ path: "/status" }, PURGE, { path: "/purge", method: "OPTIONS" }]) {
      const answer = await send(base, { ...request, headers });
      expect(answer.status).toBe(403);
      expect(answer.headers["access-control-allow-origin"]).toBeUndefined();
    }
    for (const path of OPEN) expect((await send(base, { path, headers })).status).toBe(200);
  });

  test.each<Record<string, string>>([
    { origin: "http://localhost:9090" },
    { origin: "http://localhost:9090", "sec-fetch-site": "same-origin" },
    { "sec-fetch-site": "none" },
    {},
  ])("but for one of its own: %j", async (fields) => {
    const base = await start({ isExposed: false });
    const headers = { host: "localhost:9090", ...fields };
    expect((await send(base, { path: "/status", headers })).status).toBe(200);
    expect((await send(base, { ...PURGE, headers })).status).toBe(200);
  });
});

describe("an operations listener that is only to show", () => {
  test("refuses every action, and shows as ever", async () => {
    const base = await start({ isExposed: false, isReadonly: true });
    const headers = { "content-type": "application/json" };
    for (const path of ["/purge", "/nodes", "/upstreams"]) {
      const answer = await send(base, { path, method: "POST", headers, body: "{}" });
      expect(answer.status).toBe(403);
      expect(errorOf(answer)).toContain("operations.readonly");
    }
    for (const path of [...OPEN, "/status", "/audit"]) expect((await send(base, { path })).status).toBe(200);
    expect((await send(base, { path: "/nothing", method: "POST", headers, body: "{}" })).status).toBe(404);
  });

  test("asks for its token first", async () => {
    const base = await start({ isExposed: true, token: "secret", isReadonly: true });
    expect(await statusOf(base, "/purge", undefined, "POST")).toBe(401);
    expect(await statusOf(base, "/purge", "Bearer secret", "POST")).toBe(403);
  });
});

test("who posts a configuration to be checked gets 404 with the command that checks it", async () => {
  const base = await start({});
  const headers = { "content-type": "application/json" };
  const answer = await send(base, { path: "/config/check", method: "POST", headers, body: '{"yaml": "a: 1"}' });
  expect(answer.status).toBe(404);
  expect(answer.text).toContain("registry-gateway check --config FILE");
});

test("what registries say cannot move a cursor or turn a line: it is escaped on the wire, and means the same", async () => {
  const hostile = "a\u001b[2Jb\u009bc\u202ed\u2028e\u200bf\u007f";
  const base = await start({}, { status: () => ({ inForce: [], upstreams: [{ lastError: hostile }] }) });
  const { text } = await send(base, { path: "/status" });
  expect(text).not.toMatch(/[\p{C}\p{Zl}\p{Zp}]/u);
  expect(JSON.parse(text)).toMatchObject({ upstreams: [{ lastError: hostile }] });
});

test("a purge that waited for Redis is shown as one of all replicas once it was written", async () => {
  let isWritten = false;
  const base = await start(
    {},
    { purge: async () => ({ purged: {}, reach: "pending" }), isWritten: (did) => did === "purge" && isWritten },
  );
  const headers = { "content-type": "application/json" };
  expect((await send(base, { path: "/purge", method: "POST", headers, body: "{}" })).status).toBe(503);
  const scopes = async () => {
    const { text } = await send(base, { path: "/audit" });
    return (JSON.parse(text) as { actions: { scope: string }[] }).actions.map(({ scope }) => scope);
  };
  expect(await scopes()).toEqual(["pending"]);
  isWritten = true;
  expect(await scopes()).toEqual(["fleet"]);
});
