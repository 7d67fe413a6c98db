import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { TestClock } from "../../support/clock.ts";
import { CANCEL, DRAFT, expecting, FACTORY, INFO, LIST } from "../../support/endpoints.ts";
import { NOTHING_KEPT, startGateway, type TestGateway, useGateway, type Values } from "../../support/gateway.ts";
import { expectOwnError, type Request } from "../../support/http.ts";
import { type Registry, type Script, startRegistry } from "../../support/registry.ts";
import { until } from "../../support/until.ts";

const GET: Request = { path: LIST };
const POST: Request = { path: CANCEL, body: "{}" };
const PASSED: Request = { path: DRAFT };

const clock = TestClock.running();
const serve = useGateway(clock);

interface One {
  readonly amulet: Registry;
  readonly gateway: TestGateway;
}

async function start(upstream: object = { retries: 0 }, keys: object = {}, begin = serve): Promise<One> {
  const amulet = await startRegistry("amulet");
  const gateway = await begin({ ...keys, upstreams: [amulet.upstream(upstream)] });
  // Its admin is proved.
  expect((await gateway.post(FACTORY, '{"choiceArguments":{}}')).status).toBe(200);
  return { amulet, gateway };
}

/** One gateway for the tables of a block. Before each test pauses and doubts of the one before it are over. */
function useOne(keys: object = {}): () => One {
  let one: One | undefined;
  beforeAll(async () => {
    const begin = (values: Values) => startGateway(values, { clock });
    one = await start({ retries: 0 }, { ...NOTHING_KEPT, ...keys }, begin);
  });
  beforeEach(async () => {
    one!.amulet.reset();
    clock.advance("61s");
    await until(async () => {
      clock.advance(250);
      return (await one!.gateway.send(POST)).status === 200;
    });
    one!.amulet.calls.length = 0;
  });
  return () => one!;
}

const text = ["content-type", "text/plain"];
const html = ["content-type", "text/html"];
const NGINX = "<html><head><title>404 Not Found</title></head><body><h1>404 Not Found</h1><hr>nginx</body></html>";

