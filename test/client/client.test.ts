import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { gzipSync } from "node:zlib";
import { join } from "node:path";
import type { AddressInfo } from "node:net";
import { build } from "vite";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { createClient, GatewayError } from "../../client/client.ts";
import { type Sandbox, startSandbox } from "../../src/sandbox/sandbox.ts";
import { type GatewayUnderTest, startGateway } from "../support/gateway.ts";

type Serve = (request: IncomingMessage, response: ServerResponse) => void;

/** A server that answers as told, and the requests that it got. */
async function startServer(serve: Serve): Promise<{ url: string; asked: IncomingMessage[] }> {
  const asked: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    asked.push(request);
    request.resume();
    serve(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

function answerJson(
  response: ServerResponse,
  status: number,
  body: unknown,
  fields: Record<string, string> = {},
): void {
  response.writeHead(status, { "content-type": "application/json", ...fields }).end(JSON.stringify(body));
}

const INFO = "/registry/metadata/v1/info";

/** What a call throws. */
async function thrownBy(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    () => undefined,
    (error: unknown) => error,
  );
}

describe("through a gateway before two sandboxes", () => {
  let sandboxes: Sandbox[];
  let gateway: GatewayUnderTest;

  beforeAll(async () => {
    sandboxes = await Promise.all(
      ["one::1220aa", "two::1220bb"].map((admin) => startSandbox({ admin, instruments: 3 })),
    );
    gateway = await startGateway({
      upstreams: sandboxes.map(({ url, admin }, at) => ({ name: ["one", "two"][at], admin, urls: [url] })),
    });
  });

  afterAll(async () => {
    await gateway.stop();
    await Promise.all(sandboxes.map((each) => each.close()));
  });

  test("a registry's info, instruments and a factory come typed, by alias and by party id", async () => {
    const client = createClient({ url: `${gateway.url}/` });
    for (const name of ["two", "two::1220bb"]) {
      const registry = client.registry(name);
      expect((await registry.GET(INFO)).data?.adminId).toBe("two::1220bb");
      const { data } = await registry.GET("/registry/metadata/v1/instruments", { params: { query: { pageSize: 2 } } });
      expect(data?.instruments.map(({ id }) => id)).toEqual(["Amulet", "Amulet/USD"]);
      const params = { path: { instrumentId: "Amulet/USD" } };
      const one = await registry.GET("/registry/metadata/v1/instruments/{instrumentId}", { params });
      expect(one.data?.symbol).toBe("AMT/USD");
    }
    const transfer = await client.registry("one").POST("/registry/transfer-instruction/v1/transfer-factory", {
      body: { choiceArguments: { expectedAdmin: "one::1220aa" } },
    });
    expect(transfer.data?.choiceContext.disclosedContracts.length).toBeGreaterThan(0);
  });

  // The slashes of the path were encoded, and the registry was asked for one segment.
  test("a path that is passed through goes as it is, with any query and by the field that names the admin", async () => {
    const client = createClient({ url: gateway.url });
    const params = { path: { path: "drafts/v1/a b" }, query: { from: "x/y" } };
    const { data } = await client.registry("one").GET("/registry/{path}", { params });
    expect(data).toMatchObject({ url: "/registry/drafts/v1/a%20b?from=x%2Fy" });
    const field = { "X-Instrument-Admin": "two::1220bb" };
    const posted = await client.POST("/registry/{path}", { params: { ...params, header: field }, body: { of: "two" } });
    expect(posted.data).toMatchObject({ url: "/registry/drafts/v1/a%20b?from=x%2Fy", body: '{"of":"two"}' });
  });

  test.each(["../../two/registry/drafts/v1/x", "drafts/./x", ".."])("sends no path that climbs: %s", async (path) => {
    const sent: string[] = [];
    const client = createClient({
      url: gateway.url,
      fetch: async ({ url }: Request) => {
        sent.push(url);
        return new Response("{}");
      },
    });
    const asked = async () => client.registry("one").GET("/registry/{path}", { params: { path: { path } } });
    await expect(asked()).rejects.toThrow(TypeError);
    expect(sent).toEqual([]);
  });

  test("the catalogue names the registries", async () => {
    const { data } = await createClient({ url: gateway.url }).GET("/catalog/v1/registries");
    expect(data?.registries.map(({ admin }) => admin).toSorted()).toEqual(["one::1220aa", "two::1220bb"]);
  });

  test("an error of the gateway has its code, status and request id", async () => {
    const call = createClient({ url: gateway.url })
      .registry("nobody::1220")
      .GET(INFO, {
        headers: { "X-Request-Id": "a-transfer" },
      });
    const error = await thrownBy(call);
    expect(error).toBeInstanceOf(GatewayError);
    expect(error).toMatchObject({ status: 404, code: "admin_unknown", requestId: "a-transfer" });
  });

  test("an error of a registry has its words and no code", async () => {
    const params = { path: { instrumentId: "no such" } };
    const call = createClient({ url: gateway.url })
      .registry("one")
      .GET("/registry/metadata/v1/instruments/{instrumentId}", { params });
    expect(await thrownBy(call)).toMatchObject({ status: 404, code: undefined, name: "GatewayError" });
  });
});

test("429 and 503 are asked again when Retry-After says, up to the retries", async () => {
  const statuses = [429, 503, 200];
  const { url, asked } = await startServer((_request, response) =>
    answerJson(response, statuses.shift() ?? 500, { adminId: "a", supportedApis: {} }, { "retry-after": "0" }),
  );
  expect((await createClient({ url }).GET(INFO)).data?.adminId).toBe("a");
  expect(asked).toHaveLength(3);
});

test("a 503 is not asked again before its Retry-After", async () => {
  const at: number[] = [];
  const { url } = await startServer((_request, response) => {
    at.push(performance.now());
    if (at.length === 1) answerJson(response, 503, { error: "busy" }, { "retry-after": "1" });
    else answerJson(response, 200, {});
  });
  await createClient({ url }).GET(INFO);
  expect(at).toHaveLength(2);
  expect(at[1]! - at[0]!).toBeGreaterThan(990);
});

test("a POST is sent again with the same body, and a broken connection counts as a failure", async () => {
  const bodies: string[] = [];
  const { url } = await startServer((request, response) => {
    let text = "";
    request.on("data", (chunk: Buffer) => (text += chunk.toString()));
    request.on("end", () => {
      bodies.push(text);
      if (bodies.length === 1) response.destroy();
      else answerJson(response, 200, { factoryId: "f", choiceContext: {} });
    });
  });
  const body = { choiceArguments: { expectedAdmin: "a" } };
  await createClient({ url }).POST("/registry/transfer-instruction/v1/transfer-factory", { body });
  expect(bodies).toEqual([JSON.stringify(body), JSON.stringify(body)]);
});

test("an answer that says to wait longer than the timeout is the answer", async () => {
  const { url, asked } = await startServer((_request, response) =>
    answerJson(response, 429, { error: "slow down", code: "rate_limited" }, { "retry-after": "3600" }),
  );
  const error = await thrownBy(createClient({ url }).GET(INFO));
  expect(error).toMatchObject({ status: 429, retryAfter: 3_600, message: "slow down" });
  expect(asked).toHaveLength(1);
});

test.each([400, 401, 403, 404, 409, 422, 500])("%d is not asked again", async (status) => {
  const { url, asked } = await startServer((_request, response) => answerJson(response, status, { error: "no" }));
  expect(await thrownBy(createClient({ url }).GET(INFO))).toMatchObject({ status, message: "no" });
  expect(asked).toHaveLength(1);
});

test("a server that never answers ends with a TimeoutError", async () => {
  const { url } = await startServer(() => undefined);
  expect(await thrownBy(createClient({ url, timeout: 20 }).GET(INFO))).toMatchObject({ name: "TimeoutError" });
});

test("a signal of the caller ends a call with its own error", async () => {
  const { url, asked } = await startServer(() => undefined);
  const controller = new AbortController();
  const call = createClient({ url }).GET(INFO, { signal: controller.signal });
  await expect.poll(() => asked.length, { timeout: 20_000 }).toBe(1);
  controller.abort();
  expect(await thrownBy(call)).toMatchObject({ name: "AbortError" });
});

test("an answer that is no JSON is an error that says its status", async () => {
  const { url } = await startServer((_request, response) => response.writeHead(502).end("<html>"));
  expect(await thrownBy(createClient({ url, retries: 0 }).GET(INFO))).toMatchObject({
    status: 502,
    code: undefined,
    message: "502 Bad Gateway",
  });
});

test("keys and tokens are sent, and a token is asked for each request", async () => {
  const { url, asked } = await startServer((_request, response) => answerJson(response, 200, {}));
  let number = 0;
  const client = createClient({ url, apiKey: "rgk_x", token: async () => `t${++number}` });
  await client.GET(INFO);
  // That of a registry knows the gateway's others.
  await client.registry("b").registry("a").GET(INFO);
  expect(asked.map(({ url: path }) => path)).toEqual([INFO, `/api/token-standard/v0/registrars/a${INFO}`]);
  expect(asked.map(({ headers }) => [headers["x-api-key"], headers.authorization])).toEqual([
    ["rgk_x", "Bearer t1"],
    ["rgk_x", "Bearer t2"],
  ]);
});

test("for a browser it is one file of less than 10 kB gzipped, which imports nothing of Node's", async () => {
  const result = await build({
    configFile: false,
    logLevel: "silent",
    build: {
      write: false,
      minify: true,
      lib: { entry: join(import.meta.dirname, "../../client/client.ts"), formats: ["es"], fileName: "client" },
    },
  });
  const outputs = (Array.isArray(result) ? result : [result]).flatMap((each) => ("output" in each ? each.output : []));
  expect(outputs).toHaveLength(1);
  const [chunk] = outputs;
  const code = chunk?.type === "chunk" ? chunk.code : "";
  expect(code).not.toMatch(/\bimport\b|node:/);
  expect(gzipSync(code).length).toBeLessThan(10_000);
});

describe("the changes of the catalogue", () => {
  /** A stream that says this, once for each connection, and then ends. */
  async function streams(...texts: string[]): Promise<{ url: string; asked: IncomingMessage[] }> {
    return startServer((_request, response) => {
      const text = texts.shift();
      if (text === undefined) return void response.writeHead(204).end();
      if (text === "") return answerJson(response, 503, { error: "full" }, { "retry-after": "0" });
      if (text === "refused") return answerJson(response, 401, { error: "no key", code: "credential_missing" });
      response.writeHead(200, { "content-type": "text/event-stream" }).end(text);
    });
  }

  const event = (name: string, id: string): string => `id: ${id}\nevent: ${name}\ndata: {"id":"${id}"}\n\n`;

  test("go on behind the last id over connections that end and a 503, and end with a refusal", async () => {
    const { url, asked } = await streams(
      `retry: 1\n\n${event("reset", "a")}${event("change", "b")}:\nid: c\n\n`,
      "",
      event("change", "d") + event("change", "broken off").slice(0, -2),
      "refused",
    );
    const seen: string[] = [];
    const follow = async () => {
      for await (const { event: name, id } of createClient({ url }).changes()) seen.push(`${name} ${id}`);
    };
    expect(await thrownBy(follow())).toMatchObject({ status: 401, code: "credential_missing" });
    expect(seen).toEqual(["reset a", "change b", "change d"]);
    expect(asked.map(({ headers }) => headers["last-event-id"])).toEqual([undefined, "c", "c", "d"]);
  });

  test("end when their signal aborts, and when their reader leaves", async () => {
    const { url, asked } = await startServer((_request, response) => {
      response.writeHead(200).write(event("reset", "a"));
    });
    const abort = new AbortController();
    for await (const { id } of createClient({ url }).changes({ lastId: "z", signal: abort.signal })) {
      expect(id).toBe("a");
      abort.abort();
    }
    for await (const _each of createClient({ url, apiKey: "k" }).changes()) break;
    await expect.poll(() => asked.every(({ socket }) => socket.destroyed)).toBe(true);
    expect(asked.map(({ headers }) => [headers["last-event-id"], headers["x-api-key"]])).toEqual([
      ["z", undefined],
      [undefined, "k"],
    ]);
  });

  test("end when their signal aborts while the token is waited for", async () => {
    const { url, asked } = await startServer((_request, response) => response.writeHead(200).flushHeaders());
    const abort = new AbortController();
    const token = async () => {
      abort.abort();
      return "t";
    };
    for await (const _each of createClient({ url, token }).changes({ signal: abort.signal })) expect.fail();
    expect(asked).toEqual([]);
  });

  test("of what is no URL are a TypeError, as each other call is", async () => {
    const client = createClient({ url: "gateway.example" });
    expect(await thrownBy(client.changes().next())).toBeInstanceOf(TypeError);
    expect(await thrownBy(client.GET(INFO))).toBeInstanceOf(TypeError);
  });

  test("come from a gateway", async () => {
    const sandboxes = await Promise.all(["one::1220aa", "two::1220bb"].map((admin) => startSandbox({ admin })));
    onTestFinished(async () => void (await Promise.all(sandboxes.map((each) => each.close()))));
    const upstreams = sandboxes.map(({ url, admin }) => ({ name: admin.split(":")[0], admin, urls: [url] }));
    const gateway = await startGateway({ upstreams });
    onTestFinished(() => gateway.stop());
    const added: string[] = [];
    for await (const each of createClient({ url: gateway.url }).changes()) {
      if (each.event === "reset") expect(added).toEqual([]);
      else added.push(`${each.change.type} ${each.change.admin}`);
      if (added.length === 2) break;
    }
    expect(added.toSorted()).toEqual(["registry_added one::1220aa", "registry_added two::1220bb"]);
  });
});
