import { createHmac, randomBytes } from "node:crypto";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { FileWatcher } from "../../src/config/watched-files.ts";
import { Tokens } from "../../src/clients/tokens.ts";
import type { IssuerConfig } from "../../src/clients/token-verdict.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { useTemporaryFolder } from "../support/temporary-folder.ts";
import {
  base64url,
  clientOf,
  type IssuerKey,
  issuerConfig,
  makeKey,
  RecordingTokenObserver,
  signText,
  signToken,
  tier,
  verdictOf,
} from "../support/token-issuer.ts";

const folder = useTemporaryFolder();
const TIERS = new Map(["wallet", "exchange"].map((name) => [name, tier(name)]));
const N = Buffer.from("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551", "hex");

let rsa: IssuerKey;
let ec: IssuerKey;
let ed: IssuerKey;
let p384: IssuerKey;

beforeAll(() => {
  rsa = makeKey("RS256", "rsa");
  ec = makeKey("ES256", "ec");
  ed = makeKey("EdDSA", "ed");
  p384 = makeKey("ES384", "p384");
});

interface Scene {
  readonly tokens: Tokens;
  readonly issuers: readonly IssuerConfig[];
  readonly clock: ManualClock;
  readonly claims: (over?: Record<string, unknown>) => Record<string, unknown>;
  readonly verdict: (token: string) => Promise<string>;
}

function open(over: Partial<IssuerConfig> = {}, keys: readonly unknown[] = [rsa.jwk, ec.jwk, ed.jwk, p384.jwk]): Scene {
  const clock = new ManualClock();
  const jwksFile = join(folder(), "jwks.json");
  writeFileSync(jwksFile, JSON.stringify({ keys }));
  const issuers = [issuerConfig({ jwksFile, ...over })];
  const tokens = new Tokens({
    issuers,
    tiers: TIERS,
    clock,
    files: new FileWatcher(clock),
    observer: new RecordingTokenObserver(),
  });
  tokens.start();
  const now = clock.wallNow() / 1_000;
  return {
    tokens,
    issuers,
    clock,
    claims: (more = {}) => ({
      iss: "https://login.example",
      aud: "registry-gateway",
      exp: now + 600,
      sub: "wallet-a",
      tier: "wallet",
      ...more,
    }),
    verdict: async (token) => verdictOf(await tokens.verify(token)),
  };
}

const without = (claims: Record<string, unknown>, name: string) =>
  Object.fromEntries(Object.entries(claims).filter(([key]) => key !== name));

test("a token without a key's name has the keys read again, where the issuer has others by now", async () => {
  const unnamed = ({ jwk }: IssuerKey) => ({ ...jwk, kid: undefined });
  let published = [unnamed(ec)];
  let reads = 0;
  const server = createServer((_request, response) => {
    reads += 1;
    response.setHeader("cache-control", "max-age=600").end(JSON.stringify({ keys: published }));
  }).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const jwksUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/keys`;
  const { verdict, claims, clock } = open({ jwksUrl });
  const [next, strange] = [makeKey("ES256", "next"), makeKey("ES256", "strange")];
  const sign = (key: IssuerKey, jti: string) => signToken({ alg: "ES256" }, claims({ jti }), key);
  expect(await verdict(sign(ec, "1"))).toBe("client wallet-a of wallet");
  published = [unnamed(next)];
  clock.advance(11_000);
  expect(await verdict(sign(next, "2"))).toBe("client wallet-a of wallet");
  // One look in ten seconds, whatever is sent.
  for (const jti of ["3", "4", "5"]) expect(await verdict(sign(strange, jti))).toBe("credential_invalid");
  expect(reads).toBe(2);
});

test("forged tokens that wait for an issuer's keys leave room to check others", async () => {
  let isAnswering = true;
  const server = createServer((_request, response) => {
    if (isAnswering) response.setHeader("cache-control", "max-age=600").end(JSON.stringify({ keys: [ec.jwk] }));
  }).listen(0, "127.0.0.1");
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  await once(server, "listening");
  const jwksUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/keys`;
  const { tokens, verdict, claims, clock } = open({ jwksUrl });
  expect(await verdict(signToken({ alg: "ES256" }, claims(), ec))).toBe("client wallet-a of wallet");
  isAnswering = false;
  clock.advance(11_000);
  const text = `${base64url({ alg: "ES256" })}.${base64url(claims())}`;
  const forged = Array.from({ length: 400 }, () => tokens.verify(`${text}.${randomBytes(64).toString("base64url")}`));
  const answered = new Set<number>();
  const asked = Promise.all(forged.map((each, index) => each.finally(() => answered.add(index))));
  const startedAt = performance.now();
  let found: string;
  do {
    // As long as they are being checked there may be no room.
    await new Promise(setImmediate);
    found = await verdict(signToken({ alg: "ES256", kid: "ec" }, claims({ jti: randomBytes(8).toString("hex") }), ec));
  } while (found === "overloaded" && performance.now() - startedAt < 20_000);
  expect(found).toBe("client wallet-a of wallet");
  // Some begin to wait only now, where the machine is busy.
  while (answered.size < forged.length) {
    clock.advance(2_000);
    await new Promise(setImmediate);
  }
  expect(new Set((await asked).map(verdictOf))).toEqual(new Set(["credential_invalid", "overloaded"]));
});

