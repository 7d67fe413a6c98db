import { request as httpRequest, type IncomingMessage } from "node:http";
import { afterEach, describe, expect, test } from "vitest";
import { contractId } from "../../src/sandbox/contracts.ts";
import { sampleText } from "../support/sample.ts";
import { sendRaw } from "../support/raw-connection.ts";
import { errorOf, send } from "../support/send.ts";
import { ADMINS, useThreeRegistries } from "../support/three-registries.ts";

const running = useThreeRegistries({
  keys: { limits: { requestBody: "2MiB", responseBody: "2MiB" } },
  registry: { cacheHeaders: () => ({ "x-of-the-registry": "1" }) },
});

const PREFIX = "/api/token-standard/v0/registrars";
const DRAFT = `${PREFIX}/amulet/registry/drafts/v1/x`;

/** Opens a request and resolves with the head of its answer, whose body comes when it comes. */
function open(path: string): Promise<IncomingMessage> {
  const { hostname, port } = new URL(running().url);
  return new Promise((resolve, reject) => {
    const sent = httpRequest({ hostname, port, path, agent: false });
    sent.on("response", resolve);
    sent.on("error", reject);
    sent.end();
  });
}

/** The chunks of an answer as they come. */
async function* chunksOf(answer: IncomingMessage): AsyncGenerator<string, undefined> {
  for await (const chunk of answer as AsyncIterable<Buffer>) yield chunk.toString();
}

afterEach(async () => {
  const { amulet } = running().registries;
  amulet.script(undefined);
  await amulet.faults.clear();
});

describe("version 2, live at registries", () => {
  const id = contractId(ADMINS.bonds, "x");
  test.each([
    ["/registry/transfer-instruction/v2/transfer-factory", "04-transfer-factory.request.v2-shape.json"],
    ["/registry/allocation-instruction/v2/allocation-factory", "11-allocation-factory.request.v2-shape.json"],
    ["/registry/allocation/v2/settlement-factory", undefined],
    [`/registry/allocations/v2/${id}/choice-contexts/withdraw`, undefined],
    [`/registry/allocations/v2/${id}/choice-contexts/cancel`, undefined],
    [`/registry/transfer-instruction/v2/${id}/choice-contexts/accept`, undefined],
  ])("%s is reached by prefix, and its answer untouched", async (path, sample) => {
    const { url, registries } = running();
    registries.bonds.calls.clear();
    const body = sample === undefined ? '{"choiceArguments":{}}' : sampleText(sample);
    const answer = await send(url, { path: `${PREFIX}/bonds${path}`, body });
    expect([answer.status, answer.headers["content-type"]]).toEqual([200, "application/json"]);
    const direct = await send(registries.bonds.url, { path, body });
    expect(answer.text).toBe(direct.text);
    expect(registries.bonds.calls.recent[0]!.body.toString()).toBe(body);
  });
});

