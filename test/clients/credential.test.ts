import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { type CredentialRules, credentialInUrl, takeCredential } from "../../src/clients/credential.ts";
import { GatewayError } from "../../src/errors.ts";

const KEY = `rgk_${"Ab0_-".repeat(9).slice(0, 43)}_0a1b2c3d`;
const OTHER = `rgk_${"Zz9_-".repeat(9).slice(0, 43)}_99999999`;
const TOKEN = "header.payload.signature";
const OURS = "our.payload.signature";
const LONG = `our.${"a".repeat(9 * 1024)}`;
const RULES: CredentialRules = { isOurToken: (token) => token === OURS || token === LONG };

/** A request as Node's parser makes it of these lines. */
function requestOf(lines: readonly (readonly [name: string, value: string])[]): IncomingMessage {
  const request = new IncomingMessage(new Socket());
  request.rawHeaders.push(...lines.flat());
  const parsed = request as unknown as { _addHeaderLine(name: string, value: string, to: object): void };
  for (const [name, value] of lines) parsed._addHeaderLine(name, value, request.headers);
  return request;
}

type Lines = readonly (readonly [name: string, value: string])[];

const READ: readonly (readonly [what: string, lines: Lines, shown: string | undefined])[] = [
  ["no header", [], undefined],
  ["x-api-key", [["X-API-Key", KEY]], KEY],
  ["x-api-key in any case", [["x-aPi-kEy", KEY]], KEY],
  ["a token in x-api-key", [["x-api-key", TOKEN]], TOKEN],
  ["a bearer", [["Authorization", `Bearer ${OURS}`]], OURS],
  ["a bearer of others", [["Authorization", `Bearer ${TOKEN}`]], undefined],
  [
    "a key beside a bearer of others",
    [
      ["x-api-key", KEY],
      ["authorization", `Bearer ${TOKEN}`],
    ],
    KEY,
  ],
  ["an empty bearer", [["authorization", "Bearer"]], undefined],
  ["a bearer of spaces", [["authorization", "Bearer   "]], undefined],
  ["a bearer of others of 9 KiB", [["authorization", `Bearer ${"a".repeat(9 * 1024)}`]], undefined],
  ["a key as bearer", [["authorization", `bearer ${KEY}`]], KEY],
  ["a bearer behind several spaces", [["authorization", `BEARER   ${KEY}`]], KEY],
  [
    "both, the same",
    [
      ["x-api-key", KEY],
      ["authorization", `Bearer ${KEY}`],
    ],
    KEY,
  ],
  [
    "the same key twice",
    [
      ["x-api-key", KEY],
      ["X-API-KEY", KEY],
    ],
    KEY,
  ],
  [
    "the same bearer twice",
    [
      ["authorization", `Bearer ${KEY}`],
      ["Authorization", `Bearer ${KEY}`],
    ],
    KEY,
  ],
  ["another scheme", [["authorization", "Basic dXNlcjpwYXNz"]], undefined],
  ["another scheme with a token of others", [["authorization", `DPoP ${TOKEN}`]], undefined],
  [
    "a key beside another scheme",
    [
      ["x-api-key", KEY],
      ["authorization", "Basic dXNlcjpwYXNz"],
    ],
    KEY,
  ],
  ["an alias with _", [["X_API_Key", KEY]], undefined],
  ["an alias with .", [["X.API.Key", KEY]], undefined],
  [
    "another name",
    [
      ["API-Key", KEY],
      ["X-Authorization", `Bearer ${KEY}`],
    ],
    undefined,
  ],
  [
    "a key that connection names",
    [
      ["connection", "x-api-key, close"],
      ["x-api-key", KEY],
    ],
    KEY,
  ],
  ["half a key, which is then found to be none", [["authorization", "Bearer rgk_Ab0"]], "rgk_Ab0"],
  ["8 KiB in x-api-key", [["x-api-key", "a".repeat(8 * 1024)]], "a".repeat(8 * 1024)],
];

