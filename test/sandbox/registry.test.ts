import { describe, expect, test } from "vitest";
import type { Instrument } from "../../src/sandbox/instrument.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { DSO, pem, sampleJson } from "../support/sample.ts";
import { ask, exchangeBytes, parse } from "../support/wire.ts";

const startRegistry = useSampleRegistries();
const INFO = "/registry/metadata/v1/info";
const LIST = "/registry/metadata/v1/instruments";

describe("the call log", () => {
  test("counts and keeps what was asked, exactly as received", async () => {
    const clock = new ManualClock();
    const registry = await startRegistry({ clock });
    await ask(registry.url + INFO);
    await ask(`${registry.url}/registry/draft/a%2fb?q`, { body: "[1]", headers: { "X-Odd": "1" } });
    const { calls } = registry;
    expect([calls.total, calls.count("info"), calls.count("pass_through"), calls.count("instruments")]).toEqual([
      2, 1, 1, 0,
    ]);
    expect(calls.last).toMatchObject({ method: "POST", url: "/registry/draft/a%2fb?q", at: clock.now() });
    expect(calls.last?.body.toString()).toBe("[1]");
    expect(calls.last?.rawHeaders).toContain("X-Odd");
    expect(registry.connections.accepted).toBe(2);
    calls.clear();
    expect([calls.total, calls.count("info"), calls.recent.length]).toEqual([0, 0, 0]);
  });

  test("counts a call as open until it is answered", async () => {
    const registry = await startRegistry();
    const release = Promise.withResolvers<undefined>();
    registry.script(() => release.promise);
    const answers = [1, 2, 3].map(() => ask(registry.url + INFO));
    await registry.calls.reached(3);
    expect(registry.calls.open).toBe(3);
    release.resolve(undefined);
    expect((await Promise.all(answers)).map((answer) => answer.status)).toEqual([200, 200, 200]);
    expect([registry.calls.open, registry.calls.aborted]).toEqual([0, 0]);
  });
});

describe("a registry", () => {
  test("that is killed breaks connections and refuses, and is there again when revived", async () => {
    const registry = await startRegistry();
    registry.script(() => new Promise(() => undefined));
    const open = ask(registry.url + INFO);
    await registry.calls.reached(1);
    const killed = registry.kill();
    await expect(open).rejects.toMatchObject({ code: "ECONNRESET" });
    await killed;
    await expect(ask(registry.url + INFO)).rejects.toMatchObject({ code: "ECONNREFUSED" });
    expect([registry.isListening, registry.connections.open]).toEqual([false, 0]);
    registry.script(undefined);
    await registry.revive();
    expect((await ask(registry.url + INFO)).status).toBe(200);
  });

  test("serves under a base path when it has one", async () => {
    const registry = await startRegistry({ basePath: "/api/token-standard/v0/registrars/x" });
    expect(registry.url).toMatch(/\/registrars\/x$/);
    expect(parse(await ask(registry.url + INFO))).toHaveProperty("adminId", DSO);
    expect((await ask(new URL(INFO, registry.url).href)).status).toBe(404);
  });

  test("gives the same bytes for the same seed and others for another", async () => {
    const page = async (seed: number): Promise<Buffer> => (await ask((await startRegistry({ seed })).url + LIST)).body;
    const first = await page(1);
    expect(await page(1)).toEqual(first);
    expect(await page(2)).not.toEqual(first);
  });

  test("serves the instruments it is given, unknown fields included", async () => {
    const { instruments } = sampleJson("02-instruments.response.amulet.json") as { instruments: Instrument[] };
    const registry = await startRegistry({ instruments });
    expect(parse(await ask(registry.url + LIST))).toEqual({ instruments, nextPageToken: null });
  });
});

describe("the catalogue", () => {
  test("changes while the registry serves", async () => {
    const clock = new ManualClock();
    const registry = await startRegistry({ clock, instruments: 3 });
    const amulet = async (): Promise<unknown> => parse(await ask(`${registry.url}${LIST}/Amulet`));
    const before = await amulet();
    registry.catalogue.update("Amulet", { paused: true });
    expect(await amulet()).toEqual({ ...(before as object), paused: true });
    registry.catalogue.remove("Amulet");
    expect(await amulet()).toEqual({ error: "No instrument with id Amulet found" });
    registry.catalogue.add(before as Instrument);
    expect(await amulet()).toEqual(before);
    expect(() => registry.catalogue.update("nothing", {})).toThrow("no instrument");
  });

  test("churns supplies, each with its as-of and its zone", async () => {
    const clock = new ManualClock();
    const { catalogue } = await startRegistry({ clock, instruments: 2 });
    const before = catalogue.list();
    catalogue.churn(50);
    const after = catalogue.list();
    expect(after.map(({ totalSupplyAsOf }) => totalSupplyAsOf)).toEqual([
      "2026-01-01T00:00:00.000000Z",
      "2026-01-01T00:00:00.000000",
    ]);
    for (const [i, { id, totalSupply }] of after.entries()) {
      expect(id).toBe(before[i]!.id);
      expect(totalSupply).not.toBe(before[i]!.totalSupply);
    }
  });
});

