import { describe, expect, test } from "vitest";
import { ERRORS, GatewayError } from "../../src/errors.ts";
import { errorAnswer } from "../../src/requests/send.ts";

describe("an error of the gateway's own", () => {
  test.each(Object.entries(ERRORS))("%s is told in the header beside the one string", (code, { status }) => {
    const answer = errorAnswer(new GatewayError(code as keyof typeof ERRORS, "why"), "id-1");
    const fields = new Map<string, string>();
    for (let i = 0; i < answer.fields.length; i += 2) fields.set(answer.fields[i]!, answer.fields[i + 1]!);
    expect(answer.status).toBe(status);
    expect(fields.get("registry-gateway-error")).toBe(code);
    expect(JSON.parse(answer.body!.toString())).toEqual({ error: "registry-gateway: why", code, requestId: "id-1" });
    // RFC 9209: only what went wrong behind the gateway has a Proxy-Status.
    expect(fields.has("proxy-status")).toBe(status >= 502 && "proxyError" in ERRORS[code as keyof typeof ERRORS]);
  });
});
