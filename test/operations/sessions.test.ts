import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { FileWatcher } from "../../src/config/watched-files.ts";
import type { SessionAnswer } from "../../src/operations/answers.ts";
import { SignInFailures } from "../../src/operations/sessions.ts";
import { passWithLooks } from "../support/looks.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { useOperationsListener } from "../support/operations-listener.ts";
import { sendRaw } from "../support/raw-connection.ts";
import { useTemporaryFolder } from "../support/temporary-folder.ts";
import { errorOf, type ReceivedAnswer, send } from "../support/send.ts";

const HOUR = 3_600_000;
const CONSOLE = { "x-registry-gateway-console": "1" };

const start = useOperationsListener();

function signIn(base: string, token: unknown, headers: Record<string, string> = {}): Promise<ReceivedAnswer> {
  return send(base, { path: "/session", body: JSON.stringify({ token }), headers: { ...CONSOLE, ...headers } });
}

/** What a browser sends back of the `Set-Cookie` of a sign-in. */
async function cookieOf(base: string, token = "secret"): Promise<string> {
  const answer = await signIn(base, token);
  expect(answer.status).toBe(200);
  return answer.headers["set-cookie"]![0]!.split(";")[0]!;
}

async function sessionOf(base: string, cookie?: string): Promise<SessionAnswer> {
  const answer = await send(base, { path: "/session", headers: { ...CONSOLE, ...(cookie && { cookie }) } });
  expect(answer.status).toBe(200);
  return JSON.parse(answer.text) as SessionAnswer;
}

async function statusWith(base: string, headers: Record<string, string>, path = "/status"): Promise<number> {
  return (await send(base, { path, headers })).status;
}

