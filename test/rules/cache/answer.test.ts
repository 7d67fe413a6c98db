import { gunzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { clientAnswer } from "../../../src/cache/answer.ts";
import { gzipOf } from "../../../src/cache/gzip.ts";
import type { Found } from "../../../src/cache/types.ts";
import { fieldValue } from "../../../src/fields.ts";
import { until } from "../../support/until.ts";
import { failure, MINUTE, Scene, type Scripted, SECOND, settle } from "./scene.ts";

const LONG = JSON.stringify({ text: "abc ".repeat(1_000) });
const GZIP = { "accept-encoding": "br, gzip" };

async function found(scripted: Scripted, policy = {}): Promise<{ scene: Scene; found: Found }> {
  const scene = new Scene(policy);
  await scene.answered(scripted);
  return { scene, found: scene.cache.hit(scene.key) ?? (await scene.answered(scripted)) };
}

const statusOf = (scene: Scene, of: Found): string | undefined =>
  fieldValue(clientAnswer(of, {}, scene.clock.now()).fields, "cache-status");

describe("Cache-Status", () => {
  test("of each way that an answer comes by", async () => {
    const scene = new Scene();
    const tagged = { fields: ["etag", '"a"'] };
    expect(statusOf(scene, await scene.answered(tagged))).toBe("registry-gateway;fwd=uri-miss;ttl=10;stored");
    await scene.advance(1_001);
    expect(statusOf(scene, await scene.get())).toBe("registry-gateway;hit;ttl=8");
    await scene.advance(14 * SECOND);
    const stale = await scene.get();
    expect(statusOf(scene, stale)).toBe("registry-gateway;hit;ttl=-6;detail=stale-while-revalidate");
    await settle();
    await scene.last.answer({ status: 304 });
    await scene.advance(MINUTE);
    const revalidated = await scene.answered({ status: 304 });
    expect(statusOf(scene, revalidated)).toBe("registry-gateway;fwd=stale;fwd-status=304;ttl=10;stored");
    await scene.advance(MINUTE);
    const waiting = [scene.get(), scene.get()];
    await settle();
    await scene.last.fail(failure());
    const instead = "registry-gateway;fwd=stale;ttl=-50;detail=stale-if-error";
    expect((await Promise.all(waiting)).map((each) => statusOf(scene, each))).toEqual([instead, instead]);
    await scene.sharing.purges.purge();
    const [, joined] = [scene.get(), scene.get()];
    await settle();
    await scene.last.answer({ fields: ["cache-control", "no-store"] });
    expect(statusOf(scene, await joined)).toBe("registry-gateway;fwd=uri-miss;collapsed;detail=no-store");
    expect(statusOf(scene, { ...stale, outcome: "hit", detail: { stored: true, tier: "redis" } })).toContain(
      "detail=redis",
    );
  });
});

describe("Cache-Control and Age for clients", () => {
  test.for<[string, Scripted, number, number, string]>([
    ["the registry's as it came", { fields: ["cache-control", "max-age=99, x"] }, MINUTE, 3, "max-age=99, x"],
    ["clientTtl, counted from birth", {}, 5 * SECOND, 2, "max-age=7"],
    ["no longer than the entry is fresh", {}, MINUTE, 8, "max-age=9"],
    ["no-cache where clientTtl is 0s", {}, 0, 2, "no-cache"],
    ["no-cache once stale", {}, MINUTE, 12, "no-cache"],
    ["no-cache with an error", { status: 404 }, MINUTE, 1, "no-cache"],
  ])("%s", async ([, scripted, clientTtl, age, control]) => {
    const { scene, found: hit } = await found(scripted, { clientTtl });
    await scene.advance(age * SECOND + 900);
    const { fields } = clientAnswer(hit, {}, scene.clock.now());
    expect([fieldValue(fields, "cache-control"), fieldValue(fields, "age")]).toEqual([control, String(age)]);
  });
});

describe("a client that has it already", () => {
  test("gets a 304 with the tag that it named, and what is not about the body", async () => {
    const fields = ["etag", '"a"', "link", "<x>", "content-language", "de", "last-modified", "x", "expires", "0"];
    const { scene, found: hit } = await found({ fields });
    const answer = clientAnswer(hit, { "if-none-match": '"a"' }, scene.clock.now());
    expect([answer.status, answer.body]).toEqual([304, undefined]);
    expect(answer.fields).toEqual(
      [
        "link",
        "<x>",
        "expires",
        "0",
        "etag",
        '"a"',
        "age",
        "0",
        "cache-status",
        "registry-gateway;hit;ttl=0",
        "cache-control",
        "no-cache",
      ].map((text) => (text === "registry-gateway;hit;ttl=0" ? expect.stringContaining("registry-gateway;") : text)),
    );
  });

  test("gets an error whole", async () => {
    const { scene, found: hit } = await found({ status: 404, fields: ["etag", '"a"'] });
    expect(clientAnswer(hit, { "if-none-match": "*" }, scene.clock.now()).status).toBe(404);
  });
});

describe("gzip", () => {
  async function coded(scripted: Scripted = {}) {
    const { scene, found: hit } = await found({ body: LONG, fields: ["etag", '"a"', "digest", "x"], ...scripted });
    const ask = (headers = {}) => clientAnswer(hit, headers, scene.clock.now());
    ask(GZIP);
    ask(GZIP);
    await until(() => gzipOf(hit.entry) !== undefined);
    return { hit, ask };
  }

  test("is made once, from the second time on that somebody takes it", async () => {
    const { found: hit } = await found({ body: LONG });
    expect([gzipOf(hit.entry), gzipOf(hit.entry)]).toEqual([undefined, undefined]);
    await until(() => gzipOf(hit.entry) !== undefined);
    expect(gzipOf(hit.entry)).toBe(gzipOf(hit.entry));
    expect(gunzipSync(gzipOf(hit.entry)!).toString()).toBe(LONG);
  });

  test("goes with its own tag to those who take it; all others get the bytes", async () => {
    const { ask } = await coded();
    const { fields, body } = ask(GZIP);
    expect(gunzipSync(body!).toString()).toBe(LONG);
    expect(["content-encoding", "etag", "vary", "digest"].map((name) => fieldValue(fields, name))).toEqual([
      "gzip",
      '"a-gzip"',
      "accept-encoding",
      undefined,
    ]);
    const plain = ask();
    expect(plain.body!.toString()).toBe(LONG);
    expect(["content-encoding", "etag", "vary", "digest"].map((name) => fieldValue(plain.fields, name))).toEqual([
      undefined,
      '"a"',
      "accept-encoding",
      "x",
    ]);
    expect(fieldValue(ask({ "if-none-match": '"a-gzip"' }).fields, "etag")).toBe('"a-gzip"');
  });

  test.for<[string, boolean]>([
    ["gzip", true],
    ["GZIP;q=0.5", true],
    ["deflate, x-gzip ; q=1", true],
    ["gzip;q=0", false],
    ["gzip;q=0.000, br", false],
    ["br", false],
    ["not-gzip", false],
    ["identity", false],
    ["", false],
  ])("Accept-Encoding: %s", async ([accept, takes]) => {
    const { ask } = await coded();
    expect(fieldValue(ask({ "accept-encoding": accept }).fields, "content-encoding") === "gzip").toBe(takes);
  });

  test.for<[string, Scripted]>([
    ["what is small", { body: "{}" }],
    ["an error", { status: 404, body: LONG }],
    ["what may not be transformed", { body: LONG, fields: ["cache-control", "max-age=9, no-transform"] }],
  ])("%s stays as it is, and does not vary", async ([, scripted]) => {
    const { scene, found: hit } = await found(scripted);
    for (let i = 0; i < 3; i += 1) expect(gzipOf(hit.entry)).toBeUndefined();
    const { fields } = clientAnswer(hit, GZIP, scene.clock.now());
    expect([fieldValue(fields, "vary"), fieldValue(fields, "content-encoding")]).toEqual([undefined, undefined]);
  });

  test("a Vary of the registry's that says so already is enough", async () => {
    const { ask } = await coded({ fields: ["vary", "Accept-Encoding, origin"] });
    expect(fieldValue(ask().fields, "vary")).toBe("Accept-Encoding, origin");
  });
});