describe("what is wrong with a registry is told in the gateway's form:", () => {
  const one = useOne({ limits: { responseBody: "64KiB" } });
  test.each<[string, Script, number, string | undefined, string]>([
    ["a connection that breaks", "reset", 502, "upstream_reset", "connection_terminated"],
    ["what is no HTTP", { raw: "garbage\r\n\r\n" }, 502, undefined, ""],
    ["an answer that ends too soon", { raw: "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{" }, 502, undefined, ""],
    ["what is no JSON", { body: "no JSON" }, 502, "upstream_invalid", "http_protocol_error"],
    ["JSON that is cut", { body: '{"instruments":[' }, 502, "upstream_invalid", "http_protocol_error"],
    ["a redirect", { status: 302, fields: ["Location", "http://127.0.0.1:1/"], body: "" }, 502, "upstream_invalid", ""],
    [
      "a permanent redirect",
      { status: 308, fields: ["Location", "/elsewhere"], body: "" },
      502,
      "upstream_invalid",
      "",
    ],
    ["an HTML 404", { status: 404, fields: html, body: NGINX }, 502, "upstream_wrong_url", "proxy_configuration_error"],
    [
      "a body above responseBody",
      { body: JSON.stringify({ x: "x".repeat(70_000) }) },
      502,
      "upstream_too_large",
      "http_response_body_size",
    ],
    [
      "a chunked one",
      { fields: ["Transfer-Encoding", "chunked"], body: `{"x":"${"x".repeat(70_000)}"}` },
      502,
      "upstream_too_large",
      "",
    ],
  ])("%s", async (_what, script, status, code, type) => {
    const { amulet, gateway } = one();
    amulet.on("*", script);
    for (const request of [GET, POST]) {
      const answer = await gateway.send(request);
      expectOwnError(answer, status, code);
      if (type !== "") expect(answer.headers["proxy-status"]).toContain(`error=${type}`);
      expect(answer.error).toMatch(/amulet|registry/);
      expect(answer.headers["cache-control"]).toBe("no-store");
    }
    amulet.on("*", undefined);
  });

  test.each<[string, Script]>([
    ["a connection that breaks", "reset"],
    ["what is no HTTP", { raw: "garbage\r\n\r\n" }],
    ["a redirect", { status: 302, fields: ["Location", "http://127.0.0.1:1/"], body: "" }],
    ["a body that is announced as too large", { body: "x".repeat(70_000) }],
  ])("%s, on what passes through", async (_what, script) => {
    const { amulet, gateway } = one();
    amulet.on("*", script);
    expectOwnError(await gateway.send(PASSED), 502);
  });

  test("no answer within the time is 504", async () => {
    const { amulet, gateway } = await start({ retries: 0, timeout: "6s", attemptTimeout: "3s" });
    amulet.on("*", "hang");
    for (const request of [GET, POST, PASSED]) {
      amulet.calls.length = 0;
      const answer = gateway.send(request);
      await amulet.reached(1);
      clock.advance("6s");
      expectOwnError(await answer, 504, "upstream_timeout");
      await until(() => amulet.calls.every(({ isOpen }) => !isOpen));
    }
  });

  test("a body that never ends is 504", async () => {
    const { amulet, gateway } = await start({ retries: 0 });
    amulet.on("*", (_call, response) => void response.writeHead(200).write('{"x":'));
    for (const request of [GET, POST]) {
      amulet.calls.length = 0;
      const answer = gateway.send(request);
      await amulet.reached(1);
      clock.advance("15s");
      expectOwnError(await answer, 504, "upstream_timeout");
    }
  });

  test("Request-Timeout shortens the deadline, and does not lengthen it", async () => {
    const { amulet, gateway } = await start({ retries: 0 });
    amulet.on("*", "hang");
    for (const [seconds, advance] of [
      ["2", "2s"],
      ["0.5", "500ms"],
      ["600", "15s"],
    ] as const) {
      for (const request of [POST, PASSED]) {
        amulet.calls.length = 0;
        const answer = gateway.send({ ...request, headers: { "request-timeout": seconds } });
        await amulet.reached(1);
        clock.advance(advance);
        expectOwnError(await answer, 504, "upstream_timeout");
      }
    }
  });

  test("Request-Timeout counts from the request's beginning, also where the admin is waited for first", async () => {
    const amulet = await startRegistry("amulet");
    const { name, admin, urls } = amulet;
    const release = amulet.hold("info");
    amulet.on("transfer_factory", "hang");
    const gateway = await serve({ upstreams: [{ name, urls }] });
    await amulet.reached(1, "info");
    const answer = gateway.post(gateway.base(name) + FACTORY, expecting(admin), { "request-timeout": "20" });
    // What was sent before this one waits by now.
    await gateway.get("/nothing");
    clock.advance("10s");
    release();
    await amulet.reached(1);
    clock.advance("10s");
    expectOwnError(await answer, 504, "upstream_timeout");
    expect(gateway.requestLines.at(-1)!["ms"]).toBeLessThan(24_000);
  });

  test.each(["", "-1", "x", "1e9", "0"])("a Request-Timeout that is none, %j, changes nothing", async (value) => {
    const { gateway } = await start();
    const { status } = await gateway.post(CANCEL, "{}", { "request-timeout": value });
    expect([200, 400]).toContain(status);
    expect((await gateway.post(CANCEL)).status).toBe(200);
  });

  test.each([401, 403])("%i to credentials of ours is 502 that shows none of them", async (status) => {
    const { amulet, gateway } = await start({ retries: 0, auth: { bearer: "of-the-gateway" } });
    amulet.on("*", { status, body: { error: "who are you?" } });
    for (const request of [GET, POST, PASSED]) {
      const answer = await gateway.send(request);
      expectOwnError(answer, 502, "upstream_credentials");
      expect(answer.headers["proxy-status"]).toContain("http_request_denied");
      expect(answer.text).not.toContain("of-the-gateway");
    }
    expect(amulet.last.headers.authorization).toBe("Bearer of-the-gateway");
  });

  test("credentials of ours that a call is refused with are told to operators, until a call is not", async () => {
    const { amulet, gateway } = await start({ retries: 0, auth: { bearer: "of-the-gateway" } }, NOTHING_KEPT);
    const told = async () => [
      (await gateway.operations.status()).health.sentence as string,
      await gateway.operations.metric("registry_gateway_upstream_credential_unusable"),
    ];
    amulet.on("instruments", { status: 401, body: { error: "who are you?" } });
    expectOwnError(await gateway.send(GET), 502, "upstream_credentials");
    // Its info is good, and asked for again: many registries want no credential for that.
    clock.advance("61s");
    expectOwnError(await gateway.send(GET), 502, "upstream_credentials");
    const sentence = "amulet: the gateway's credential is unusable: the registry refuses it (401).";
    expect(await told()).toEqual([sentence, 1]);
    expect((await gateway.send(POST)).status).toBe(200);
    expect(await told()).toEqual([expect.stringMatching(/^All is well/), 0]);
  });

  test("more fields than can be taken are 502", async () => {
    const { amulet, gateway } = await start();
    for (const fields of [
      ["X-Long", "x".repeat(40 * 1024)],
      Array.from({ length: 3_000 }, (_none, at) => [`X-${at}`, "x".repeat(8)]).flat(),
    ]) {
      amulet.on("*", { fields, body: {} });
      expectOwnError(await gateway.send(POST), 502);
    }
  });
});

