import { gunzipSync } from "node:zlib";
import { expect, onTestFinished, test } from "vitest";
import type { StatusAnswer } from "../../src/operations/answers.ts";
import { startGateway } from "../support/gateway.ts";
import { send } from "../support/send.ts";

const UPSTREAMS = 60;
const MARKUP = "<img src=x onerror=alert(1)>";

test("what the console asks for grows by a kilobyte or two for each upstream, and is small on the way", async () => {
  const upstreams = Array.from({ length: UPSTREAMS }, (_, i) => ({
    name: `registry-${i}`,
    admin: `party-${i}::1220${"a".repeat(64)}`,
    urls: ["http://127.0.0.1:1", "http://127.0.0.1:2"],
  }));
  const gateway = await startGateway({ upstreams });
  onTestFinished(() => gateway.stop());
  const cordon = { upstream: "registry-7", node: 1, state: "cordoned", reason: MARKUP };
  expect((await send(gateway.operations, { path: "/nodes", body: JSON.stringify(cordon) })).status).toBe(200);
  for (const [path, mostEach] of [
    ["/status", 1_200],
    ["/config", 2_600],
    ["/readyz", 100],
  ] as const) {
    const answer = await send(gateway.operations, { path, headers: { "accept-encoding": "gzip" } });
    expect([path, answer.headers["content-type"]]).toEqual([path, expect.stringMatching(/^application\/json/)]);
    expect([path, answer.headers["x-content-type-options"]]).toEqual([path, "nosniff"]);
    const text = gunzipSync(answer.bytes).toString("utf8");
    expect([path, text.length < 5_000 + UPSTREAMS * mostEach]).toEqual([path, true]);
    expect([path, answer.bytes.length < text.length / 5]).toEqual([path, true]);
  }
  const status = JSON.parse((await send(gateway.operations, { path: "/status" })).text) as StatusAnswer;
  expect(status.upstreams).toHaveLength(UPSTREAMS);
  expect(status.inForce).toMatchObject([{ reason: MARKUP }]);
});
