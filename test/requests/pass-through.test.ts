import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { SampleRegistry } from "../support/sample-registry.ts";
import { errorOf, send } from "../support/send.ts";
import { type GatewayUnderTest, startGateway } from "../support/gateway.ts";
import { ManualClock } from "../support/manual-clock.ts";

const ADMIN = "DSO::1220aa";
const DRAFT = "/registry/drafts/v1/x";
const FACTORY = "/registry/transfer-instruction/v2/transfer-factory";

let registry: SampleRegistry;
let gateway: GatewayUnderTest;

beforeAll(async () => {
  registry = new SampleRegistry({ admin: ADMIN, clock: systemClock() });
  await registry.start();
  const cache = { forwardResponseHeaders: ["constructor", "toString"] };
  gateway = await startGateway({ upstreams: [{ name: "amulet", admin: ADMIN, urls: [registry.url], cache }] });
});

afterAll(async () => {
  await gateway.stop();
  await registry.stop();
});

describe("what may be kept of an answer that passes through", () => {
  const body = JSON.stringify({ choiceArguments: { expectedAdmin: ADMIN } });

  test.each([
    ["POST", DRAFT, "max-age=100", "no-store"],
    ["POST", FACTORY, "public, max-age=100", "no-store"],
    ["POST", DRAFT, undefined, "no-store"],
    ["GET", DRAFT, "max-age=100", "max-age=100"],
    ["GET", DRAFT, undefined, undefined],
  ])("%s %s, of which the registry says %s: %s", async (method, path, said, told) => {
    const headers = said === undefined ? [] : ["Cache-Control", said];
    registry.script(({ operation }) => (operation === "info" ? undefined : { status: 200, headers, body: "{}" }));
    const answer = await send(gateway.url, { path, method, ...(method === "POST" ? { body } : {}) });
    expect([answer.status, answer.headers["cache-control"]]).toEqual([200, told]);
    const fields = answer.rawHeaders.filter((each) => each.toLowerCase() === "cache-control");
    expect(fields).toHaveLength(told === undefined ? 0 : 1);
  });

  test("an error of the registry's own to a POST: nothing", async () => {
    registry.script(({ operation }) =>
      operation === "info" ? undefined : { status: 404, headers: ["Cache-Control", "max-age=5"], body: "gone" },
    );
    const answer = await send(gateway.url, { path: DRAFT, body });
    expect([answer.status, answer.text, answer.headers["cache-control"]]).toEqual([404, "gone", "no-store"]);
  });
});

test("fields of any name that the configuration names are passed on as they are", async () => {
  const headers = ["constructor", "a", "toString", "b", "toString", "c", "ETag", '"x"'];
  registry.script(({ operation }) => (operation === "info" ? undefined : { status: 200, headers, body: "{}" }));
  const answer = await send(gateway.url, { path: DRAFT });
  expect(answer.headers).toMatchObject({ constructor: "a", tostring: "b, c", etag: '"x"' });
});

test("a 304 to a request without conditions is 502 and is not called a redirect", async () => {
  registry.script(({ operation }) => (operation === "info" ? undefined : { status: 304 }));
  const answer = await send(gateway.url, { path: DRAFT });
  expect(answer.status).toBe(502);
  expect(errorOf(answer)).toMatch(/answered 304 Not Modified to a request without conditions/);
});

test("a status that is none is 502", async () => {
  registry.script(({ operation }) => (operation === "info" ? undefined : { status: 600, body: "odd" }));
  const answer = await send(gateway.url, { path: DRAFT });
  expect(answer.status).toBe(502);
  expect(errorOf(answer)).toMatch(/answered with the status 600, which HTTP does not have/);
});

test("a factory call whose body took its time to arrive has all of the answer's time left", async () => {
  const clock = new ManualClock();
  const slow = await startGateway({ upstreams: [{ name: "amulet", admin: ADMIN, urls: [registry.url] }] }, { clock });
  onTestFinished(() => slow.stop());
  registry.script(undefined);
  const { hostname, port } = new URL(slow.url);
  const sent = request({ hostname, port, path: FACTORY, method: "POST", agent: false });
  const answered = once(sent, "response") as Promise<[IncomingMessage]>;
  sent.setHeader("content-type", "application/json");
  sent.setHeader("expect", "100-continue");
  sent.flushHeaders();
  await once(sent, "continue");
  sent.write('{"choiceArguments":');
  await new Promise((resolve) => setImmediate(resolve));
  clock.advance(20_000);
  sent.end(`{"expectedAdmin":"${ADMIN}"}}`);
  const [answer] = await answered;
  expect(answer.statusCode).toBe(200);
  answer.resume();
});