describe("a registry's own error", () => {
  const one = useOne();
  test.each([400, 404, 409, 413, 415, 422, 429, 500, 501, 503])(
    "%i in the API's form keeps its status and its bytes",
    async (status) => {
      const { amulet, gateway } = one();
      const body = '{ "error":"in its own words", "code":17}';
      for (const request of [GET, POST]) {
        amulet.on("*", { status, body });
        const answer = await gateway.send(request);
        expect([answer.status, answer.text]).toEqual([status, body]);
        expect(answer.headers["content-type"]).toMatch(/^application\/json/);
        expect(answer.headers["access-control-allow-origin"]).toBe("*");
        expect(answer.code).toBeUndefined();
        // A 429 pauses its node.
        if (status === 429) break;
      }
    },
  );

  test.each<[string, number, object, RegExp]>([
    ["text/plain", 429, { fields: text, body: "Too Many Requests: Server is busy" }, /Server is busy/],
    ["HTML", 502, { fields: html, body: "<html><h1>502 Bad Gateway</h1></html>" }, /502/],
    ["no body", 500, { fields: text, body: "" }, /500/],
    ["JSON of another form", 422, { body: { message: "no" } }, /422/],
    ["an error that is no string", 400, { body: { error: { code: 1 } } }, /400/],
    ["a list", 400, { body: '["error"]' }, /400/],
    ["control characters", 400, { fields: text, body: "caf\u00e9 \u0000\u0007\u202e" }, /400/],
    ["a very long text", 500, { fields: text, body: "very ".repeat(10_000) }, /very/],
  ])("in another form keeps its status and becomes one of ours: %s", async (_what, status, script, said) => {
    const { amulet, gateway } = one();
    amulet.on("*", { status, ...script });
    const answer = await gateway.send(POST);
    expectOwnError(answer, status, "upstream_error");
    expect(answer.error).toMatch(said);
    expect(answer.error).not.toMatch(/[<\p{Cc}\u202e]/u);
    expect(answer.text.length).toBeLessThan(1_000);
  });

  test("is none where it has no body: a 204 leaves without a length", async () => {
    const { amulet, gateway } = one();
    amulet.on("*", { status: 204 });
    const answer = await gateway.send(POST);
    expect([answer.status, answer.headers["content-length"]]).toEqual([204, undefined]);
  });

  test("is known by its form, not by its type", async () => {
    const { amulet, gateway } = one();
    const body = '{"error":"no such contract"}';
    amulet.on("*", { status: 404, fields: html, body });
    expect((await gateway.send(POST)).text).toBe(body);
  });

  test("keeps its Retry-After", async () => {
    for (const request of [GET, POST, PASSED]) {
      const { amulet, gateway } = await start();
      amulet.on("*", { status: 429, fields: [...text, "Retry-After", "7"], body: "slow down" });
      const answer = await gateway.send(request);
      expect([answer.status, answer.headers["retry-after"]]).toEqual([429, "7"]);
    }
  });

  test("401 and 403 without credentials of ours are the registry's", async () => {
    const { amulet, gateway } = one();
    for (const status of [401, 403]) {
      amulet.on("*", { status, body: '{"error":"who?"}' });
      for (const request of [GET, POST]) {
        const answer = await gateway.send(request);
        expect([answer.status, answer.text]).toEqual([status, '{"error":"who?"}']);
      }
    }
    expect(await gateway.operations.upstream("amulet")).not.toHaveProperty("credential");
  });

  test("that passes through is untouched, HTML too", async () => {
    const { amulet, gateway } = one();
    amulet.on("*", { status: 404, fields: html, body: NGINX });
    const answer = await gateway.send(PASSED);
    expect([answer.status, answer.headers["content-type"], answer.text]).toEqual([404, "text/html", NGINX]);
    expect(answer.headers["access-control-allow-origin"]).toBe("*");
  });
});