describe("a token", () => {
  test.each(["RS256", "ES256", "EdDSA"])("that its issuer signed with %s names a client", async (alg) => {
    const { tokens, claims, verdict } = open();
    const key = [rsa, ec, ed].find(({ algorithm }) => algorithm === alg)!;
    const token = signToken({ alg, kid: key.jwk["kid"], typ: "at+jwt" }, claims(), key);
    expect(verdictOf(tokens.verified(token))).toBe("not known yet");
    expect(await verdict(token)).toBe("client wallet-a of wallet");
    expect(verdictOf(tokens.verified(token))).toBe("client wallet-a of wallet");
    expect(await verdict(signToken({ alg }, claims(), key))).toBe("client wallet-a of wallet");
  });

  test("of the same subject is of the same client, and of another one of another", async () => {
    const { tokens, claims } = open();
    const header = { alg: "ES256", kid: "ec" };
    const clients = await Promise.all(
      [claims(), claims({ jti: "2" }), claims({ sub: "wallet-b" }), claims({ tier: "exchange" })].map(async (each) =>
        clientOf(await tokens.verify(signToken(header, each, ec))),
      ),
    );
    expect(clients[1]).toEqual(clients[0]);
    expect(clients[2]!.id).not.toBe(clients[0]!.id);
    expect(clients[3]!.tier.name).toBe("exchange");
    expect(clients[0]).toMatchObject({ kind: "token", issuer: "login.example" });
    expect(clients[0]!.id).not.toContain("wallet-a");
  });

  test("is good until its end and the tolerance, to the second, also when it is known already", async () => {
    const { tokens, clock, claims, verdict } = open();
    const token = signToken({ alg: "ES256" }, claims({ exp: clock.wallNow() / 1_000 + 60 }), ec);
    clock.advance(89_999);
    expect(await verdict(token)).toBe("client wallet-a of wallet");
    clock.advance(1);
    expect(verdictOf(tokens.verified(token))).toBe("credential_expired");
    expect(await verdict(signToken({ alg: "ES256" }, claims({ exp: clock.wallNow() / 1_000 - 31 }), ec))).toBe(
      "credential_expired",
    );
    expect(await verdict(signToken({ alg: "ES256" }, claims({ exp: clock.wallNow() / 1_000 - 30 }), ec))).toBe(
      "credential_expired",
    );
    expect(await verdict(signToken({ alg: "ES256" }, claims({ exp: clock.wallNow() / 1_000 - 29 }), ec))).toBe(
      "client wallet-a of wallet",
    );
  });

  test("that is too early is good as soon as it is in time", async () => {
    const { clock, claims, verdict } = open();
    const token = signToken({ alg: "ES256" }, claims({ nbf: clock.wallNow() / 1_000 + 31 }), ec);
    expect(await verdict(token)).toBe("credential_invalid");
    clock.advance(1_000);
    expect(await verdict(token)).toBe("client wallet-a of wallet");
  });

  test("is of the tier that it names, else of its issuer's", async () => {
    const { claims, verdict } = open({ tier: "exchange" });
    const at = (over: Record<string, unknown>) => verdict(signToken({ alg: "ES256" }, claims(over), ec));
    expect(await at({})).toBe("client wallet-a of wallet");
    expect(await verdict(signToken({ alg: "ES256" }, without(claims(), "tier"), ec))).toBe(
      "client wallet-a of exchange",
    );
    for (const odd of ["Wallet", "", "constructor", "__proto__", ["wallet"], null, 1, { wallet: true }]) {
      expect(await at({ tier: odd }), JSON.stringify(odd)).toBe("credential_invalid");
    }
    const { verdict: strict } = open();
    expect(await strict(signToken({ alg: "ES256" }, without(claims(), "tier"), ec))).toBe("credential_invalid");
  });

  test("may name its client in another claim", async () => {
    const { claims, verdict } = open({ clientClaim: "client_id" });
    expect(await verdict(signToken({ alg: "ES256" }, claims({ client_id: "exchange-1" }), ec))).toBe(
      "client exchange-1 of wallet",
    );
    expect(await verdict(signToken({ alg: "ES256" }, claims(), ec))).toBe("credential_invalid");
  });

  test.each([
    ["is missing", undefined],
    ["is empty", ""],
    ["has a line break", "wallet\na"],
    ["has a NUL", "wallet\0a"],
    ["turns the direction of writing", "wallet‮a"],
    ["is half a character", "wallet\ud800"],
    ["ends with a space", "wallet-a "],
    ["is too long", "a".repeat(201)],
    ["is that of those who are not known", "anonymous"],
    ["is no text", 7],
    ["is a list", ["wallet-a"]],
  ])("whose client's name %s is refused", async (_what, sub) => {
    const { claims, verdict } = open();
    expect(await verdict(signToken({ alg: "ES256" }, claims({ sub }), ec))).toBe("credential_invalid");
  });

  test("may have a name of 200 characters", async () => {
    const { claims, verdict } = open();
    const sub = "ä".repeat(200);
    expect(await verdict(signToken({ alg: "ES256" }, claims({ sub }), ec))).toBe(`client ${sub} of wallet`);
  });

  test("that names one of two audiences is good, and one that names none or others is not", async () => {
    const { claims, verdict } = open();
    const at = (aud: unknown) => verdict(signToken({ alg: "ES256" }, claims({ aud }), ec));
    expect(await at(["other", "registry-gateway"])).toBe("client wallet-a of wallet");
    for (const aud of [undefined, "other", "registry-gateway ", ["other"], [], { "registry-gateway": 1 }, null]) {
      expect(await at(aud), JSON.stringify(aud)).toBe("credential_invalid");
    }
  });

  test("with claims of a wrong form is refused", async () => {
    const { claims, verdict } = open();
    const at = (text: string) => verdict(signToken({ alg: "ES256" }, text, ec));
    const good = JSON.stringify(claims());
    expect(await at(good)).toBe("client wallet-a of wallet");
    const bad = [
      JSON.stringify(without(claims(), "exp")),
      JSON.stringify(claims({ exp: String(claims()["exp"]) })),
      good.replace(/"exp":\d+/, '"exp":1e999'),
      JSON.stringify(claims({ nbf: "0" })),
      JSON.stringify(claims({ iss: "https://login.example/" })),
      JSON.stringify(claims({ iss: ["https://login.example"] })),
      JSON.stringify(without(claims(), "iss")),
      good.replace("{", '{"sub":"wallet-b",'),
      good.replace("{", '{"\\u0073ub":"wallet-b",'),
      good.replace("{", '{"x":{"a":1,"a":2},'),
      good.replace("{", '{"x":[{"a":1,"a":2}],'),
      `﻿${good}`,
      `${good}x`,
      `[${good}]`,
      "null",
      '"text"',
      signToken({ alg: "ES256" }, claims(), ec),
    ];
    for (const text of bad) expect(await at(text), text).toBe("credential_invalid");
    const latin = Buffer.from(good.replace("wallet-a", "wallet-ä"), "latin1");
    expect(await verdict(signToken({ alg: "ES256" }, latin, ec))).toBe("credential_invalid");
  });
});