describe("a session of the console", () => {
  test("is what the token is changed for, and stands for it twelve hours, however it is used", async () => {
    const clock = new ManualClock();
    const base = await start({ isExposed: true, token: "secret" }, { clock });
    expect(await sessionOf(base)).toEqual({
      signedIn: false,
      tokenNeeded: true,
      operator: null,
      readonly: false,
      version: "0.0.0-test",
      expiresAt: null,
    });
    const answer = await signIn(base, "secret");
    const expiresAt = new Date(clock.wallNow() + 12 * HOUR).toISOString();
    expect(JSON.parse(answer.text)).toMatchObject({ signedIn: true, expiresAt });
    const fields = answer.headers["set-cookie"]![0]!;
    expect(fields).toMatch(
      /^registry_gateway_session_\d+=[\w-]{43}; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict$/,
    );
    expect(answer.headers["cache-control"]).toBe("no-store");
    const headers = { ...CONSOLE, cookie: fields.split(";")[0]! };
    for (let hour = 0; hour < 12; hour++) {
      expect(await statusWith(base, headers)).toBe(200);
      clock.advance(HOUR - 1);
    }
    expect(await statusWith(base, headers)).toBe(200);
    clock.advance(12);
    expect(await statusWith(base, headers)).toBe(401);
    expect(await sessionOf(base, headers.cookie)).toMatchObject({ signedIn: false, expiresAt: null });
  });

  test("ends when it is ended, and others go on", async () => {
    const base = await start({ token: "secret" });
    const [one, other] = [await cookieOf(base), await cookieOf(base)];
    expect(one).not.toBe(other);
    const ended = await send(base, { path: "/session", method: "DELETE", headers: { ...CONSOLE, cookie: one } });
    expect(ended.status).toBe(200);
    expect(ended.headers["set-cookie"]![0]).toMatch(/=; Path=\/; Max-Age=0;/);
    expect(await statusWith(base, { ...CONSOLE, cookie: one })).toBe(401);
    expect(await statusWith(base, { ...CONSOLE, cookie: other })).toBe(200);
  });

  test("counts only with the console's own field, for reading and acting alike", async () => {
    const base = await start({ token: "secret" });
    const cookie = await cookieOf(base);
    for (const path of ["/status", "/config", "/requests", "/session", "/nothing"]) {
      for (const headers of [{ cookie }, { cookie, "x-registry-gateway-console": "0" }, { cookie, X_Registry: "1" }]) {
        const answer = await send(base, { path, headers });
        expect([path, answer.status]).toEqual([path, 403]);
        expect(errorOf(answer)).toContain("X-Registry-Gateway-Console");
      }
    }
    for (const request of [
      { path: "/purge", body: "{}" },
      { path: "/session", method: "DELETE" },
      { path: "/session", body: '{"token":"secret"}' },
    ]) {
      expect((await send(base, { ...request, headers: { cookie } })).status).toBe(403);
    }
    // What is no session is refused for want of the token, and a bearer needs no cookie.
    expect(await statusWith(base, { ...CONSOLE, cookie: `${cookie}x` })).toBe(401);
    expect(await statusWith(base, { ...CONSOLE, cookie: cookie.replace(/_\d+=/, "_1=") })).toBe(401);
    expect(await statusWith(base, { cookie: "theme=dark", authorization: "Bearer secret" })).toBe(200);
    expect(await statusWith(base, { cookie, authorization: "Bearer other", ...CONSOLE })).toBe(401);
    expect(await statusWith(base, { cookie: `a=b; ${cookie}; c=d`, ...CONSOLE })).toBe(200);
  });

  // A browser sends that with every request: all but the sign-in were 401.
  test("counts behind a proxy that asks for Basic credentials of its own", async () => {
    const base = await start({ token: "secret" });
    const cookie = await cookieOf(base);
    const authorization = "Basic b3BzOnNlY3JldA==";
    expect(await statusWith(base, { ...CONSOLE, cookie, authorization })).toBe(200);
    // They are no leave to do without the console's own field.
    expect(await statusWith(base, { cookie, authorization })).toBe(403);
  });

  test("does what the token does, and the audit says so", async () => {
    const base = await start({ token: "secret" });
    const headers = { ...CONSOLE, cookie: await cookieOf(base) };
    expect((await send(base, { path: "/purge", body: "{}", headers })).status).toBe(200);
    const { actions } = JSON.parse((await send(base, { path: "/audit", headers })).text) as {
      actions: { by: string; from: string }[];
    };
    expect(actions).toMatchObject([{ did: "purge", by: "console session", from: "loopback" }]);
  });

  test("is one of a hundred: the oldest goes", async () => {
    const base = await start({ token: "secret" });
    const first = await cookieOf(base);
    const second = await cookieOf(base);
    for (let i = 0; i < 99; i++) await cookieOf(base);
    expect(await statusWith(base, { ...CONSOLE, cookie: first })).toBe(401);
    expect(await statusWith(base, { ...CONSOLE, cookie: second })).toBe(200);
  });

  test("is sent over TLS alone where it was begun over TLS", async () => {
    const base = await start({ token: "secret" });
    const answer = await signIn(base, "secret", { "x-forwarded-proto": "https" });
    expect(answer.headers["set-cookie"]![0]).toMatch(/; Secure$/);
  });

  test("can be had where the listener is only to show, and acts as little", async () => {
    const base = await start({ token: "secret", isReadonly: true });
    const headers = { ...CONSOLE, cookie: await cookieOf(base) };
    expect(JSON.parse((await send(base, { path: "/session", headers })).text)).toMatchObject({ readonly: true });
    expect((await send(base, { path: "/purge", body: "{}", headers })).status).toBe(403);
    expect((await send(base, { path: "/session", method: "DELETE", headers })).status).toBe(200);
  });

  test("is not needed on loopback without a token", async () => {
    const base = await start({});
    expect(await sessionOf(base)).toMatchObject({ signedIn: true, tokenNeeded: false });
    const answer = await signIn(base, "anything");
    expect([answer.status, answer.headers["set-cookie"]]).toEqual([200, undefined]);
    // A browser has cookies of other programs on this machine.
    expect(await statusWith(base, { cookie: "theme=dark" })).toBe(403);
    expect(await statusWith(base, { cookie: "theme=dark", ...CONSOLE })).toBe(200);
  });

  test("is not to be had beyond loopback without a token", async () => {
    const base = await start({ isExposed: true });
    expect((await signIn(base, "undefined")).status).toBe(403);
    expect((await send(base, { path: "/session" })).status).toBe(403);
  });

  test.each(["", "null", '"secret"', "[]", "{}", '{"token":1}', '{"token":"secret","x":1}', "{", '{"token":null}'])(
    "is not begun by %s",
    async (body) => {
      const base = await start({ token: "secret" });
      const answer = await send(base, { path: "/session", body });
      expect([400, 415]).toContain(answer.status);
      expect(errorOf(answer)).toMatch(/^registry-gateway: /);
      expect(answer.headers["set-cookie"]).toBeUndefined();
    },
  );
});

