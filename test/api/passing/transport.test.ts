import { request as httpRequest } from "node:http";
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { CANCEL, choice, DRAFT, FACTORY, LIST } from "../../support/endpoints.ts";
import { NOTHING_KEPT, useGateway } from "../../support/gateway.ts";
import { expectOwnError, type Request } from "../../support/http.ts";
import { RawConnection } from "../../support/raw.ts";
import { startRegistry } from "../../support/registry.ts";
import { until } from "../../support/until.ts";

const GET: Request = { path: LIST };
const POST: Request = { path: CANCEL, body: "{}" };
const CONTEXT = '{"choiceContextData":{"x":"y"},"disclosedContracts":[]}';
const PAGE = '{"instruments":[],"x":"y"}';

const serve = useGateway();

async function start(keys: object = {}, upstream: object = { retries: 0 }) {
  const amulet = await startRegistry("amulet");
  const gateway = await serve({ ...NOTHING_KEPT, ...keys, upstreams: [amulet.upstream(upstream)] });
  expect((await gateway.post(FACTORY, choice())).status).toBe(200);
  amulet.calls.length = 0;
  return { amulet, gateway };
}

describe("a content-coding that nobody asked for", () => {
  test.each([
    ["gzip", gzipSync],
    ["x-gzip", gzipSync],
    ["deflate", deflateSync],
    ["br", brotliCompressSync],
  ])("is decoded: %s", async (coding, encode) => {
    const { amulet, gateway } = await start();
    const fields = ["Content-Encoding", coding, "ETag", '"x"', "Content-Digest", "sha-256=:AAAA:"];
    amulet.on("instruments", { fields, body: encode(Buffer.from(PAGE)) });
    amulet.on("allocation_cancel", { fields, body: encode(Buffer.from(CONTEXT)) });
    for (const [request, body] of [
      [GET, PAGE],
      [POST, CONTEXT],
    ] as const) {
      const answer = await gateway.send(request);
      expect([answer.status, answer.text]).toEqual([200, body]);
      expect(answer.headers["content-encoding"]).toBeUndefined();
      expect(answer.headers["content-digest"]).toBeUndefined();
    }
  });

  test.each<[string, string, Buffer]>([
    ["one that nobody knows", "compress", Buffer.from("{}")],
    ["one that is a lie", "gzip", Buffer.from("{}")],
    ["one that is cut off", "gzip", gzipSync("{}").subarray(0, 12)],
    ["one that grows beyond responseBody", "gzip", gzipSync(Buffer.from(`{"x":"${" ".repeat(5_000_000)}"}`))],
  ])("is 502 else: %s", async (_what, coding, body) => {
    const { amulet, gateway } = await start({ limits: { responseBody: "64KiB" } });
    amulet.on("*", { fields: ["Content-Encoding", coding], body });
    for (const request of [GET, POST]) expectOwnError(await gateway.send(request), 502);
  });
});

test("identity is no coding: what is said of the body's bytes stays", async () => {
  const { amulet, gateway } = await start();
  const fields = ["Content-Encoding", "identity", "ETag", '"x"', "Content-Digest", "sha-256=:AAAA:"];
  amulet.on("instruments", { fields, body: PAGE });
  const { headers } = await gateway.send(GET);
  expect([headers["etag"], headers["content-digest"]]).toEqual(['"x"', "sha-256=:AAAA:"]);
  expect(headers["content-encoding"]).toBeUndefined();
});

test("a byte order mark before JSON is tolerated, and its bytes go on unchanged", async () => {
  const { amulet, gateway } = await start();
  amulet.on("instruments", { body: `\ufeff${PAGE}` });
  amulet.on("allocation_cancel", { body: `\ufeff${CONTEXT}` });
  expect((await gateway.send(GET)).bytes.toString("hex")).toBe(Buffer.from(`\ufeff${PAGE}`).toString("hex"));
  expect((await gateway.send(POST)).bytes.toString("hex")).toBe(Buffer.from(`\ufeff${CONTEXT}`).toString("hex"));
});

describe("interim answers", () => {
  const interim = (count: number, head: string): string =>
    `${`HTTP/1.1 ${head}\r\n\r\n`.repeat(count)}HTTP/1.1 200 OK\r\nContent-Length: ${CONTEXT.length}\r\nConnection: close\r\n\r\n${CONTEXT}`;

  test.each(["103 Early Hints\r\nLink: </x>", "102 Processing"])(
    "that nobody asked for are skipped: %s",
    async (head) => {
      const { amulet, gateway } = await start();
      for (const count of [1, 20]) {
        amulet.on("allocation_cancel", { raw: interim(count, head) });
        const answer = await gateway.send(POST);
        expect([count, answer.status, answer.text]).toEqual([count, 200, CONTEXT]);
      }
    },
  );

  test("more than 20 are a failure", async () => {
    const { amulet, gateway } = await start();
    amulet.on("allocation_cancel", { raw: interim(21, "103 Early Hints") });
    expectOwnError(await gateway.send(POST), 502);
  });
});