describe("a token that was not signed as it says", () => {
  test("is refused for each other way to write it", async () => {
    const { claims, verdict } = open();
    const good = signToken({ alg: "ES256", kid: "ec" }, claims(), ec);
    const [header, payload, signature] = good.split(".") as [string, string, string];
    // The classes of Wycheproof's JWS vectors.
    const bad = {
      "first character of the signature changed": `${header}.${payload}.${signature.startsWith("X") ? "Y" : "X"}${signature.slice(1)}`,
      "no signature": `${header}.${payload}.`,
      "no signature and separator": `${header}.${payload}`,
      "other payload": `${header}.${base64url(claims({ sub: "wallet-b" }))}.${signature}`,
      "no payload": `${header}..${signature}`,
      "no payload and separator": `${header}.${signature}`,
      "other header": `${base64url({ alg: "ES256", kid: "ed" })}.${payload}.${signature}`,
      "no header": `.${payload}.${signature}`,
      "no header and separator": `${payload}.${signature}`,
      "payload alone": `.${payload}.`,
      empty: "",
      dots: "..",
      "empty part more": `${good}.`,
      "part more": `${good}.foo`,
      "encrypted form": `${header}.${payload}.${signature}.${payload}.${signature}`,
      "JSON form": JSON.stringify({ payload, protected: header, signature }),
      "general JSON form": JSON.stringify({ payload, signatures: [{ protected: header, signature }] }),
      "spaces before": ` ${good}`,
      "line break after": `${good}\n`,
      "spaces in the signature": `${header}.${payload}. ${signature}`,
      "space in the header": `${header} .${payload}.${signature}`,
      "odd character in the payload": `${header}.?${payload}.${signature}`,
      padding: `${header}.${payload}.${signature}==`,
      "the other alphabet": `${header}.${payload}.${signature.replaceAll("-", "+").replaceAll("_", "/")}=`,
      "unused bits set": `${header}.${payload}.${signature.slice(0, -1)}${String.fromCharCode(signature.charCodeAt(85) + 1)}`,
      "9 KiB": signToken({ alg: "ES256" }, claims({ x: "a".repeat(9 * 1024) }), ec),
    };
    for (const [what, token] of Object.entries(bad)) expect(await verdict(token), what).toBe("credential_invalid");
    expect(await verdict(good)).toBe("client wallet-a of wallet");
  });

  test("is refused for each signature that is none", async () => {
    const { claims, verdict } = open();
    const text = `${base64url({ alg: "ES256", kid: "ec" })}.${base64url(claims())}`;
    const good = Buffer.from(signText(text, ec), "base64url");
    const [r, s] = [good.subarray(0, 32), good.subarray(32)];
    const numbers = [0n, 1n, BigInt(`0x${N.toString("hex")}`) - 1n, BigInt(`0x${N.toString("hex")}`)].map((number) =>
      Buffer.from(number.toString(16).padStart(64, "0"), "hex"),
    );
    const zero = Buffer.alloc(1);
    const signatures = [
      ...numbers.flatMap((first) => numbers.map((second) => [first, second])),
      [zero, r, zero, s],
      [r, zero, s, zero],
      [r, s, zero],
      [r],
      [Buffer.alloc(200), r, Buffer.alloc(200), s],
      [Buffer.alloc(64, 0xff)],
    ];
    for (const parts of signatures) {
      const signature = Buffer.concat(parts).toString("base64url");
      expect(await verdict(`${text}.${signature}`), signature).toBe("credential_invalid");
    }
    const der = makeDer(r, s).toString("base64url");
    expect(await verdict(`${text}.${der}`)).toBe("credential_invalid");
    expect(await verdict(`${text}.${good.toString("base64url")}`)).toBe("client wallet-a of wallet");
  });

  test.each(["none", "None", "nOnE", "HS256", "HS384", "HS512", "", "es256", "ES256 ", "RS1", "dir"])(
    "is refused with the algorithm %j",
    async (alg) => {
      const { claims, verdict } = open({ algorithms: ["RS256", "ES256", "EdDSA"] });
      const text = `${base64url({ alg, kid: "rsa" })}.${base64url(claims())}`;
      const secrets = [
        rsa.publicKey.export({ format: "pem", type: "spki" }),
        rsa.publicKey.export({ format: "pem", type: "pkcs1" }),
        rsa.publicKey.export({ format: "der", type: "spki" }),
        JSON.stringify(rsa.jwk),
        "",
      ];
      for (const secret of secrets) {
        const signature = createHmac("sha256", secret).update(text).digest("base64url");
        expect(await verdict(`${text}.${signature}`)).toBe("credential_invalid");
      }
      expect(await verdict(`${text}.`)).toBe("credential_invalid");
      expect(await verdict(`${text}.${signText(text, rsa)}`)).toBe("credential_invalid");
    },
  );

  test("is refused when its key is for another algorithm, or its algorithm is not the issuer's", async () => {
    const { claims, verdict } = open();
    const cases: [alg: string, kid: string | undefined, key: IssuerKey][] = [
      ["ES256", "rsa", ec],
      ["ES256", "p384", p384],
      ["ES384", "p384", p384],
      ["RS256", "ec", rsa],
      ["EdDSA", "ec", ed],
      ["RS512", "rsa", { ...rsa, algorithm: "RS512" }],
      ["PS256", "rsa", rsa],
      ["ES256", undefined, p384],
      ["ES256", undefined, makeKey("ES256")],
    ];
    for (const [alg, kid, key] of cases) {
      const token = signToken({ alg, kid }, claims(), key);
      expect(await verdict(token), `${alg} ${kid} ${key.algorithm}`).toBe("credential_invalid");
    }
  });

  test("is refused however its header names a key of its own", async () => {
    const { claims, verdict } = open();
    const own = makeKey("ES256", "ec");
    const headers = [
      { jwk: own.jwk },
      { jku: "http://127.0.0.1:9/jwks.json" },
      { x5u: "http://127.0.0.1:9/cert.pem" },
      { x5c: [own.publicKey.export({ format: "der", type: "spki" }).toString("base64")] },
      { kid: "../../../../dev/null" },
      { kid: "' OR 1=1 --" },
      { kid: "ec\0" },
      { kid: "__proto__" },
      { kid: "" },
      { kid: '{"$ne":null}' },
    ];
    for (const header of headers) {
      const token = signToken({ alg: "ES256", kid: "ec", ...header }, claims(), own);
      expect(await verdict(token), JSON.stringify(header)).toBe("credential_invalid");
    }
  });

  test("is refused for a header that could mean something else, though the signature is good", async () => {
    const { claims, verdict } = open();
    const headers = [
      '{"alg":"ES256","crit":["exp"],"exp":1}',
      '{"alg":"ES256","crit":[]}',
      '{"alg":"ES256","b64":false,"crit":["b64"]}',
      '{"alg":"ES256","b64":false}',
      '{"alg":"ES256","cty":"JWT"}',
      '{"alg":"ES256","zip":"DEF"}',
      '{"alg":"ES256","enc":"A256GCM"}',
      '{"alg":"ES256","typ":"logout+jwt"}',
      '{"alg":"ES256","typ":["JWT"]}',
      '{"alg":"ES256","alg":"ES256"}',
      '{"alg":"none","\\u0061lg":"ES256"}',
      '{"alg":["ES256"]}',
      '{"kid":"ec"}',
      '{"alg":"ES256","kid":1}',
      '{"alg":"ES256","kid":["ec"]}',
      '{"alg":"ES256","kid":null}',
      `{"alg":"ES256","kid":"${"e".repeat(513)}"}`,
      '[{"alg":"ES256"}]',
      '"ES256"',
      '{"alg":"ES256",}',
      '\ufeff{"alg":"ES256"}',
    ];
    for (const header of headers) {
      expect(await verdict(signToken(header, claims(), ec)), header).toBe("credential_invalid");
    }
    const spaced = '{\n "alg" :\t"ES256", "typ":"JWT" , "unknown":{"a":[1]} }';
    expect(await verdict(signToken(spaced, claims(), ec))).toBe("client wallet-a of wallet");
  });
});

