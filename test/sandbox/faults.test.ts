import { gunzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { type CallFault, type Fault, FaultKnobs } from "../../src/sandbox/faults.ts";
import { WRONG_ADMIN } from "../../src/sandbox/faulty-answer.ts";
import { mulberry32 } from "../../src/sandbox/random.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { DSO, sampleText } from "../support/sample.ts";
import { ask, parse, type WireAnswer } from "../support/wire.ts";

const startRegistry = useSampleRegistries();
const INFO = "/registry/metadata/v1/info";
const LIST = "/registry/metadata/v1/instruments";

async function infoUnder(...faults: Fault[]): Promise<WireAnswer> {
  const registry = await startRegistry();
  await registry.faults.set(...faults);
  return ask(registry.url + INFO);
}

describe("a fault in the answer", () => {
  test.each<{ fault: CallFault; status: number; type: string; body: string | RegExp }>([
    {
      fault: { kind: "status", status: 500 },
      status: 500,
      type: "application/json",
      body: '{"error":"sample fault 500"}',
    },
    {
      fault: { kind: "status", status: 409, body: "moved", contentType: "text/x" },
      status: 409,
      type: "text/x",
      body: "moved",
    },
    { fault: { kind: "html-404" }, status: 404, type: "text/html", body: sampleText("err-404.nginx.html") },
    { fault: { kind: "html-502" }, status: 502, type: "text/html", body: sampleText("err-502.nginx.html") },
    {
      fault: { kind: "429" },
      status: 429,
      type: "text/plain; charset=UTF-8",
      body: sampleText("err-429.scan.text-plain.txt").trim(),
    },
    { fault: { kind: "not-json" }, status: 200, type: "application/json", body: /^Everything/ },
    { fault: { kind: "wrong-type" }, status: 200, type: "text/plain", body: /^\{"adminId":"DSO::/ },
  ])("$fault.kind", async ({ fault, status, type, body }) => {
    const answer = await infoUnder(fault);
    expect([answer.status, answer.headers["content-type"]]).toEqual([status, type]);
    expect(answer.body.toString()).toMatch(body);
  });

  test("names the time to come back when told to", async () => {
    expect((await infoUnder({ kind: "429", retryAfter: "7" })).headers["retry-after"]).toBe("7");
    const unavailable = await infoUnder({ kind: "status", status: 503, retryAfter: "2" });
    expect(unavailable.headers["retry-after"]).toBe("2");
  });

  test("redirects", async () => {
    const answer = await infoUnder({ kind: "redirect", location: "http://127.0.0.1:9/elsewhere" });
    expect([answer.status, answer.headers.location]).toEqual([302, "http://127.0.0.1:9/elsewhere"]);
  });

  test("compresses unasked", async () => {
    const answer = await infoUnder({ kind: "gzip" });
    expect(answer.headers["content-encoding"]).toBe("gzip");
    expect(JSON.parse(gunzipSync(answer.body).toString())).toHaveProperty("adminId", DSO);
  });

  test("makes the node one of another registry", async () => {
    expect(parse(await infoUnder({ kind: "wrong-admin" }))).toHaveProperty("adminId", WRONG_ADMIN);
    expect(parse(await infoUnder({ kind: "wrong-admin", admin: "x::1220" }))).toHaveProperty("adminId", "x::1220");
    const registry = await startRegistry();
    await registry.faults.set({ kind: "wrong-admin" });
    const url = `${registry.url}/registry/transfer-instruction/v1/transfer-factory`;
    const answer = await ask(url, { body: sampleText("04-transfer-factory.request.amulet.json") });
    expect(answer.status).toBe(400);
  });
});

describe("a fault in the connection", () => {
  test("refuses connections, and no longer once cleared, on the same port", async () => {
    const registry = await startRegistry();
    const { url } = registry;
    await registry.faults.set({ kind: "refuse" });
    await expect(ask(url + INFO)).rejects.toMatchObject({ code: "ECONNREFUSED" });
    await registry.faults.clear();
    expect(registry.url).toBe(url);
    expect((await ask(url + INFO)).status).toBe(200);
  });

  test("resets", async () => {
    await expect(infoUnder({ kind: "reset" })).rejects.toMatchObject({ code: "ECONNRESET" });
  });

  test("hangs: the call arrives and nothing comes back until the client goes", async () => {
    const registry = await startRegistry();
    await registry.faults.set({ kind: "hang" });
    const gone = new AbortController();
    const answer = ask(registry.url + INFO, { signal: gone.signal });
    await registry.calls.reached(1);
    expect(registry.calls.open).toBe(1);
    gone.abort();
    await expect(answer).rejects.toMatchObject({ name: "AbortError" });
    await expect.poll(() => registry.calls.last?.outcome).toBe("aborted");
    expect([registry.calls.open, registry.calls.aborted]).toEqual([0, 1]);
  });

  test("hangs after the head", async () => {
    const registry = await startRegistry();
    await registry.faults.set({ kind: "hang-body" });
    const response = await fetch(registry.url + INFO);
    expect(response.status).toBe(200);
    expect(Number(response.headers.get("content-length"))).toBeGreaterThan(100);
    await registry.kill();
    await expect(response.text()).rejects.toThrow("terminated");
  });

  test.each(["content-length", "chunked"] as const)("cuts the body off where %s tells its end", async (framing) => {
    const registry = await startRegistry();
    const whole = await ask(registry.url + LIST);
    await registry.faults.set({ kind: "truncate", framing });
    const answer = await ask(registry.url + LIST);
    expect([answer.status, whole.isComplete, answer.isComplete]).toEqual([200, true, false]);
    expect(answer.body).toEqual(whole.body.subarray(0, Math.ceil(whole.body.length / 2)));
    expect("content-length" in answer.headers).toBe(framing === "content-length");
  });

  test("speaks no HTTP", async () => {
    await expect(infoUnder({ kind: "garbage" })).rejects.toMatchObject({ code: /^HPE_/ });
  });

  test.each([true, false])("sends a body too large, announced: %s", async (announced) => {
    const bytes = 300_001;
    const answer = await infoUnder({ kind: "oversize", bytes, announced });
    expect(answer.body).toHaveLength(bytes);
    expect(answer.headers["content-length"]).toBe(announced ? String(bytes) : undefined);
    expect(Object.keys(JSON.parse(answer.body.toString()) as object)).toEqual(["padding"]);
  });
});

describe("a fault", () => {
  test("befalls only the operations it names", async () => {
    const registry = await startRegistry();
    await registry.faults.set({ kind: "status", status: 503, operations: ["info"] });
    expect((await ask(registry.url + INFO)).status).toBe(503);
    expect((await ask(registry.url + LIST)).status).toBe(200);
  });

  test("is gone after so many calls", async () => {
    const registry = await startRegistry();
    await registry.faults.set({ kind: "status", status: 503, times: 2 }, { kind: "html-502", times: 1 });
    const statuses: number[] = [];
    for (let i = 0; i < 5; i++) statuses.push((await ask(registry.url + INFO)).status);
    expect(statuses).toEqual([503, 503, 502, 200, 200]);
  });

  test("befalls its share of the calls, the same ones for the same seed", async () => {
    const draws = async (seed: number): Promise<boolean[]> => {
      const knobs = new FaultKnobs(mulberry32(seed), async () => undefined);
      await knobs.set({ kind: "reset", rate: 0.3 });
      return Array.from(
        { length: 1_000 },
        () => knobs.draw({ operation: "info", url: "/", body: Buffer.alloc(0) }) !== undefined,
      );
    };
    const first = await draws(1);
    expect(await draws(1)).toEqual(first);
    expect(await draws(2)).not.toEqual(first);
    expect(first.filter(Boolean).length / 1_000).toBeCloseTo(0.3, 1);
  });

  test("that slows answers holds them for that long on the clock", async () => {
    const clock = new ManualClock();
    const delayed = Promise.withResolvers<void>();
    const latency = (): number => {
      delayed.resolve();
      return 100;
    };
    const registry = await startRegistry({ clock, latency });
    registry.slow(50);
    await registry.faults.set({ kind: "slow", delay: 1_000 });
    const answer = ask(registry.url + INFO);
    await delayed.promise;
    clock.advance(1_149);
    expect(registry.calls.open).toBe(1);
    clock.advance(1);
    expect((await answer).status).toBe(200);
  });
});