describe("HTTP caching", () => {
  test("has the header fields it is given on successes only", async () => {
    const registry = await startRegistry({
      cacheHeaders: (operation) => ({ "Cache-Control": `max-age=60, ${operation}` }),
    });
    expect((await ask(registry.url + INFO)).headers["cache-control"]).toBe("max-age=60, info");
    expect((await ask(`${registry.url}${LIST}/nope`)).headers["cache-control"]).toBeUndefined();
  });

  test("answers 304 to who holds the current body, and the body once it has changed", async () => {
    const registry = await startRegistry({ etags: true, cacheHeaders: () => ({ "cache-control": "max-age=1" }) });
    const { etag } = (await ask(registry.url + LIST)).headers;
    const conditional = async (tags: string): ReturnType<typeof ask> =>
      ask(registry.url + LIST, { headers: { "if-none-match": tags } });
    const unchanged = await conditional(`"other", W/${etag}`);
    expect([unchanged.status, unchanged.body.length]).toEqual([304, 0]);
    expect(unchanged.headers).toMatchObject({ etag, "cache-control": "max-age=1" });
    registry.catalogue.update("Amulet", { totalSupply: "1.0" });
    const changed = await conditional(etag!);
    expect(changed.status).toBe(200);
    expect(changed.headers.etag).not.toBe(etag);
  });
});

describe("a script", () => {
  test("is sent field by field and byte for byte", async () => {
    const registry = await startRegistry();
    const body = Buffer.from([0x7b, 0xff, 0x7d]);
    const headers = ["cACHE-Control", "no-cache", "X-A", "1", "x-a", "2", "X-Latin", "\u00e9"];
    registry.script((call) =>
      call.operation === "info" ? { status: 299, statusText: "Odd", headers, body } : undefined,
    );
    const answer = await ask(registry.url + INFO);
    expect([answer.status, answer.body]).toEqual([299, body]);
    expect(answer.rawHeaders.slice(0, headers.length)).toEqual(headers);
    expect(answer.headers).not.toHaveProperty("date");
    expect(answer.headers["content-length"]).toBe("3");
    expect((await ask(registry.url + LIST)).status).toBe(200);
  });

  test("may stream, and may send what is not HTTP", async () => {
    const registry = await startRegistry();
    async function* chunks(): AsyncGenerator<Buffer> {
      yield Buffer.from("[1,");
      yield Buffer.from("2]");
    }
    registry.script(() => ({ status: 200, headers: ["content-type", "application/json"], body: chunks() }));
    const streamed = await ask(registry.url + INFO);
    expect([streamed.headers["transfer-encoding"], streamed.body.toString()]).toEqual(["chunked", "[1,2]"]);
    const raw = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab";
    registry.script(() => ({ raw }));
    expect(await exchangeBytes(registry.url, `GET ${INFO} HTTP/1.1\r\nHost: x\r\n\r\n`)).toBe(raw);
  });

  test("that throws is told apart from a fault", async () => {
    const registry = await startRegistry();
    registry.script(() => {
      throw new Error("a mistake in the script");
    });
    const answer = await ask(registry.url + INFO);
    expect([answer.status, parse(answer)]).toEqual([500, { error: "sample registry: Error: a mistake in the script" }]);
  });

  test("delays on the clock", async () => {
    const clock = new ManualClock();
    const registry = await startRegistry({ clock });
    const scripted = Promise.withResolvers<void>();
    registry.script(() => {
      setImmediate(scripted.resolve);
      return { status: 204, delay: 500 };
    });
    const answer = ask(registry.url + INFO);
    await scripted.promise;
    expect(registry.calls.open).toBe(1);
    clock.advance(500);
    expect((await answer).status).toBe(204);
  });
});

describe("TLS", () => {
  const server = { key: pem("server-key"), cert: pem("server") };
  const ca = pem("ca");

  test("is served with the certificate it is given", async () => {
    const registry = await startRegistry({ tls: server });
    expect(registry.url).toMatch(/^https:/);
    expect((await ask(registry.url + INFO, { ca })).status).toBe(200);
    await expect(ask(registry.url + INFO, { ca: pem("other-ca") })).rejects.toThrow(/certificate/);
    await registry.faults.set({ kind: "reset" });
    await expect(ask(registry.url + INFO, { ca })).rejects.toMatchObject({ code: "ECONNRESET" });
  });

  test("may ask for the client's certificate", async () => {
    const registry = await startRegistry({ tls: { ...server, ca, requestCert: true } });
    const client = { key: pem("client-key"), cert: pem("client") };
    expect((await ask(registry.url + INFO, { ca, ...client })).status).toBe(200);
    await expect(ask(registry.url + INFO, { ca })).rejects.toThrow(/alert|ECONNRESET|certificate|hang up/);
  });
});
