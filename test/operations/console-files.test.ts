import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { useOperationsListener } from "../support/operations-listener.ts";
import { sendRaw } from "../support/raw-connection.ts";
import { errorOf, send } from "../support/send.ts";
import { useTemporaryFolder } from "../support/temporary-folder.ts";

const start = useOperationsListener();
const folder = useTemporaryFolder();

const SCRIPT = `const text = "${"a".repeat(5_000)}";`;

/** A built console, with a file beside it that is none of it. */
function build(): string {
  const built = join(folder(), "console");
  mkdirSync(join(built, "assets"), { recursive: true });
  writeFileSync(join(built, "index.html"), "<!doctype html><title>console</title>");
  writeFileSync(join(built, "assets", "index-BvR3kq9z.js"), SCRIPT);
  writeFileSync(join(built, "assets", "plain.css"), "a{}");
  writeFileSync(join(built, "assets", "script.sh"), "echo");
  writeFileSync(join(folder(), "secret.txt"), "secret");
  symlinkSync(join(folder(), "secret.txt"), join(built, "link.txt"));
  return built;
}

test("the console is a page that needs no token, and takes nothing from elsewhere", async () => {
  const base = await start({ isExposed: true, token: "secret" }, { console: build() });
  const page = await send(base, { path: "/console/" });
  expect([page.status, page.text]).toEqual([200, "<!doctype html><title>console</title>"]);
  expect(page.headers).toMatchObject({
    "content-type": "text/html; charset=utf-8",
    "content-security-policy":
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-cache",
  });
  expect((await send(base, { path: "/console/index.html" })).text).toBe(page.text);
  for (const [path, status] of [["/console", 308] as const, ["/", 302] as const]) {
    const answer = await send(base, { path });
    expect([answer.status, answer.headers.location]).toEqual([status, "/console/"]);
  }
  expect((await send(base, { path: "/console/", method: "HEAD" })).status).toBe(200);
  expect((await send(base, { path: "/console/", method: "POST", body: "{}" })).status).toBe(401);
});

test("its files are kept for ever where their names change with them, and compressed once", async () => {
  const base = await start({}, { console: build() });
  const path = "/console/assets/index-BvR3kq9z.js";
  const plain = await send(base, { path });
  expect(plain.headers).toMatchObject({
    "cache-control": "public, max-age=31536000, immutable",
    "content-type": "text/javascript; charset=utf-8",
    vary: "accept-encoding",
  });
  const headers = { "accept-encoding": "br, gzip" };
  const coded = await send(base, { path, headers });
  expect(coded.headers["content-encoding"]).toBe("gzip");
  expect(gunzipSync(coded.bytes).toString()).toBe(SCRIPT);
  expect(coded.headers.etag).not.toBe(plain.headers.etag);
  for (const { headers: sent, etag } of [
    { headers: {}, etag: plain.headers.etag! },
    { headers, etag: `W/${coded.headers.etag!}, "x"` },
  ]) {
    const known = await send(base, { path, headers: { ...sent, "if-none-match": etag } });
    expect([known.status, known.bytes.length]).toEqual([304, 0]);
  }
  expect((await send(base, { path, headers: { "if-none-match": coded.headers.etag! } })).status).toBe(200);
  expect((await send(base, { path: "/console/assets/plain.css" })).headers["cache-control"]).toBe("no-cache");
});

test.each([
  "/console/../secret.txt",
  "/console/..%2fsecret.txt",
  "/console/%2e%2e/secret.txt",
  "/console/%2e%2e%2fsecret.txt",
  "/console/..%5csecret.txt",
  "/console/assets/../../secret.txt",
  "/console//etc/passwd",
  "/console/link.txt",
  "/console/assets/script.sh",
  "/console/assets",
  "/console/assets/",
  "/console/__proto__",
  "/console/%00",
  "/console/%ff",
  "/console/nothing.js",
])("%s is none of its files", async (path) => {
  const base = await start({}, { console: build() });
  const { text, statuses } = await sendRaw(
    base,
    `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`,
  );
  expect([400, 404]).toContain(statuses[0]);
  expect(text).toContain('{"error":"registry-gateway: ');
  expect(text).not.toContain("secret");
});

test("a link to it may be followed from elsewhere, and no other page may load it", async () => {
  const base = await start({}, { console: build() });
  const { host } = new URL(base);
  const cross = { host, "sec-fetch-site": "cross-site" };
  const followed = { ...cross, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" };
  expect((await send(base, { path: "/console/", headers: followed })).status).toBe(200);
  expect((await send(base, { path: "/status", headers: followed })).status).toBe(403);
  for (const headers of [
    cross,
    { ...cross, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script" },
    { ...cross, "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe" },
  ]) {
    expect((await send(base, { path: "/console/", headers })).status).toBe(403);
  }
});

test("a console that is not built says so, and is there once it is", async () => {
  const built = join(folder(), "console");
  const base = await start({}, { console: built });
  const missing = await send(base, { path: "/console/" });
  expect(missing.status).toBe(404);
  expect(errorOf(missing)).toContain("npm run build");
  build();
  expect((await send(base, { path: "/console/" })).status).toBe(200);
});

test("long JSON is compressed for those who accept it", async () => {
  const upstreams = Array.from({ length: 500 }, (_, i) => ({
    name: `upstream-${i}`,
    lastError: "<script>alert(1)</script>",
  }));
  const base = await start({}, { status: () => ({ inForce: [], upstreams }) });
  const plain = await send(base, { path: "/status" });
  expect(plain.headers).toMatchObject({
    "content-type": expect.stringMatching(/^application\/json/),
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
    vary: "accept-encoding",
  });
  expect(JSON.parse(plain.text)).toMatchObject({ upstreams });
  const coded = await send(base, { path: "/status", headers: { "accept-encoding": "gzip" } });
  expect(coded.headers).toMatchObject({ "content-encoding": "gzip", "content-length": String(coded.bytes.length) });
  expect(coded.bytes.length).toBeLessThan(plain.bytes.length / 10);
  expect(gunzipSync(coded.bytes).toString()).toMatch(/"upstreams":\[/);
  const head = await send(base, { path: "/status", method: "HEAD", headers: { "accept-encoding": "gzip" } });
  expect([head.status, head.bytes.length]).toEqual([200, 0]);
});
