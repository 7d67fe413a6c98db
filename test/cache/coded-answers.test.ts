import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import type { CacheAnswer, CachePolicy } from "../../src/cache/resource.ts";
import { CacheFixture, field, type Scripted } from "../support/cache-fixture.ts";
import { MINUTE } from "../support/cache-policy.ts";

const BODY = JSON.stringify({ instruments: Array.from({ length: 100 }, (_, i) => ({ id: `id ${i}`, name: "name" })) });
const accepting = (codings: string) => ({ headers: { "accept-encoding": codings } });
const GZIP = accepting("gzip, deflate");

/** The cache with an answer that clients want in these codings. */
async function filled(
  answer: Scripted = {},
  wanted: readonly { headers: Record<string, string> }[] = [GZIP],
  policy: Partial<CachePolicy> = {},
) {
  const fixture = new CacheFixture({
    policy: { ttl: MINUTE, ...policy },
    script: () => ({ body: BODY, fields: ["etag", '"x"', "content-type", "application/json"], ...answer }),
  });
  for (const each of wanted) {
    await fixture.get(each);
    await fixture.cache.drain();
  }
  return fixture;
}

const facts = (answer: CacheAnswer): unknown[] =>
  ["content-encoding", "etag", "vary"].map((name) => field(answer, name));

describe("a client gets", () => {
  const DECODE: Record<string, (body: Buffer) => Buffer> = {
    gzip: gunzipSync,
    br: brotliDecompressSync,
    zstd: zstdDecompressSync,
  };

  test.for([
    ["zstd, br, gzip", "zstd"],
    ["gzip, deflate, br", "br"],
    ["gzip, deflate", "gzip"],
    ["br;q=0.5, gzip;q=0.8", "gzip"],
    ["*", "zstd"],
    ["identity, gzip;q=0.1", undefined],
    ["deflate", undefined],
  ] as const)("with %j the coding %s, once it is made", async ([codings, coding]) => {
    const fixture = await filled({}, [accepting(codings)]);
    const answer = await fixture.get(accepting(codings));
    const etag = coding === undefined ? '"x"' : `"x-${coding}"`;
    expect(facts(answer)).toEqual([coding, etag, "Accept-Encoding"]);
    const decode = coding === undefined ? undefined : DECODE[coding]!;
    expect((decode?.(answer.body!) ?? answer.body!).toString()).toBe(BODY);
    if (coding !== undefined) expect(answer.body!.length).toBeLessThan(BODY.length / 2);
    expect((await fixture.get({ headers: { ...accepting(codings).headers, "if-none-match": etag } })).status).toBe(304);
  });

  test("the next best coding that is there while the best is made", async () => {
    const fixture = await filled();
    const both = accepting("gzip, br");
    expect(field(await fixture.get(both), "content-encoding")).toBe("gzip");
    await fixture.cache.drain();
    expect(field(await fixture.get(both), "content-encoding")).toBe("br");
    expect(field(await fixture.get(GZIP), "content-encoding")).toBe("gzip");
    expect(field(await fixture.get(), "content-encoding")).toBeUndefined();
  });

  test("the coding that was wanted of an entry of the one that takes its place, as soon as it is made", async () => {
    const fixture = new CacheFixture({
      policy: { ttl: MINUTE },
      script: (_request, n) => ({ body: BODY.replace("id 1", `other ${n}`), fields: ["etag", `"${n}"`] }),
    });
    await fixture.get(accepting("br"));
    await fixture.advance(2 * MINUTE);
    await fixture.get();
    await fixture.cache.drain();
    expect(field(await fixture.get(accepting("br")), "etag")).toMatch(/^"\d-br"$/);
  });

  test("nothing coded that no client wanted", async () => {
    const fixture = await filled({}, [{ headers: {} }]);
    const before = fixture.memory.bytes;
    await fixture.get();
    await fixture.cache.drain();
    expect(fixture.memory.bytes).toBe(before);
  });
});

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

  test("is not for those whose no-transform counts, and not made because of them", async () => {
    const asked = { headers: { ...GZIP.headers, "cache-control": "max-age=60, No-Transform" } };
    const encodingFor = async (honorClient: boolean, wanted: readonly { headers: Record<string, string> }[]) =>
      field(await (await filled({}, wanted, { honorClient })).get(asked), "content-encoding");
    expect(await encodingFor(true, [GZIP])).toBeUndefined();
    expect(await encodingFor(false, [GZIP])).toBe("gzip");
    const fixture = await filled({}, [asked], { honorClient: true });
    expect(field(await fixture.get(GZIP), "content-encoding")).toBeUndefined();
  });

  test("drops fields that are digests of the identity bytes", async () => {
    const fixture = await filled({ fields: ["repr-digest", "sha-256=:AA==:"] });
    expect(field(await fixture.get(), "repr-digest")).toBeDefined();
    expect(field(await fixture.get(GZIP), "repr-digest")).toBeUndefined();
  });

  test("is counted in the bytes of the memory tier", async () => {
    const fixture = new CacheFixture({ policy: { ttl: MINUTE }, script: () => ({ body: BODY }) });
    await fixture.get(GZIP);
    const before = fixture.memory.bytes;
    await fixture.cache.drain();
    expect(fixture.memory.bytes).toBeGreaterThan(before);
    const between = fixture.memory.bytes;
    const coded = await fixture.get(GZIP);
    expect(between - before).toBe(coded.body!.length);
    // The heads of that form.
    expect(fixture.memory.bytes - between).toBeGreaterThan(2_000);
    expect(fixture.memory.bytes - between).toBeLessThan(4_000);
  });

  test("stays with the entry over a 304", async () => {
    const fixture = new CacheFixture({
      policy: { ttl: MINUTE },
      script: (_r, n) => ({ status: n === 1 ? 200 : 304, body: n === 1 ? BODY : "", fields: ["etag", '"x"'] }),
    });
    await fixture.get(GZIP);
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
