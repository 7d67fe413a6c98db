import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { curlOf } from "../../console/curl.ts";
import { ENDPOINTS } from "../../src/spec/endpoints.ts";

const ADDRESS = { origin: "http://127.0.0.1:8080", prefix: "/api/token-standard/v0/registrars" };
const REQUEST = {
  at: "2026-11-22T12:00:00.000Z",
  requestId: "r1",
  method: "GET",
  operation: "info",
  upstream: "amulet",
  status: 200,
  outcome: "miss",
};

/** What a shell makes of the words of a command. */
function wordsOf(command: string): string[] {
  const script = `curl() { for word in "$@"; do printf '%s\\0' "$word"; done; }; ${command}`;
  const env = { PATH: process.env["PATH"], API_KEY: "from-the-environment" };
  return execFileSync("sh", ["-c", script], { encoding: "utf8", env }).split("\0").slice(0, -1);
}

test("a request for metadata is a GET of its path", () => {
  expect(wordsOf(curlOf(REQUEST, ADDRESS)!)).toEqual([
    "-si",
    "http://127.0.0.1:8080/api/token-standard/v0/registrars/amulet/registry/metadata/v1/info",
  ]);
});

test("ids, bodies and credentials are placeholders", () => {
  const request = { ...REQUEST, operation: "transfer_accept", method: "POST", client: "wallet-a", contract: "h:1f2e" };
  expect(wordsOf(curlOf(request, ADDRESS)!)).toEqual([
    "-si",
    `${ADDRESS.origin}${ADDRESS.prefix}/amulet/registry/transfer-instruction/v1/CONTRACT_ID/choice-contexts/accept`,
    "-H",
    "X-API-Key: from-the-environment",
    "-H",
    "content-type: application/json",
    "-d",
    "@body.json",
  ]);
});

test.each(["'; touch /tmp/pwned; '", "$(id)", "`id`", 'a"b', "a\nb", "../..", "-o x"])(
  "a registry of the name %j stays one word of the shell, and one segment",
  (upstream) => {
    const words = wordsOf(curlOf({ ...REQUEST, upstream }, ADDRESS)!);
    expect(words).toHaveLength(2);
    expect(words[1]).toBe(
      `${ADDRESS.origin}${ADDRESS.prefix}/${encodeURIComponent(upstream)}/registry/metadata/v1/info`,
    );
  },
);

test("a request without a registry goes to the plain base URL, and an anonymous one shows no key", () => {
  const words = wordsOf(curlOf({ ...REQUEST, upstream: "none", client: "anonymous" }, ADDRESS)!);
  expect(words).toEqual(["-si", "http://127.0.0.1:8080/registry/metadata/v1/info"]);
});

test("every endpoint has a command; what is passed through has none", () => {
  for (const { operation } of ENDPOINTS) expect(curlOf({ ...REQUEST, operation }, ADDRESS)).toContain("/registry/");
  expect(curlOf({ ...REQUEST, operation: "pass_through" }, ADDRESS)).toBeUndefined();
});