describe("what passes through", () => {
  test("is never stored", async () => {
    const { url, registries } = running();
    const { amulet } = registries;
    amulet.script(({ operation }) =>
      operation === "pass_through"
        ? { status: 200, headers: ["Cache-Control", "public, max-age=60", "ETag", '"x"'], body: "{}" }
        : undefined,
    );
    amulet.calls.clear();
    for (let i = 0; i < 3; i++) {
      const answer = await send(url, { path: DRAFT });
      expect(answer.headers).toMatchObject({ etag: '"x"', "cache-control": "public, max-age=60" });
      expect(answer.headers["cache-status"]).toBeUndefined();
      expect(answer.headers.age).toBeUndefined();
    }
    expect(amulet.calls.count("pass_through")).toBe(3);
  });

  test("keeps status, type, reason and body of any answer", async () => {
    const { url, registries } = running();
    const { amulet } = registries;
    for (const [status, type, body] of [
      [200, "text/plain", "hello"],
      [201, "application/json", '{"a":1.0}'],
      [202, "application/x-ndjson", '{"a":1}\n{"a":2}\n'],
      [204, undefined, ""],
      [400, "text/html", "<p>no</p>"],
      [404, "text/html", "<html>no</html>"],
      [418, "text/plain", "teapot"],
      [500, "text/plain", "oops"],
      [599, "text/plain", "?"],
    ] as const) {
      amulet.script(() => ({ status, headers: type === undefined ? [] : ["Content-Type", type], body }));
      const answer = await send(url, { path: DRAFT });
      expect([answer.status, answer.headers["content-type"], answer.text]).toEqual([status, type, body]);
      expect(answer.headers["x-content-type-options"]).toBe("nosniff");
    }
  });

  test.each([429, 500, 502, 503, 504])("is tried once, whatever comes back: %i", async (status) => {
    const { url, registries } = running();
    const { amulet } = registries;
    await amulet.faults.set({ kind: "status", status, operations: ["pass_through"], times: 5 });
    amulet.calls.clear();
    expect((await send(url, { path: DRAFT })).status).toBe(status);
    expect((await send(url, { path: DRAFT, body: "{}" })).status).toBe(status);
    expect(amulet.calls.count("pass_through")).toBe(2);
  });

  test("is tried once when the connection breaks", async () => {
    const { url, registries } = running();
    const { amulet } = registries;
    await amulet.faults.set({ kind: "reset", operations: ["pass_through"], times: 1 });
    amulet.calls.clear();
    expect((await send(url, { path: DRAFT })).status).toBe(502);
    expect(amulet.calls.count("pass_through")).toBe(1);
  });

  test("may be megabytes both ways, streamed", async () => {
    const { url } = running();
    const body = Buffer.alloc(1_500_000, "x");
    const answer = await send(url, { path: DRAFT, body, headers: { "content-type": "text/plain" } });
    expect(answer.status).toBe(200);
    expect((JSON.parse(answer.text) as { body: string }).body).toHaveLength(body.length);
    const chunked = await send(url, {
      path: DRAFT,
      body,
      headers: { "content-type": "text/plain", "transfer-encoding": "chunked" },
    });
    expect((JSON.parse(chunked.text) as { body: string }).body).toHaveLength(body.length);
  });

  test("reaches the client chunk by chunk, before the answer is complete", async () => {
    const { amulet } = running().registries;
    const rest = Promise.withResolvers<void>();
    async function* chunks() {
      yield Buffer.from("first");
      await rest.promise;
      yield Buffer.from("second");
    }
    amulet.script(() => ({ status: 200, headers: ["Content-Type", "text/plain"], body: chunks() }));
    const received = chunksOf(await open(DRAFT));
    expect((await received.next()).value).toBe("first");
    rest.resolve();
    expect((await received.next()).value).toBe("second");
    expect((await received.next()).done).toBe(true);
  });

  test("reaches the registry before the client's body is complete", async () => {
    const { url, registries } = running();
    const { amulet } = registries;
    amulet.calls.clear();
    const { hostname, port } = new URL(url);
    const sent = httpRequest({ hostname, port, path: DRAFT, method: "POST", agent: false });
    const answered = new Promise<IncomingMessage>((resolve) => {
      sent.on("response", resolve);
    });
    sent.setHeader("content-type", "text/plain");
    sent.write("first");
    await amulet.calls.reached(1);
    expect(amulet.calls.open).toBe(1);
    sent.end("second");
    const answer = await answered;
    expect(answer.statusCode).toBe(200);
    const { value = "" } = await chunksOf(answer).next();
    expect(JSON.parse(value)).toMatchObject({ body: "firstsecond" });
  });

  test("ends at the registry when the client goes away before the answer", async () => {
    const { url, registries } = running();
    const { amulet } = registries;
    await amulet.faults.set({ kind: "hang", operations: ["pass_through"], times: 1 });
    amulet.calls.clear();
    const { hostname, port } = new URL(url);
    const sent = httpRequest({ hostname, port, path: DRAFT, agent: false });
    sent.on("error", () => undefined);
    sent.end();
    await amulet.calls.reached(1);
    sent.destroy();
    await expect.poll(() => amulet.calls.aborted).toBe(1);
    expect(amulet.calls.open).toBe(0);
  });

  test("ends at the registry when the client goes away within the answer", async () => {
    const { amulet } = running().registries;
    const rest = Promise.withResolvers<void>();
    async function* chunks() {
      yield Buffer.from("first");
      await rest.promise;
    }
    amulet.script(() => ({ status: 200, headers: ["Content-Type", "text/plain"], body: chunks() }));
    amulet.calls.clear();
    const answer = await open(DRAFT);
    answer.on("error", () => undefined);
    answer.destroy();
    await expect.poll(() => amulet.calls.aborted).toBe(1);
    expect(amulet.calls.open).toBe(0);
    rest.resolve();
  });

  test("ends at the deadline, before and within the answer", async () => {
    const { url, registries } = running();
    const { amulet } = registries;
    const headers = { "request-timeout": "0.2" };
    await amulet.faults.set({ kind: "hang", operations: ["pass_through"], times: 1 });
    expect((await send(url, { path: DRAFT, headers })).status).toBe(504);
    await amulet.faults.set({ kind: "hang-body", operations: ["pass_through"], times: 1 });
    const broken = await send(url, { path: DRAFT, headers });
    expect(broken.status).toBe(504);
    expect(broken.headers["x-of-the-registry"]).toBeUndefined();
    const names = broken.rawHeaders.filter((_field, i) => i % 2 === 0).map((name) => name.toLowerCase());
    expect(names.toSorted()).toEqual([...new Set(names)].toSorted());
    await expect.poll(() => amulet.calls.open).toBe(0);
  });

  test("breaks off where it grows too large or breaks off itself", async () => {
    const { url, registries } = running();
    const { amulet } = registries;
    await amulet.faults.set({ kind: "oversize", bytes: 3_000_000, operations: ["pass_through"], times: 1 });
    await expect(send(url, { path: DRAFT })).rejects.toThrow(/aborted|ECONNRESET/);
    for (const framing of ["content-length", "chunked"] as const) {
      await amulet.faults.set({ kind: "truncate", framing, operations: ["pass_through"], times: 1 });
      await expect(send(url, { path: DRAFT })).rejects.toThrow(/aborted|ECONNRESET/);
    }
  });

  test("is refused where its body is larger than the limit, in chunks too", async () => {
    const { url } = running();
    const body = Buffer.alloc(2_200_000, "x");
    const announced = await send(url, { path: DRAFT, body, headers: { "content-type": "text/plain" } });
    expect(announced.status).toBe(413);
    expect(errorOf(announced)).toContain("2MiB");
  });

  test("is refused in our form where chunks grow beyond the limit, while the client still sends", async () => {
    for (const path of [`${PREFIX}/amulet/registry/transfer-instruction/v2/transfer-factory`, DRAFT]) {
      const head = `POST ${path} HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`;
      const chunk = `10000\r\n${"x".repeat(0x10000)}\r\n`;
      const answer = await sendRaw(running().url, [head, ...Array.from({ length: 50 }, () => chunk)], 2_000);
      expect(answer.statuses).toEqual([413]);
      expect(answer.text).toContain('{"error":"registry-gateway: ');
    }
  });

  test("keeps the client's connection for the next request", async () => {
    const one = `GET ${DRAFT} HTTP/1.1\r\nHost: g\r\n\r\n`;
    const { statuses } = await sendRaw(running().url, [
      one,
      one,
      one.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"),
    ]);
    expect(statuses).toEqual([200, 200, 200]);
  });

  test("keeps fields that a registry repeats", async () => {
    const { url, registries } = running();
    const { amulet } = registries;
    amulet.script(() => ({
      status: 200,
      headers: ["Link", "</a>", "Content-Language", "en", "Link", "</b>"],
      body: "{}",
    }));
    const answer = await send(url, { path: DRAFT });
    expect(answer.headers.link).toBe("</a>, </b>");
  });
});
