import type { FastifyInstance } from "fastify";
import { afterEach, describe, expect, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { createLogger } from "../../src/log.ts";
import { createMetrics } from "../../src/metrics.ts";
import { createOperationsListener } from "../../src/routes/operations.ts";

const OPEN = ["/livez", "/readyz", "/metrics"];
const GUARDED = ["/status", "/explain?path=/", "/nothing"];

let listener: FastifyInstance | undefined;
afterEach(() => listener?.close());

/** The listener alone, as it is when other machines can reach it; here none can. */
async function start(options: { isExposed: boolean; token?: string }): Promise<string> {
  const { metrics, registry } = createMetrics();
  listener = createOperationsListener({
    surroundings: { clock: systemClock(), log: createLogger("silent"), metrics, version: "0.0.0-test" },
    registry,
    readiness: { report: () => ({ ready: true, upstreams: [] }) },
    explain: async () => ({ upstream: "amulet", admin: undefined, operation: "info", cached: false }),
    purge: async () => ({ purged: {}, reach: "replica" }),
    status: () => ({ upstreams: [] }),
    isExposed: options.isExposed,
    token: options.token,
  });
  return listener.listen({ host: "127.0.0.1", port: 0 });
}

async function statusOf(base: string, path: string, authorization?: string, method = "GET"): Promise<number> {
  const headers = new Headers(authorization === undefined ? {} : { authorization });
  if (method === "POST") headers.set("content-type", "application/json");
  const answer = await fetch(base + path, { headers, method, ...(method === "POST" ? { body: "{}" } : {}) });
  const body = await answer.text();
  if (answer.status >= 400) {
    expect(answer.headers.get("content-type")).toMatch(/^application\/json/);
    expect(answer.headers.get("www-authenticate")).toBe(answer.status === 401 ? "Bearer" : null);
    expect(JSON.parse(body)).toEqual({ error: expect.stringMatching(/^registry-gateway: /) });
  }
  return answer.status;
}

describe("an operations listener that other machines can reach", () => {
  test("answers probes and metrics to anybody", async () => {
    const base = await start({ isExposed: true, token: "secret" });
    for (const path of OPEN) expect([path, await statusOf(base, path)]).toEqual([path, 200]);
  });

  test("answers all else to the token alone", async () => {
    const base = await start({ isExposed: true, token: "secret" });
    for (const given of [
      undefined,
      "",
      "secret",
      "Bearer",
      "Bearer ",
      "Bearer secre",
      "Bearer secret2",
      "Basic secret",
    ]) {
      for (const path of GUARDED) expect(await statusOf(base, path, given)).toBe(401);
      expect(await statusOf(base, "/purge", given, "POST")).toBe(401);
    }
    expect(await statusOf(base, "/status", "Bearer secret")).toBe(200);
    expect(await statusOf(base, "/purge", "Bearer secret", "POST")).toBe(200);
    expect(await statusOf(base, "/nothing", "Bearer secret")).toBe(404);
  });

  test("answers all else to nobody without a token configured", async () => {
    const base = await start({ isExposed: true });
    for (const path of GUARDED) expect(await statusOf(base, path, "Bearer undefined")).toBe(403);
    expect(await statusOf(base, "/purge", "Bearer ", "POST")).toBe(403);
    for (const path of OPEN) expect(await statusOf(base, path)).toBe(200);
  });

  test("takes no other spelling of a path for a probe", async () => {
    const base = await start({ isExposed: true, token: "secret" });
    for (const path of [
      "/status/",
      "//status",
      "/livez/../status",
      "/%73tatus",
      "/STATUS",
      "/livez%2f..%2fstatus",
      "/status?/livez",
    ]) {
      expect([200, 302]).not.toContain(await statusOf(base, path));
    }
  });
});

test("an operations listener on loopback needs no token", async () => {
  const base = await start({ isExposed: false, token: "secret" });
  for (const path of [...OPEN, "/status", "/explain?path=/"]) expect(await statusOf(base, path)).toBe(200);
  expect(await statusOf(base, "/purge", undefined, "POST")).toBe(200);
});