describe("a request that addresses nothing", () => {
  const one = useOne();
  test.each<[Request, number, string | undefined]>([
    [{ path: "/", body: "{}" }, 405, "GET"],
    [{ path: "/nothing/here" }, 404, undefined],
    [{ path: "/registry" }, 404, undefined],
    [{ path: "/registry/" }, 400, undefined],
    [{ path: INFO, method: "POST" }, 405, "GET"],
    [{ path: LIST, body: "{}" }, 405, "GET"],
    [{ path: CANCEL }, 405, "POST"],
    [{ path: DRAFT, method: "DELETE" }, 405, "GET"],
    [{ path: DRAFT, method: "HEAD" }, 405, undefined],
    [{ path: INFO, method: "TRACE" }, 405, "GET"],
    [{ path: INFO, method: "PROPFIND" }, 405, "GET"],
    [{ path: "/nothing", body: "x", headers: { "content-type": "foo" } }, 404, undefined],
    [{ path: `${LIST}/a/b` }, 404, undefined],
  ])("%j: %i", async (request, status, allow) => {
    const { amulet, gateway } = one();
    const answer = await gateway.send(request);
    if (request.method === "HEAD") expect(answer.status).toBe(status);
    else expectOwnError(answer, status);
    if (allow !== undefined) expect(answer.headers.allow).toContain(allow);
    expect(amulet.asked).toEqual([]);
  });

  test("a URL that is too long is 414 or 431", async () => {
    const { gateway } = await start();
    for (const path of [`/${"x".repeat(30_000)}`, `${LIST}?pageToken=${"x".repeat(30_000)}`]) {
      const { status } = await gateway.get(path);
      expect([414, 431]).toContain(status);
    }
  });
});

test("each error has the client's request id, or one of ours, in field and body", async () => {
  const { gateway } = await start();
  const answer = await gateway.get("/nothing", { "x-request-id": "mine-17" });
  expect([answer.headers["x-request-id"], answer.json.requestId]).toEqual(["mine-17", "mine-17"]);
  const others = await Promise.all([gateway.get("/nothing"), gateway.get("/nothing")]);
  expect(new Set(others.map(({ json }) => json.requestId as string)).size).toBe(2);
});