describe("tokens that come again and again", () => {
  test("cost one check when they come at once, and none when they come later", async () => {
    const { tokens, claims } = open();
    const good = signToken({ alg: "ES256" }, claims(), ec);
    const all = await Promise.all(Array.from({ length: 50 }, () => tokens.verify(good)));
    expect(new Set(all).size).toBe(1);
    const forged = signToken({ alg: "ES256" }, claims(), makeKey("ES256"));
    expect(verdictOf(await tokens.verify(forged))).toBe("credential_invalid");
    expect(verdictOf(tokens.verified(forged))).toBe("credential_invalid");
  });

  test("are refused for 10 s after they were refused, and then looked at again", async () => {
    const { tokens, clock, claims } = open();
    const forged = signToken({ alg: "ES256" }, claims(), makeKey("ES256"));
    await tokens.verify(forged);
    clock.advance(9_999);
    expect(verdictOf(tokens.verified(forged))).toBe("credential_invalid");
    clock.advance(1);
    expect(verdictOf(tokens.verified(forged))).toBe("not known yet");
  });

  test("are put off when too many new ones come at once", async () => {
    const { tokens, claims } = open();
    await tokens.verify(signToken({ alg: "ES256" }, claims(), ec));
    const text = `${base64url({ alg: "ES256", kid: "ec" })}.${base64url(claims())}`;
    const flood = Array.from({ length: 2_500 }, () =>
      tokens.verify(`${text}.${randomBytes(64).toString("base64url")}`),
    );
    const verdicts = (await Promise.all(flood)).map(verdictOf);
    expect(verdicts.filter((verdict) => verdict === "overloaded").length).toBeGreaterThan(2_000);
    expect(verdicts).not.toContain("client wallet-a of wallet");
    expect(verdictOf(await tokens.verify(signToken({ alg: "ES256" }, claims(), ec)))).toBe("client wallet-a of wallet");
  });

  test("stay known over a reload where issuer and tier stay", async () => {
    const { tokens, issuers, clock, claims } = open();
    const of = async (name: string) => {
      const token = signToken({ alg: "ES256" }, claims({ sub: name, tier: name }), ec);
      return { token, client: clientOf(await tokens.verify(token)) };
    };
    const [wallet, exchange] = [await of("wallet"), await of("exchange")];
    const reload = (tiers: typeof TIERS, config = issuers) =>
      new Tokens(
        { issuers: config, tiers, clock, files: new FileWatcher(clock), observer: new RecordingTokenObserver() },
        tokens,
      );
    const changed = reload(
      new Map([
        ["wallet", TIERS.get("wallet")!],
        ["exchange", tier("exchange")],
      ]),
    );
    expect(changed.verified(wallet.token)).toBe(wallet.client);
    expect(verdictOf(changed.verified(exchange.token))).toBe("client exchange of exchange");
    expect(changed.verified(exchange.token)).not.toBe(exchange.client);
    const fewer = reload(new Map([["wallet", TIERS.get("wallet")!]]));
    expect(verdictOf(await fewer.verify(exchange.token))).toBe("credential_invalid");
    const other = reload(TIERS, [{ ...issuers[0]!, audience: "another" }]);
    expect(verdictOf(await other.verify(wallet.token))).toBe("credential_invalid");
    tokens.stop();
  });

  test("are told to be of an issuer of ours by what they claim", () => {
    const { tokens, claims } = open();
    expect(tokens.claimsIssuer(signToken({ alg: "HS256" }, claims(), ec))).toBe(true);
    expect(tokens.claimsIssuer(signToken({ alg: "ES256" }, claims({ iss: "https://other.example" }), ec))).toBe(false);
    for (const text of ["", "x", "a.b.c", "..", "e30.e30.e30"]) expect(tokens.claimsIssuer(text)).toBe(false);
  });
});

/** The form that certificates use: two ASN.1 integers. */
function makeDer(r: Buffer, s: Buffer): Buffer {
  const integer = (bytes: Buffer) => Buffer.concat([Buffer.from([2, bytes.length + 1, 0]), bytes]);
  const body = Buffer.concat([integer(r), integer(s)]);
  return Buffer.concat([Buffer.from([0x30, body.length]), body]);
}
