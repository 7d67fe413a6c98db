import { gunzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { CACHED, ONE, outcomes, useStartCached } from "../../support/caching.ts";
import { ADMIN_HEADER, INFO, LIST } from "../../support/endpoints.ts";
import { instrument, instruments, partyOf } from "../../support/registry.ts";
import { until } from "../../support/until.ts";

const startCached = useStartCached();

const PAGE = { instruments: [{ id: "A", name: "n", symbol: "s", decimals: 1, supportedApis: {} }] };

describe("one fetch per key", () => {
  test.each(CACHED)("forty clients at once make one call: $operation", async ({ path, operation }) => {
    const { amulet, gateway } = await startCached();
    const release = amulet.hold(operation);
    const before = amulet.count(operation);
    const asked = Array.from({ length: 40 }, () => gateway.get(path));
    await until(() => amulet.count(operation) > before);
    release();
    const answers = await Promise.all(asked);
    expect(new Set(answers.map(({ outcome }) => outcome))).toEqual(new Set(["200"]));
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    // The info that proves the node is another matter.
    if (operation !== "info") expect(amulet.count(operation) - before).toBe(1);
  });

  test("whatever the clients send, and by whatever name", async () => {
    const { amulet, gateway } = await startCached();
    for (const headers of [
      {},
      { accept: "text/html", "accept-language": "de", cookie: "a=b" },
      { authorization: "Bearer x.y.z", origin: "https://wallet.example" },
      { "cache-control": "no-cache", pragma: "no-cache" },
      { [ADMIN_HEADER]: partyOf("amulet") },
    ]) {
      for (const path of [LIST, `${gateway.base("amulet")}${LIST}`, `${LIST}?x=1&y`, `${LIST}?`]) {
        expect((await gateway.get(path, headers)).status).toBe(200);
      }
    }
    expect(amulet.count()).toBe(1);
    expect((await gateway.get(`${LIST}?pageSize=3`)).cache).toBe("miss");
  });

  test("a failure is everybody's who waited, and the next asks anew", async () => {
    const { amulet, gateway } = await startCached({}, { upstream: { retries: 0 } });
    await gateway.get(INFO);
    let fail = (): void => undefined;
    const held = new Promise<void>((resolve) => (fail = resolve));
    amulet.on("instruments", async () => {
      await held;
      return { status: 500, body: { error: "no" } };
    });
    const asked = Array.from({ length: 10 }, () => gateway.get(LIST));
    await amulet.reached(1);
    // Those that were sent before this one wait by now.
    await gateway.get(INFO);
    fail();
    for (const answer of await Promise.all(asked)) expect(answer.status).toBe(500);
    expect(amulet.count()).toBe(1);
    amulet.on("instruments", undefined);
    expect((await gateway.get(LIST)).status).toBe(200);
  });
});

describe("an instrument's 404", () => {
  test("is kept for a few seconds, with the registry's bytes", async () => {
    const { amulet, gateway, clock } = await startCached();
    const path = `${LIST}/NOTHING`;
    for (let round = 0; round < 3; round += 1) {
      const answer = await gateway.get(path);
      expect([answer.status, answer.text]).toEqual([404, '{"error":"No instrument with id NOTHING found"}']);
    }
    expect(amulet.count("instrument")).toBe(1);
    clock.advance("6s");
    await gateway.get(path);
    expect(amulet.count("instrument")).toBe(2);
  });

  test.each(["0s", "1m"])("as configured: %s", async (notFound) => {
    const { amulet, gateway } = await startCached({ cache: { ttl: { notFound } } });
    for (let round = 0; round < 3; round += 1) await gateway.get(`${LIST}/NOTHING`);
    expect(amulet.count("instrument")).toBe(notFound === "0s" ? 3 : 1);
  });
});

describe("conditional requests", () => {
  const etag = '"v1"';

  test.each(CACHED)("a client that has the answer gets a 304: $operation", async ({ path, operation }) => {
    const { amulet, gateway } = await startCached();
    const first = await gateway.get(path);
    const tag = first.headers.etag!;
    expect(tag).toMatch(/^(W\/)?".+"$/);
    for (const value of [tag, `"other", ${tag}`, "*", tag.startsWith("W/") ? tag : `W/${tag}`]) {
      const answer = await gateway.get(path, { "if-none-match": value });
      expect([value, answer.status, answer.text]).toEqual([value, 304, ""]);
      expect(answer.headers.etag).toBeDefined();
      expect(answer.headers["x-request-id"]).toBeDefined();
    }
    for (const value of ['"other"', "x"]) {
      expect((await gateway.get(path, { "if-none-match": value })).status).toBe(200);
    }
    if (operation !== "info") expect(amulet.count(operation)).toBe(1);
  });

  test("If-Modified-Since is answered by the registry's Last-Modified", async () => {
    const { amulet, gateway } = await startCached();
    amulet.on("instruments", { fields: ["Last-Modified", "Fri, 20 Nov 2026 10:00:00 GMT"], body: PAGE });
    const since = (value: string) => gateway.get(LIST, { "if-modified-since": value }).then(({ status }) => status);
    expect(await since("Fri, 20 Nov 2026 10:00:00 GMT")).toBe(304);
    expect(await since("Fri, 20 Nov 2026 09:59:59 GMT")).toBe(200);
    expect(await since("yesterday")).toBe(200);
  });

  test("a registry is asked by its own ETag, and its 304 renews what is stored", async () => {
    const cached = await startCached({ cache: { staleWhileRevalidate: "0s" } });
    const { amulet, gateway } = cached;
    const text = JSON.stringify(PAGE);
    amulet.on("instruments", ({ headers }) =>
      headers["if-none-match"] === etag
        ? { status: 304, fields: ["ETag", etag, "Deprecation", "@1700000000"] }
        : { fields: ["ETag", etag], body: text },
    );
    expect(await outcomes(cached, LIST, ["0s", "31s", "0s", "31s"])).toEqual([
      "miss",
      "revalidated",
      "hit",
      "revalidated",
    ]);
    const answer = await gateway.get(LIST);
    expect([answer.text, answer.headers.etag, answer.headers.deprecation]).toEqual([text, etag, "@1700000000"]);
    expect(amulet.count()).toBe(3);
  });

  test("but only the node that gave the ETag", async () => {
    const cached = await startCached({ cache: { staleWhileRevalidate: "0s" } }, { nodes: 2 });
    cached.amulet.on("instruments", ({ node }) => ({ fields: ["ETag", `"of node ${node}"`], body: PAGE }));
    await outcomes(
      cached,
      LIST,
      Array.from({ length: 12 }, () => "31s"),
    );
    const conditional = cached.amulet.of().filter(({ headers }) => headers["if-none-match"] !== undefined);
    expect(conditional.length).toBeGreaterThan(0);
    for (const { node, headers } of conditional) expect(headers["if-none-match"]).toBe(`"of node ${node}"`);
  });

  test("a 304 that nobody asked for is a failure", async () => {
    const { amulet, gateway } = await startCached({}, { upstream: { retries: 0 } });
    amulet.on("instruments", { status: 304, fields: [] });
    expect((await gateway.get(LIST)).status).toBe(502);
  });
});

describe("gzip", () => {
  test("is made once of what is stored, and given to clients that take it", async () => {
    const { amulet, gateway } = await startCached();
    amulet.instruments = instruments("AMULET", 200);
    const plain = await gateway.get(LIST);
    expect(plain.headers["content-encoding"]).toBeUndefined();
    const coded = await until(async () => {
      const answer = await gateway.get(LIST, { "accept-encoding": "gzip, br" });
      return answer.headers["content-encoding"] === "gzip" && answer;
    });
    expect(gunzipSync(coded.bytes).toString()).toBe(plain.text);
    expect(coded.bytes.length).toBeLessThan(plain.bytes.length / 2);
    expect(coded.headers.etag).not.toBe(plain.headers.etag);
    for (const answer of [plain, coded]) expect(answer.headers.vary?.toLowerCase()).toContain("accept-encoding");
    for (const value of ["gzip;q=0", "br", "identity", ""]) {
      const answer = await gateway.get(LIST, { "accept-encoding": value });
      expect([value, answer.headers["content-encoding"], answer.text === plain.text]).toEqual([value, undefined, true]);
    }
    const conditional = await gateway.get(LIST, { "accept-encoding": "gzip", "if-none-match": coded.headers.etag });
    expect(conditional.status).toBe(304);
    expect(amulet.count()).toBe(1);
  });

  test("is not made of what is small, or of errors", async () => {
    const { gateway } = await startCached();
    for (const path of [INFO, `${LIST}/NOTHING`]) {
      await gateway.get(path, { "accept-encoding": "gzip" });
      expect((await gateway.get(path, { "accept-encoding": "gzip" })).headers["content-encoding"]).toBeUndefined();
    }
  });
});

describe("memory", () => {
  test("is bounded in bytes, and what was not asked for longest goes", async () => {
    const { amulet, gateway } = await startCached({ cache: { memory: "256KiB", ttl: { instrument: "10m" } } });
    const pad = "x".repeat(10_000);
    amulet.instruments = instruments("AMULET", 60).map(({ id }) => instrument(id, { pad }));
    const hot = `${LIST}/AMULET-00000`;
    for (let at = 0; at < 60; at += 1) {
      await gateway.get(`${LIST}/AMULET-${String(at).padStart(5, "0")}`);
      await gateway.get(hot);
    }
    expect((await gateway.get(hot)).cache).toBe("hit");
    expect((await gateway.get(`${LIST}/AMULET-00001`)).cache).toBe("miss");
    expect(await gateway.operations.metric("registry_gateway_cache_bytes")).toBeLessThanOrEqual(256 * 1024);
    const before = amulet.count();
    await gateway.get(hot);
    expect(amulet.count()).toBe(before);
  });

  test("404s and pages behind tokens evict no info, page or instrument", async () => {
    const { gateway } = await startCached({
      cache: { memory: "128KiB", ttl: { info: "1h", instruments: "1h", instrument: "1h", notFound: "1h" } },
    });
    for (const { path } of CACHED) await gateway.get(path);
    for (let at = 0; at < 150; at += 1) await gateway.get(`${LIST}/NOBODYS-${at}-${"x".repeat(300)}`);
    for (const { path } of CACHED) expect((await gateway.get(path)).cache).toBe("hit");
  });
});

describe("pages", () => {
  test("a listing without pageSize asks for the configured size, gives the registry's bytes, and is apart from one with it", async () => {
    const { amulet, gateway } = await startCached();
    amulet.instruments = instruments("AMULET", 563);
    expect((await gateway.get(LIST)).json.instruments).toHaveLength(563);
    expect((await gateway.get(`${LIST}?pageSize=7`)).json.instruments).toHaveLength(7);
    expect(amulet.of().map(({ url }) => url)).toEqual([`${LIST}?pageSize=1000`, `${LIST}?pageSize=7`]);
  });

  test("a registry that answers 400 to the configured size is asked without", async () => {
    const { amulet, gateway } = await startCached({ cache: { ttl: { instruments: "0s" } } }, { maxPageSize: 100 });
    amulet.instruments = instruments("AMULET", 60);
    const first = await gateway.get(LIST);
    expect([first.status, first.json.instruments.length]).toEqual([200, 25]);
    const { nextPageToken } = first.json;
    expect((await gateway.get(`${LIST}?pageToken=${nextPageToken as string}`)).json.instruments).toHaveLength(25);
    const asked = amulet.of().map(({ url }) => url);
    expect(asked[0]).toBe(`${LIST}?pageSize=1000`);
    expect(asked[1]).toBe(LIST);
    expect(asked).toHaveLength(3);
    // A client's own size goes to the registry as it is.
    expect((await gateway.get(`${LIST}?pageSize=1000`)).status).toBe(400);
  });

  test("off leaves the size to the registry", async () => {
    const { amulet, gateway } = await startCached({}, { upstream: { pageSize: "off" } });
    amulet.instruments = instruments("AMULET", 60);
    expect((await gateway.get(LIST)).json.instruments).toHaveLength(25);
    expect(amulet.last.url).toBe(LIST);
  });

  test("one whose next token is its own passes, and is not stored", async () => {
    const { amulet, gateway } = await startCached();
    amulet.on("instruments", { body: { ...PAGE, nextPageToken: "same" } });
    for (let round = 1; round <= 2; round += 1) {
      expect((await gateway.get(`${LIST}?pageToken=same`)).json.nextPageToken).toBe("same");
      expect(amulet.count()).toBe(round);
    }
  });

  test("one found changed makes the other pages of that registry misses", async () => {
    const { amulet, gateway, clock } = await startCached({
      cache: { staleWhileRevalidate: "0s", ttl: { instruments: "60s" } },
    });
    amulet.instruments = instruments("AMULET", 9);
    const [first, second, third] = [
      "?pageSize=3",
      "?pageSize=3&pageToken=AMULET-00002",
      "?pageSize=3&pageToken=AMULET-00005",
    ].map((query) => LIST + query);
    await gateway.get(first!);
    clock.advance("30s");
    for (const path of [second!, third!]) await gateway.get(path);
    for (const path of [first!, second!, third!]) expect((await gateway.get(path)).cache).toBe("hit");
    amulet.instruments.splice(1, 1);
    clock.advance("31s");
    // The first page has expired and has changed; the others would be fresh.
    expect((await gateway.get(first!)).cache).toBe("miss");
    for (const path of [second!, third!]) expect((await gateway.get(path)).cache).toBe("miss");
    expect((await gateway.get(second!)).cache).toBe("hit");
  });

  test("one that has not changed leaves the others", async () => {
    const { amulet, gateway, clock } = await startCached({
      cache: { staleWhileRevalidate: "0s", ttl: { instruments: "60s" } },
    });
    amulet.instruments = instruments("AMULET", 6);
    const [first, second] = [`${LIST}?pageSize=3`, `${LIST}?pageSize=3&pageToken=AMULET-00002`];
    await gateway.get(first);
    clock.advance("30s");
    await gateway.get(second);
    clock.advance("31s");
    expect((await gateway.get(first)).cache).toBe("miss");
    expect((await gateway.get(second)).cache).toBe("hit");
  });
});

describe("an instrument that stands on a first page in memory", () => {
  test("is answered from there while the page is no older than the instrument's ttl", async () => {
    const { amulet, gateway, clock } = await startCached({ cache: { ttl: { instruments: "10m", instrument: "30s" } } });
    const direct = JSON.stringify(amulet.instruments[1]);
    await gateway.get(LIST);
    const answer = await gateway.get(ONE);
    expect([answer.status, answer.text]).toEqual([200, direct]);
    expect(answer.headers["content-type"]).toBe("application/json");
    expect(amulet.asked).toEqual(["instruments"]);
    expect((await gateway.get(ONE, { "if-none-match": answer.headers.etag })).status).toBe(304);
    clock.advance("31s");
    expect((await gateway.get(ONE)).status).toBe(200);
    expect(amulet.asked).toEqual(["instruments", "instrument"]);
  });

  test("and one that does not stand there is asked for", async () => {
    const { amulet, gateway } = await startCached();
    await gateway.get(LIST);
    amulet.instruments.push(...instruments("NEW", 1));
    expect((await gateway.get(`${LIST}/NEW-00000`)).status).toBe(200);
    expect(amulet.asked).toEqual(["instruments", "instrument"]);
  });
});

test("nothing is stored of an answer that is not whole, not JSON, or too large", async () => {
  const { amulet, gateway } = await startCached({ limits: { responseBody: "64KiB" } }, { upstream: { retries: 0 } });
  for (const script of [
    { raw: 'HTTP/1.1 200 OK\r\nContent-Length: 99\r\nCache-Control: max-age=100\r\n\r\n{"instruments":[]}' },
    { fields: ["Cache-Control", "max-age=100"], body: '{"instruments":[]' },
    { fields: ["Cache-Control", "max-age=100"], body: `{"instruments":[],"x":"${"x".repeat(70_000)}"}` },
  ]) {
    amulet.on("instruments", script);
    expect((await gateway.get(LIST)).status).toBe(502);
  }
  amulet.on("instruments", undefined);
  const good = await gateway.get(LIST);
  expect([good.status, good.cache]).toEqual([200, "miss"]);
});