const REFUSED: readonly (readonly [what: string, lines: Lines, code: string])[] = [
  ["an empty key", [["x-api-key", ""]], "credential_invalid"],
  ["two bearers in one line", [["authorization", `Bearer ${KEY}, Bearer ${KEY}`]], "credential_invalid"],
  ["a bearer with a tab", [["authorization", `Bearer\t${KEY}`]], "credential_invalid"],
  ["a quoted bearer", [["authorization", `Bearer "${KEY}"`]], "credential_invalid"],
  ["a key without scheme", [["authorization", KEY]], "credential_invalid"],
  ["a key with another scheme", [["authorization", `ApiKey ${KEY}`]], "credential_invalid"],
  ["a token of ours with another scheme", [["authorization", `DPoP ${OURS}`]], "credential_invalid"],
  ["a token of ours without scheme", [["authorization", OURS]], "credential_invalid"],
  ["a key as a name for Basic", [["authorization", `Basic ${btoa(`${KEY}:`)}`]], "credential_invalid"],
  ["a token of ours as a password for Basic", [["authorization", `Basic ${btoa(`a:${OURS}`)}`]], "credential_invalid"],
  ["a list in one line", [["x-api-key", `${KEY},${KEY}`]], "credential_invalid"],
  ["a key with spaces within", [["x-api-key", `${KEY} ${KEY}`]], "credential_invalid"],
  [
    "two keys",
    [
      ["x-api-key", KEY],
      ["x-api-key", OTHER],
    ],
    "credentials_differ",
  ],
  [
    "two bearers",
    [
      ["authorization", `Bearer ${KEY}`],
      ["authorization", `Bearer ${OTHER}`],
    ],
    "credentials_differ",
  ],
  [
    "two schemes",
    [
      ["authorization", "Basic dQ=="],
      ["authorization", `Bearer ${KEY}`],
    ],
    "credentials_differ",
  ],
  [
    "a key and another bearer",
    [
      ["x-api-key", KEY],
      ["authorization", `Bearer ${OTHER}`],
    ],
    "credentials_differ",
  ],
  [
    "a key and a token of ours",
    [
      ["x-api-key", KEY],
      ["authorization", `Bearer ${OURS}`],
    ],
    "credentials_differ",
  ],
  ["a token of ours of 9 KiB", [["authorization", `Bearer ${LONG}`]], "credential_invalid"],
  ["half a key without scheme", [["authorization", "rgk_Ab0"]], "credential_invalid"],
  ["9 KiB as a key", [["x-api-key", "a".repeat(9 * 1024)]], "credential_invalid"],
];

describe("the credential of a request", () => {
  test.each(READ)("is read from %s", (_what, lines, shown) => {
    const request = requestOf(lines);
    expect(takeCredential(request, RULES)).toBe(shown);
    // What named the client is gone.
    expect(Object.values(request.headers).filter((value) => String(value).includes(shown ?? "no such text"))).toEqual(
      lines.some(([name]) => /^x[_.]|^api|^x-auth/i.test(name)) ? expect.anything() : [],
    );
  });

  test.each(REFUSED)("is refused: %s", (_what, lines, code) => {
    const shown = takeCredential(requestOf(lines), RULES);
    expect(shown).toBeInstanceOf(GatewayError);
    expect((shown as GatewayError).code).toBe(code);
    expect((shown as GatewayError).status).toBe(401);
  });

  test("leaves a token of others where it is, beside a key that says who calls", () => {
    const request = requestOf([
      ["x-api-key", KEY],
      ["authorization", `Bearer ${TOKEN}`],
    ]);
    expect(takeCredential(request, RULES)).toBe(KEY);
    expect(request.headers.authorization).toBe(`Bearer ${TOKEN}`);
    expect(request.headers["x-api-key"]).toBeUndefined();
  });
});

describe("a credential in a URL", () => {
  test.each([
    `/registry/metadata/v1/info?api_key=${KEY}`,
    "/registry/metadata/v1/info?api_key=x",
    "/registry/metadata/v1/info?API_KEY=x",
    "/registry/metadata/v1/info?a=1&apikey",
    "/registry/metadata/v1/info?x-api-key=x",
    "/registry/metadata/v1/info?api%5Fkey=x",
    "/registry/metadata/v1/info?access_token=x",
    "/registry/metadata/v1/info?key=rgk_abc",
    "/registry/metadata/v1/info?key=%72gk_abc",
    `/registry/metadata/v1/instruments?pageToken=${KEY}`,
    `/registry/metadata/v1/instruments?pageToken=${KEY.replace("rgk", "%72%67k")}`,
    `/registry/metadata/v1/instruments/${KEY}`,
    `/registry/metadata/v1/info?${KEY}`,
    `/registry/metadata/v1/instruments?pageToken=${KEY.replace("rgk", "%2572gk")}`,
    `/registry/drafts/v1/x?token=${OURS}`,
    `/registry/drafts/v1/x?authorization=Bearer%20${OURS}`,
    `/registry/drafts/v1/x?a=${OURS.replaceAll(".", "%2E")}`,
    `/registry/drafts/v1/${OURS}`,
  ])("is refused: %s", (url) => {
    expect(credentialInUrl(url, RULES)?.code).toBe("credential_invalid");
  });

  test.each([
    "/registry/metadata/v1/info",
    "/registry/metadata/v1/instruments?pageSize=2&pageToken=key",
    "/registry/metadata/v1/instruments/rgk_",
    "/registry/metadata/v1/instruments/A%2FB?key=value",
    "/registry/metadata/v1/instruments?keys=1&monkey=2",
    `/registry/drafts/v1/x?token=${TOKEN}`,
    "/registry/drafts/v1/1.2.3/report.2026.json",
  ])("is not seen where there is none: %s", (url) => {
    expect(credentialInUrl(url, RULES)).toBeUndefined();
  });
});