test("a client that goes ends its call, while a metadata fetch goes on and is stored", async () => {
  const { amulet, gateway } = await start({ cache: { ttl: { instruments: "10m" } } });
  const leave = async (request: Request, operation: string): Promise<void> => {
    const { hostname, port } = new URL(gateway.url);
    const { path, body } = request;
    const headers = body === undefined ? {} : { "content-type": "application/json" };
    const sent = httpRequest({
      hostname,
      port,
      path,
      method: body === undefined ? "GET" : "POST",
      headers,
      agent: false,
    });
    sent.on("error", () => undefined);
    sent.end(body);
    await amulet.reached(1, operation);
    sent.destroy();
  };
  amulet.on("allocation_cancel", "hang");
  await leave(POST, "allocation_cancel");
  await until(() => amulet.of("allocation_cancel")[0]!.isAborted);
  const release = amulet.hold("instruments");
  await leave(GET, "instruments");
  release();
  await until(async () => (await gateway.send(GET)).cache === "hit");
  expect(amulet.count("instruments")).toBe(1);
  await until(() => gateway.requestLines.some(({ code }) => code === "client_gone"));
});

test("a keep-alive connection of the registry that ends as it is used costs no request", async () => {
  const { amulet, gateway } = await start({}, {});
  expect((await gateway.send(POST)).status).toBe(200);
  // Every connection but the first is good: the one that is kept ends when the next request comes.
  const kept = amulet.last.connection;
  amulet.on("allocation_cancel", ({ connection }) => (connection === kept ? "reset" : undefined));
  expect((await gateway.send(POST)).status).toBe(200);
});

test("connections to a registry are kept and used again, one call at a time", async () => {
  const { amulet, gateway } = await start();
  const before = amulet.nodes[0]!.accepted;
  for (let round = 0; round < 10; round += 1) expect((await gateway.send(POST)).status).toBe(200);
  expect(amulet.nodes[0]!.accepted - before).toBeLessThanOrEqual(1);
  const release = amulet.hold("allocation_cancel");
  const many = Array.from({ length: 5 }, () => gateway.send(POST));
  await amulet.reached(15);
  release();
  for (const answer of many) expect((await answer).status).toBe(200);
  expect(amulet.nodes[0]!.accepted - before).toBeGreaterThanOrEqual(4);
});

test("a client's connection is kept for its next request, after errors and calls too", async () => {
  const { gateway } = await start();
  const connection = await RawConnection.open(gateway.url);
  const requests = [
    `GET ${LIST} HTTP/1.1\r\nHost: g\r\n\r\n`,
    "GET /nothing HTTP/1.1\r\nHost: g\r\n\r\n",
    `POST ${CANCEL} HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}`,
    `GET ${DRAFT} HTTP/1.1\r\nHost: g\r\n\r\n`,
    `GET ${LIST} HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n`,
  ];
  for (const [at, request] of requests.entries()) {
    connection.write(request);
    await until(() => connection.statuses.length === at + 1);
  }
  expect(connection.statuses).toEqual([200, 404, 200, 200, 200]);
  await until(() => connection.isClosed);
});

test("a body of one-byte chunks costs what its bytes cost, and reaches the registry as it is", async () => {
  const { amulet, gateway } = await start();
  const body = choice({ x: "y".repeat(60_000) });
  const connection = await RawConnection.open(gateway.url);
  connection.write(
    `POST ${FACTORY} HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`,
  );
  connection.write(`${body.replaceAll(/./g, "1\r\n$&\r\n")}0\r\n\r\n`);
  await until(() => connection.statuses.length === 1);
  expect([connection.statuses, amulet.last.body.toString() === body]).toEqual([[200], true]);
});

test("paths are logged without their query, and a request is one line", async () => {
  const { gateway } = await start({ log: { hits: 1 } });
  await gateway.get(`${LIST}?pageToken=s3cret`, { "x-request-id": "query-17" });
  const line = await until(() => gateway.requestLines.find((each) => JSON.stringify(each).includes("query-17")));
  expect(JSON.stringify(line)).not.toContain("s3cret");
  expect(line["path"]).toBe(LIST);
  expect(gateway.requestLines.filter((each) => JSON.stringify(each).includes("query-17"))).toHaveLength(1);
});