describe("what a web page of another origin sends", () => {
  test.each<readonly [string, Record<string, string>, string]>([
    [
      "a form",
      { "content-type": "text/plain", origin: "https://evil.example", "sec-fetch-site": "cross-site" },
      "POST",
    ],
    ["a form of an opaque origin", { "content-type": "application/x-www-form-urlencoded", origin: "null" }, "POST"],
    ["a fetch without CORS", { "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors" }, "GET"],
    ["an image", { "sec-fetch-site": "same-site", "sec-fetch-dest": "image" }, "GET"],
    ["a WebSocket", { connection: "upgrade", upgrade: "websocket", origin: "https://evil.example" }, "GET"],
  ])("%s reads and does nothing with the operator's cookie", async (_what, fields, method) => {
    const base = await start({ token: "secret" });
    const { host } = new URL(base);
    const cookie = await cookieOf(base);
    for (const path of ["/status", "/purge", "/session", "/nodes"]) {
      const body = method === "POST" ? { body: '{"token":"secret"}' } : {};
      const answer = await send(base, { path, method, ...body, headers: { host, cookie, ...CONSOLE, ...fields } });
      expect([path, answer.status]).toEqual([path, 403]);
      expect(answer.headers["set-cookie"]).toBeUndefined();
      expect(answer.headers["access-control-allow-origin"]).toBeUndefined();
    }
  });

  test("a page that reaches the listener by its own name is told nothing, signed in or not", async () => {
    const base = await start({ token: "secret" });
    const headers = { host: "evil.example", cookie: await cookieOf(base), ...CONSOLE };
    for (const path of ["/status", "/session", "/console/", "/"])
      expect(await statusWith(base, headers, path)).toBe(421);
    expect((await signIn(base, "secret", { host: "evil.example" })).status).toBe(421);
  });

  test("a preflight gets no leave", async () => {
    const base = await start({});
    const { host } = new URL(base);
    const asked = { origin: "https://evil.example", "access-control-request-headers": "x-registry-gateway-console" };
    const answer = await send(base, { path: "/status", method: "OPTIONS", headers: { host, ...asked } });
    expect(answer.status).toBe(403);
    expect(Object.keys(answer.headers).filter((name) => name.startsWith("access-control"))).toEqual([]);
  });
});

describe("who tries tokens", () => {
  test("is refused by 429 after five that are wrong, and the right one is taken all the while", async () => {
    const clock = new ManualClock();
    const base = await start({ isExposed: true, token: "secret" }, { clock });
    for (let i = 0; i < 5; i++) expect((await signIn(base, `guess ${i}`)).status).toBe(401);
    const held = await signIn(base, "guess");
    expect([held.status, held.headers["retry-after"]]).toEqual([429, "60"]);
    expect(held.headers["registry-gateway-error"]).toBe("too_many_sign_ins");
    expect((await signIn(base, "secret")).status).toBe(200);
    expect((await signIn(base, "guess")).status).toBe(429);
    clock.advance(60_000);
    expect((await signIn(base, "guess")).status).toBe(401);
  });

  test("is counted by address and in all, and no more addresses are kept than failures are free", () => {
    const clock = new ManualClock();
    const failures = new SignInFailures(clock);
    const isHeld = (address: string): boolean => {
      try {
        failures.count(address);
        return false;
      } catch {
        return true;
      }
    };
    // One network of IPv6 is one address, and so is an IPv4 address in either form.
    for (let i = 0; i < 5; i++) expect(isHeld(`2001:db8::${i}`)).toBe(false);
    expect([isHeld("2001:db8:0:0:1:2:3:4"), isHeld("2001:db8:0:1::1"), isHeld("10.0.0.2")]).toEqual([
      true,
      false,
      false,
    ]);
    for (let i = 0; i < 4; i++) expect(isHeld("::ffff:10.0.0.2")).toBe(false);
    expect(isHeld("10.0.0.2")).toBe(true);
    for (let i = 0; i < 100; i++) isHeld(`10.1.0.${i}`);
    expect(isHeld("10.2.0.1")).toBe(true);
    clock.advance(60_000);
    expect(isHeld("10.2.0.1")).toBe(false);
  });

  test("by hundreds of requests at once brings nothing down", async () => {
    const base = await start({ token: "secret" });
    const statuses = await Promise.all(
      Array.from({ length: 300 }, async (_, i) => (await signIn(base, `guess ${i}`)).status),
    );
    expect(statuses.filter((status) => status === 401)).toHaveLength(5);
    expect(new Set(statuses)).toEqual(new Set([401, 429]));
    expect(await statusWith(base, { authorization: "Bearer secret" })).toBe(200);
  });
});

