import { readFileSync, rmSync, writeFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { join } from "node:path";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { setImmediate as turn } from "node:timers/promises";
import { afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { keyUrl } from "../../src/clients/key-source.ts";
import { systemClock } from "../../src/clock.ts";
import { FileWatcher } from "../../src/config/watched-files.ts";
import { Tokens } from "../../src/clients/tokens.ts";
import { leadHere } from "../support/lookups.ts";
import { passWithLooks } from "../support/looks.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { useTemporaryFolder } from "../support/temporary-folder.ts";
import {
  type IssuerKey,
  issuerConfig,
  KeyServer,
  makeKey,
  RecordingTokenObserver,
  signToken,
  tier,
  verdictOf,
} from "../support/token-issuer.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const folder = useTemporaryFolder();
const TIERS = new Map([["wallet", tier("wallet")]]);
const GOOD = "client wallet-a of wallet";

let first: IssuerKey;
let second: IssuerKey;
const servers: KeyServer[] = [];
const opened: Tokens[] = [];

beforeAll(() => {
  first = makeKey("ES256", "first");
  second = makeKey("ES256", "second");
});

afterEach(async () => {
  for (const tokens of opened.splice(0)) tokens.stop();
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

async function listen(tls?: { cert: Buffer; key: Buffer }): Promise<KeyServer> {
  const server = await new KeyServer(tls).listen();
  servers.push(server);
  server.keys = [first.jwk];
  return server;
}

function open(source: { jwksUrl: string } | { jwksFile: string }) {
  const clock = new ManualClock();
  const observer = new RecordingTokenObserver();
  const parts = {
    issuers: [issuerConfig({ ...source, tier: "wallet" })],
    tiers: TIERS,
    clock,
    files: new FileWatcher(clock),
    observer,
  };
  const tokens = new Tokens(parts);
  tokens.start();
  opened.push(tokens);
  const claims = { iss: "https://login.example", aud: "registry-gateway", sub: "wallet-a" };
  const exp = clock.wallNow() / 1_000 + 1e7;
  let serial = 0;
  /** A token that was never seen before. */
  const token = (key: IssuerKey, kid: unknown = key.jwk["kid"]) =>
    signToken({ alg: key.algorithm, kid }, { ...claims, exp, jti: (serial += 1) }, key);
  return {
    clock,
    observer,
    tokens,
    parts,
    token,
    verdict: async (key: IssuerKey, kid?: unknown) => verdictOf(await tokens.verify(token(key, kid))),
    /** Moves on, and lets what falls due come to its end. */
    advance: async (duration: number, looks: number): Promise<void> => {
      const before = observer.looks.length;
      clock.advance(duration);
      await vi.waitFor(() => expect(observer.looks.length).toBe(before + looks), { interval: 5, timeout: 60_000 });
      await turn();
    },
  };
}

describe("the keys of an issuer at a URL", () => {
  test("are fetched once before the first token, whoever waits", async () => {
    const server = await listen();
    const { verdict } = open({ jwksUrl: server.url });
    expect(await Promise.all(Array.from({ length: 20 }, () => verdict(first)))).toEqual(Array(20).fill(GOOD));
    expect(server.requests).toBe(1);
  });

  test("are fetched from where their host led last while its name server is silent", async () => {
    const server = await listen();
    const names = leadHere("keys.example");
    const source = keyUrl(server.url.replace("127.0.0.1", "keys.example"), systemClock());
    expect((await source.read()).keys).toHaveLength(1);
    names.fallSilent();
    expect((await source.read()).keys).toHaveLength(1);
  });

  test.each([
    [undefined, 10 * MINUTE],
    ["max-age=1200", 20 * MINUTE],
    ["public, max-age=1200, must-revalidate", 20 * MINUTE],
    ["max-age=1", 5 * MINUTE],
    ["s-max-age=1200", 10 * MINUTE],
    ["max-age=999999999", 24 * HOUR],
    ["no-store", 5 * MINUTE],
    ["no-cache, max-age=1200", 5 * MINUTE],
    ["max-age=-7", 10 * MINUTE],
  ])("that come with Cache-Control %j are fetched again in time", async (control, after) => {
    const server = await listen();
    if (control !== undefined) server.fields = { "cache-control": control };
    const { advance, verdict } = open({ jwksUrl: server.url });
    await verdict(first);
    await advance(after - 1, 0);
    expect(server.requests).toBe(1);
    await advance(1, 1);
    expect(server.requests).toBe(2);
  });

  test("that spent time in a cache are fetched again so much earlier", async () => {
    const server = await listen();
    server.fields = { "cache-control": "max-age=1200", age: "600" };
    const { advance, verdict } = open({ jwksUrl: server.url });
    await verdict(first);
    await advance(10 * MINUTE, 1);
    expect(server.requests).toBe(2);
  });

  test("are fetched at most once in 10 s for keys that they do not have, whatever clients send", async () => {
    const server = await listen();
    const { clock, verdict } = open({ jwksUrl: server.url });
    await verdict(first);
    clock.advance(10_000);
    const flood = Array.from({ length: 1_000 }, (_, i) => verdict(second, `unknown-${i}`));
    expect(new Set(await Promise.all(flood))).toEqual(new Set(["credential_invalid"]));
    expect(server.requests).toBe(2);
    clock.advance(9_999);
    await verdict(second, "unknown");
    expect(server.requests).toBe(2);
    clock.advance(1);
    await verdict(second, "unknown");
    expect(server.requests).toBe(3);
  });

  test("that are new are found by the first token that needs them", async () => {
    const server = await listen();
    const { clock, verdict } = open({ jwksUrl: server.url });
    expect(await verdict(first)).toBe(GOOD);
    clock.advance(10_000);
    server.keys = [first.jwk, second.jwk];
    expect(await verdict(second)).toBe(GOOD);
    expect(await verdict(first)).toBe(GOOD);
  });

  test("that leave the set count no more, for tokens that are known as well", async () => {
    const server = await listen();
    server.keys = [first.jwk, second.jwk];
    const { advance, tokens, token } = open({ jwksUrl: server.url });
    const [gone, stays] = [token(first), token(second)];
    expect(verdictOf(await tokens.verify(gone))).toBe(GOOD);
    expect(verdictOf(await tokens.verify(stays))).toBe(GOOD);
    server.keys = [second.jwk];
    await advance(10 * MINUTE, 1);
    expect(verdictOf(tokens.verified(gone))).toBe("not known yet");
    expect(verdictOf(await tokens.verify(gone))).toBe("credential_invalid");
    expect(verdictOf(tokens.verified(stays))).toBe(GOOD);
    server.keys = [];
    await advance(10 * MINUTE, 1);
    expect(verdictOf(await tokens.verify(stays))).toBe("credential_invalid");
  });

  test("of the same id that were changed verify no token of the old one", async () => {
    const server = await listen();
    const { advance, tokens, token } = open({ jwksUrl: server.url });
    const known = token(first);
    expect(verdictOf(await tokens.verify(known))).toBe(GOOD);
    server.keys = [{ ...second.jwk, kid: "first" }];
    await advance(10 * MINUTE, 1);
    expect(verdictOf(await tokens.verify(known))).toBe("credential_invalid");
    expect(verdictOf(await tokens.verify(token(second, "first")))).toBe(GOOD);
  });

  test("count for 24 h after they were due while the issuer is away, and then tokens are put off", async () => {
    const server = await listen();
    const { advance, clock, observer, tokens, token, verdict } = open({ jwksUrl: server.url });
    const known = token(first);
    await tokens.verify(known);
    server.answer = (_request, response) => void response.writeHead(503).end();
    await advance(10 * MINUTE, 1);
    await advance(24 * HOUR - 1, 1);
    expect(await verdict(first)).toBe(GOOD);
    expect(verdictOf(tokens.verified(known))).toBe(GOOD);
    expect(observer.news).toEqual(["answered 503", "did not answer within 5 s"]);
    await advance(1, 0);
    expect(verdictOf(tokens.verified(known))).toBe("not known yet");
    expect(verdictOf(await tokens.verify(known))).toBe("client_keys_unavailable");
    server.answer = undefined;
    clock.advance(10_000);
    expect(verdictOf(await tokens.verify(known))).toBe(GOOD);
    expect(observer.news.at(-1)).toBeUndefined();
  });

  test("are asked for again after 10 s, then less and less often while they cannot be had", async () => {
    const server = await listen();
    server.answer = (_request, response) => void response.writeHead(500).end();
    const { advance, observer } = open({ jwksUrl: server.url });
    await vi.waitFor(() => expect(observer.looks.length).toBe(1), { timeout: 60_000 });
    await turn();
    for (const pause of [10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]) {
      await advance(pause - 1, 0);
      await advance(1, 1);
    }
  });

  test.each<[string, (response: ServerResponse) => void, string]>([
    [
      "redirects",
      (response) => response.writeHead(302, { location: "/other" }).end(),
      "redirects, which is not followed",
    ],
    ["is not there", (response) => response.writeHead(404).end("{}"), "answered 404"],
    [
      "is not there, coded",
      (response) => response.writeHead(404, { "content-encoding": "gzip" }).end(""),
      "answered 404",
    ],
    ["is a page", (response) => response.end("<!doctype html>"), "is no JWK set"],
    ["is an empty object", (response) => response.end("{}"), "is no JWK set"],
    ["has a member twice", (response) => response.end('{"keys":[],"keys":[]}'), "is no JWK set"],
    ["is too large", (response) => response.end(Buffer.alloc(1024 * 1024 + 1, " ")), "is larger than 1 MiB"],
    ["never ends", (response) => endless(response), "is larger than 1 MiB"],
    ["is cut off", (response) => cutOff(response), "cannot be fetched (UND_ERR_RES_CONTENT_LENGTH_MISMATCH)"],
    ["is no HTTP", (response) => response.socket!.end("hello\r\n\r\n"), "cannot be fetched (HTTPParserError)"],
    ["is coded", (response) => response.writeHead(200, { "content-encoding": "gzip" }).end(""), "is encoded"],
    ["has too many keys", (response) => response.end(`{"keys":[${"{},".repeat(100)}{}]}`), "has 101 keys"],
    [
      "has private keys",
      (response) => response.end(JSON.stringify({ keys: [{ ...first.jwk, d: "AA" }] })),
      "private key",
    ],
    ["has secrets", (response) => response.end('{"keys":[{"kty":"oct","k":"AA"}]}'), "has no key for signatures"],
  ])("that %s are none, and the last good ones stay", async (_what, answer, fault) => {
    const server = await listen();
    const { advance, observer, verdict } = open({ jwksUrl: server.url });
    expect(await verdict(first)).toBe(GOOD);
    server.answer = (_request, response) => answer(response);
    await advance(10 * MINUTE, 1);
    expect(observer.news.at(-1)).toContain(fault);
    expect(observer.news.at(-1)).not.toMatch(/127\.0\.0\.1|http/);
    expect(await verdict(first)).toBe(GOOD);

    const fresh = open({ jwksUrl: server.url });
    expect(await fresh.verdict(first)).toBe("client_keys_unavailable");
  });

  test("that never come are waited for 2 s by requests and 5 s in all", async () => {
    const server = await listen();
    server.answer = () => undefined;
    const { clock, observer, verdict } = open({ jwksUrl: server.url });
    await vi.waitFor(() => expect(server.requests).toBe(1), { timeout: 60_000 });
    const waiting = verdict(first);
    await turn();
    clock.advance(2_000);
    expect(await waiting).toBe("client_keys_unavailable");
    expect(observer.looks).toEqual([]);
    clock.advance(3_000);
    await vi.waitFor(() => expect(observer.news).toEqual(["did not answer within 5 s"]), { timeout: 60_000 });
  });

  test("that cannot be connected to are none, and are there when the issuer is back", async () => {
    const server = await listen();
    const { url } = server;
    await server.close();
    servers.length = 0;
    const { observer, verdict } = open({ jwksUrl: url });
    expect(await verdict(first)).toBe("client_keys_unavailable");
    expect(observer.news).toEqual(["cannot be fetched (ECONNREFUSED)"]);
  });

  test("that come and go are told once each time, and the same fault again after 10 minutes", async () => {
    const server = await listen();
    const { advance, observer, verdict } = open({ jwksUrl: server.url });
    await verdict(first);
    server.answer = (_request, response) => void response.writeHead(500).end();
    await advance(10 * MINUTE, 1);
    await advance(10_000, 1);
    await advance(20_000, 1);
    expect(observer.news).toEqual(["answered 500"]);
    server.answer = (_request, response) => void response.writeHead(502).end();
    await advance(40_000, 1);
    server.answer = (_request, response) => void response.writeHead(500).end();
    await advance(80_000, 1);
    expect(observer.news).toEqual(["answered 500", "answered 502", "answered 500"]);
    await advance(160_000, 1);
    await advance(5 * MINUTE, 1);
    expect(observer.news).toHaveLength(3);
    await advance(5 * MINUTE, 1);
    expect(observer.news.slice(3)).toEqual(["answered 500"]);
    server.answer = undefined;
    await advance(5 * MINUTE, 1);
    expect(observer.news.slice(4)).toEqual([undefined]);
    expect(await verdict(first)).toBe(GOOD);
  });

  test("come over TLS from a server whose certificate is trusted, and from no other", async () => {
    const read = (name: string) => readFileSync(join(import.meta.dirname, "../fixtures/tls", name));
    const server = await listen({ cert: read("server.pem"), key: read("server-key.pem") });
    const untrusting = open({ jwksUrl: server.url });
    expect(await untrusting.verdict(first)).toBe("client_keys_unavailable");
    expect(untrusting.observer.news[0]).toMatch(/^cannot be fetched \([A-Z_]*(?:CERT|SIGNATURE|ISSUER)[A-Z_]*\)$/);
    const trusted = getCACertificates("default");
    setDefaultCACertificates([...trusted, read("ca.pem").toString()]);
    try {
      expect(await open({ jwksUrl: server.url }).verdict(first)).toBe(GOOD);
      const other = await listen({ cert: read("other-name.pem"), key: read("other-name-key.pem") });
      const misled = open({ jwksUrl: other.url });
      expect(await misled.verdict(first)).toBe("client_keys_unavailable");
      expect(misled.observer.news).toEqual(["cannot be fetched (ERR_TLS_CERT_ALTNAME_INVALID)"]);
    } finally {
      setDefaultCACertificates(trusted);
    }
  });

  test("are not fetched anew by a reload, and no more after the last use", async () => {
    const server = await listen();
    const { advance, clock, observer, parts, tokens, verdict, token } = open({ jwksUrl: server.url });
    await verdict(first);
    const reloaded = new Tokens({ ...parts, issuers: [{ ...parts.issuers[0]!, audience: "another" }] }, tokens);
    tokens.stop();
    reloaded.start();
    expect(verdictOf(await reloaded.verify(token(first)))).toBe("credential_invalid");
    expect(server.requests).toBe(1);
    await advance(10 * MINUTE, 1);
    expect(server.requests).toBe(2);
    reloaded.stop();
    expect(observer.left).toEqual(["login.example", "login.example"]);
    clock.advance(24 * HOUR);
    await turn();
    expect(server.requests).toBe(2);
    opened.length = 0;
  });
});

describe("the keys of an issuer in a file", () => {
  test("are read again when it changes, and the last good ones stay", async () => {
    const jwksFile = join(folder(), "jwks.json");
    const write = (text: string) => writeFileSync(jwksFile, text);
    write(JSON.stringify({ keys: [first.jwk] }));
    const { clock, parts, observer, tokens, token, verdict } = open({ jwksFile });
    const known = token(first);
    expect(verdictOf(await tokens.verify(known))).toBe(GOOD);
    write('{"keys":');
    await passWithLooks(parts.files, clock, 1);
    expect(observer.news.at(-1)).toContain("is no JWK set");
    expect(await verdict(first)).toBe(GOOD);
    rmSync(jwksFile);
    await passWithLooks(parts.files, clock, 1);
    expect(observer.news.at(-1)).toBe("is not there");
    expect(verdictOf(tokens.verified(known))).toBe(GOOD);
    write(JSON.stringify({ keys: [second.jwk] }));
    await passWithLooks(parts.files, clock, 1);
    expect(observer.news.at(-1)).toBeUndefined();
    expect(verdictOf(await tokens.verify(known))).toBe("credential_invalid");
    expect(await verdict(second)).toBe(GOOD);
  });

  test("that is not there put tokens off until it is", async () => {
    const jwksFile = join(folder(), "jwks.json");
    const { clock, parts, verdict } = open({ jwksFile });
    expect(await verdict(first)).toBe("client_keys_unavailable");
    writeFileSync(jwksFile, JSON.stringify({ keys: [first.jwk] }));
    await passWithLooks(parts.files, clock, 1);
    expect(await verdict(first)).toBe(GOOD);
  });
});

function endless(response: ServerResponse): void {
  const chunk = Buffer.alloc(64 * 1024, " ");
  const write = (): void => {
    while (!response.destroyed && response.write(chunk));
    if (!response.destroyed) response.once("drain", write);
  };
  write();
}

function cutOff(response: ServerResponse): void {
  response.writeHead(200, { "content-length": "1000" });
  response.write('{"keys":[', () => response.destroy());
}
