import { describe, expect, test } from "vitest";
import { hashId, withoutSecrets } from "../../src/observe/redaction.ts";
import { DSO, UTILITY_ADMIN } from "../support/sample.ts";

describe("what is left of a reason in a log line", () => {
  test.each([
    ["connect ECONNREFUSED 10.1.2.3:6379", "connect ECONNREFUSED <address>"],
    ["connect ECONNREFUSED ::1:6379", "connect ECONNREFUSED <address>"],
    ["connect ETIMEDOUT 2001:db8:0:1::5:443", "connect ETIMEDOUT <address>"],
    ["getaddrinfo ENOTFOUND redis.internal.example", "getaddrinfo ENOTFOUND <address>"],
    ["getaddrinfo EAI_AGAIN redis-0:6379", "getaddrinfo EAI_AGAIN <address>"],
    ["connect ECONNREFUSED localhost:6379", "connect ECONNREFUSED <address>"],
    ["POST https://user:password@login.example/token?x=1 failed", "POST <address> failed"],
    ["redis://:password@10.0.0.1:6379/0 is away", "<address> is away"],
    ["the proxy //proxy.example/scan is away", "the proxy //<address>/scan is away"],
  ])("%s", (text, expected) => {
    expect(withoutSecrets(text)).toBe(expected);
  });

  test("party ids are hashes that lines about one party have in common", () => {
    const text = `its info names the admin "${UTILITY_ADMIN}" and not "${DSO}"`;
    const one = `party ${hashId(UTILITY_ADMIN)}`;
    expect(withoutSecrets(text)).toBe(`its info names the admin "${one}" and not "party ${hashId(DSO)}"`);
  });

  test.each([
    "failed 5 times in a row",
    "does not answer",
    "ENOENT: no such file or directory, open '/run/secrets/token'",
    "answered with more than the 8MiB that limits.responseBody allows",
    "the calls of rateLimit are used up",
    "tracing.endpoint is set, but the packages are not installed",
    "limits.uri and concurrency.max are keys",
    "no reply within 2000 ms",
    // An operator looks for the file that the line names.
    "there is no file /etc/registry-gateway/clients.jsonl",
    "/etc/registry-gateway/clients.jsonl line 1: must be one JSON object",
    "open '../secrets/tls.key.pem'",
  ])("nothing is taken from: %s", (text) => {
    expect(withoutSecrets(text)).toBe(text);
  });

  test("it is short", () => {
    expect(withoutSecrets("long ".repeat(1_000)).length).toBe(200);
  });
});