describe("operators with names", () => {
  const folder = useTemporaryFolder();

  function tokenFiles(): { readonly ada: string; readonly eve: string } {
    const files = { ada: join(folder(), "ada"), eve: join(folder(), "eve") };
    writeFileSync(files.ada, "token-of-ada\n");
    writeFileSync(files.eve, "token-of-eve\n");
    return files;
  }

  const tokensOf = ({ ada, eve }: ReturnType<typeof tokenFiles>) => [
    { name: "ada", tokenFile: ada, readonly: false },
    { name: "eve", tokenFile: eve, readonly: true },
  ];

  test("act under their names, and one that only reads is refused by a text that says so", async () => {
    const base = await start({ isExposed: true, token: "secret", tokens: tokensOf(tokenFiles()) });
    const purge = (token: string) =>
      send(base, { path: "/purge", body: "{}", headers: { authorization: `Bearer ${token}` } });
    expect((await purge("token-of-ada")).status).toBe(200);
    expect((await purge("secret")).status).toBe(200);
    const refused = await purge("token-of-eve");
    expect(refused.status).toBe(403);
    expect(errorOf(refused)).toContain("the operator eve may read everything and change nothing");
    const headers = { ...CONSOLE, cookie: await cookieOf(base, "token-of-eve") };
    expect(JSON.parse((await send(base, { path: "/session", headers })).text)).toMatchObject({
      operator: "eve",
      readonly: true,
    });
    expect((await send(base, { path: "/purge", body: "{}", headers })).status).toBe(403);
    const audit = await send(base, { path: "/audit", headers });
    expect(JSON.parse(audit.text)).toMatchObject({
      actions: [{ by: "operations token" }, { by: "ada (operations token)" }],
    });
  });

  test("have their files read again: the old token and its sessions end, those of others go on", async () => {
    const clock = new ManualClock();
    const files = tokenFiles();
    const watcher = new FileWatcher(clock);
    const base = await start({ isExposed: true, tokens: tokensOf(files) }, { clock, files: watcher });
    const ofAda = { ...CONSOLE, cookie: await cookieOf(base, "token-of-ada") };
    const ofEve = { ...CONSOLE, cookie: await cookieOf(base, "token-of-eve") };
    writeFileSync(`${files.ada}.next`, "another-token");
    renameSync(`${files.ada}.next`, files.ada);
    await passWithLooks(watcher, clock, 1);
    expect(await statusWith(base, ofAda)).toBe(401);
    expect(await statusWith(base, { authorization: "Bearer token-of-ada" })).toBe(401);
    expect(await statusWith(base, { authorization: "Bearer another-token" })).toBe(200);
    expect(await statusWith(base, ofEve)).toBe(200);
    // Emptied while it is written anew: what was good last stays.
    writeFileSync(files.ada, "");
    await passWithLooks(watcher, clock, 5);
    expect(await statusWith(base, { authorization: "Bearer another-token" })).toBe(200);
  });

  test("are counted for operations.tokenFile, too: it is read again", async () => {
    const clock = new ManualClock();
    const { ada: tokenFile } = tokenFiles();
    const files = new FileWatcher(clock);
    const base = await start({ isExposed: true, tokenFile }, { clock, files });
    writeFileSync(tokenFile, "rotated");
    await passWithLooks(files, clock, 1);
    expect(await statusWith(base, { authorization: "Bearer rotated" })).toBe(200);
    expect(await statusWith(base, { authorization: "Bearer token-of-ada" })).toBe(401);
  });
});

test("a body that comes without end is cut off", async () => {
  const base = await start({ token: "secret" });
  const head =
    "POST /session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n";
  const { statuses } = await sendRaw(base, [head, "x".repeat(100_000)], 2_000);
  expect(statuses).toEqual([413]);
});
