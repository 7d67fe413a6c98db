import { gunzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import type { CacheAnswer } from "../../src/cache/resource.ts";
import { CacheFixture, field, type Scripted } from "../support/cache-fixture.ts";
import { MINUTE } from "../support/cache-policy.ts";

const BODY = JSON.stringify({ instruments: Array.from({ length: 100 }, (_, i) => ({ id: `id ${i}`, name: "name" })) });
const GZIP = { headers: { "accept-encoding": "gzip, deflate, br" } };

async function filled(answer: Scripted = {}): Promise<CacheFixture> {
  const fixture = new CacheFixture({
    policy: { ttl: MINUTE },
    script: () => ({ body: BODY, fields: ["etag", '"x"', "content-type", "application/json"], ...answer }),
  });
  await fixture.get();
  await fixture.cache.drain();
  return fixture;
}

const facts = (answer: CacheAnswer) => ["content-encoding", "etag", "vary"].map((name) => field(answer, name));

describe("a gzip variant", () => {
  test("is served to those who accept it, with an ETag of its own", async () => {
    const fixture = await filled();
    const coded = await fixture.get(GZIP);
    expect(facts(coded)).toEqual(["gzip", '"x-gzip"', "Accept-Encoding"]);
    expect(gunzipSync(coded.body!).toString()).toBe(BODY);
    const plain = await fixture.get();
    expect(facts(plain)).toEqual([undefined, '"x"', "Accept-Encoding"]);
    expect(plain.body?.toString()).toBe(BODY);
  });

  // Node makes small buffers out of pools of 64 KiB, which one of them keeps alive.
  test("keeps nothing alive but its own bytes, which are counted", async () => {
    const fixture = await filled();
    const { body } = await fixture.get(GZIP);
    expect(body!.buffer.byteLength).toBe(body!.length);
    const plain = await fixture.get();
    expect(fixture.memory.bytes).toBeGreaterThan(body!.length + plain.body!.length);
  });

  test.for([
    [{ "accept-encoding": "gzip", "if-none-match": '"x-gzip"' }, 304],
    [{ "accept-encoding": "gzip", "if-none-match": '"x"' }, 200],
    [{ "accept-encoding": "identity", "if-none-match": '"x"' }, 304],
    [{ "if-none-match": '"x-gzip"' }, 200],
    [{ "accept-encoding": "gzip;q=0", "if-none-match": '"x-gzip", W/"x"' }, 304],
    [{ "accept-encoding": "gzip", "if-none-match": "*" }, 304],
  ] as const)("conditions are about the coding that would be sent: %j: %d", async ([headers, status]) => {
    expect((await (await filled()).get({ headers })).status).toBe(status);
  });

  test("is announced by Vary from the first answer on, and added to the upstream's Vary", async () => {
    const fixture = new CacheFixture({ policy: { ttl: MINUTE }, script: () => ({ body: BODY }) });
    expect(facts(await fixture.get(GZIP))).toEqual([undefined, expect.anything(), "Accept-Encoding"]);
    const varying = await filled({ fields: ["vary", "Origin"] });
    expect(field(await varying.get(GZIP), "vary")).toBe("Origin, Accept-Encoding");
    const already = await filled({ fields: ["vary", "accept-encoding"] });
    expect(field(await already.get(GZIP), "vary")).toBe("accept-encoding");
  });

  test("of a weak ETag stays weak", async () => {
    const fixture = await filled({ fields: ["etag", 'W/"x"'] });
    expect(field(await fixture.get(GZIP), "etag")).toBe('W/"x-gzip"');
  });

  test.for<[string, Scripted]>([
    ["a small body", { body: "small" }],
    ["no-transform", { fields: ["cache-control", "no-transform, max-age=60"] }],
    ["a body that does not shrink", { body: Buffer.from(Array.from({ length: 2000 }, () => Math.random() * 256)) }],
    ["a coding of the upstream's", { fields: ["content-encoding", "br"] }],
  ])("is not made of %s", async ([, answer]) => {
    const coded = await (await filled(answer)).get(GZIP);
    expect(field(coded, "content-encoding")).not.toBe("gzip");
  });

  test("drops fields that are digests of the identity bytes", async () => {
    const fixture = await filled({ fields: ["repr-digest", "sha-256=:AA==:"] });
    expect(field(await fixture.get(), "repr-digest")).toBeDefined();
    expect(field(await fixture.get(GZIP), "repr-digest")).toBeUndefined();
  });

  test("is counted in the bytes of the memory tier", async () => {
    const fixture = new CacheFixture({ policy: { ttl: MINUTE }, script: () => ({ body: BODY }) });
    await fixture.get();
    const before = fixture.memory.bytes;
    await fixture.cache.drain();
    const coded = await fixture.get(GZIP);
    expect(fixture.memory.bytes - before).toBe(coded.body!.length);
  });

  test("stays with the entry over a 304", async () => {
    const fixture = new CacheFixture({
      policy: { ttl: MINUTE },
      script: (_r, n) => ({ status: n === 1 ? 200 : 304, body: n === 1 ? BODY : "", fields: ["etag", '"x"'] }),
    });
    await fixture.get();
    await fixture.cache.drain();
    const { body } = await fixture.get(GZIP);
    await fixture.advance(2 * MINUTE);
    const renewed = await fixture.get(GZIP);
    expect(renewed.outcome).toBe("revalidated");
    expect(renewed.body).toBe(body);
  });

  test("is not there yet for the one who caused the miss: identity bytes, identity ETag", async () => {
    const fixture = new CacheFixture({
      policy: { ttl: MINUTE },
      script: () => ({ body: BODY, fields: ["etag", '"x"'] }),
    });
    const first = await fixture.get(GZIP);
    expect([first.body?.toString(), field(first, "etag")]).toEqual([BODY, '"x"']);
  });
});
