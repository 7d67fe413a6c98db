import { expect, test } from "vitest";
import { judgeHealth } from "../../src/console/health.ts";
import type { StatusAnswer } from "../../src/operations/answers.ts";

type Upstream = StatusAnswer["upstreams"][number];
const NOW = Date.parse("2026-11-22T12:00:00Z");

const NODE = { url: "https://a.example", state: "up", cordoned: false, lastError: null } as Upstream["nodes"][number];

function upstream(name: string, change: Partial<Upstream> = {}): Upstream {
  return {
    name,
    state: "up",
    mode: "normal",
    breaker: "closed",
    lastError: null,
    isContested: false,
    certificates: [],
    nodes: [NODE],
    ...change,
  } as Upstream;
}

function status(upstreams: readonly Upstream[], change: Partial<StatusAnswer> = {}): StatusAnswer {
  return {
    version: "1.0.0",
    uptimeSeconds: 60,
    cache: { memory: { entries: 1, bytes: 1, maxBytes: 1_000 } },
    redis: { configured: false },
    inForce: [],
    certificates: [],
    upstreams,
    ...change,
  };
}

test("all that is well is one sentence, and nothing to look at", () => {
  expect(judgeHealth(status([upstream("a"), upstream("b")]), NOW)).toEqual({
    tone: "good",
    sentence: "All 2 registries are well.",
    findings: [],
  });
  expect(judgeHealth(status([upstream("a")]), NOW).sentence).toBe("The registry is well.");
});

test("the worst comes first, and the sentence says it", () => {
  const health = judgeHealth(
    status([
      upstream("slow", { state: "degraded", nodes: [NODE, { ...NODE, state: "ejected" }] }),
      upstream("dead", { state: "failing", breaker: "open", lastError: "the connection was refused" }),
      upstream("well"),
    ]),
    NOW,
  );
  expect(health.tone).toBe("bad");
  expect(health.sentence).toBe(
    "1 of 3 registries are well. dead fails, its circuit breaker is open: the connection was refused. And 1 more thing to look at.",
  );
  expect(health.findings.map(({ upstream: name, tone }) => [name, tone])).toEqual([
    ["dead", "bad"],
    ["slow", "warn"],
  ]);
});

test("a registry of which every node failed last is told before its breaker opens", () => {
  const failing = { ...NODE, lastError: "it refused the connection" };
  const { sentence, tone } = judgeHealth(
    status([upstream("a", { lastError: failing.lastError, nodes: [failing] })]),
    NOW,
  );
  expect([tone, sentence]).toEqual([
    "warn",
    "The registry is not well. Every node of a failed when it was asked last: it refused the connection.",
  ]);
  const other = upstream("a", { lastError: failing.lastError, nodes: [failing, NODE] });
  expect(judgeHealth(status([other]), NOW).sentence).toBe("The registry is well.");
});

test("a registry that is disabled on purpose is told and no alarm", () => {
  const health = judgeHealth(status([upstream("a"), upstream("off", { state: "disabled" })]), NOW);
  expect(health.tone).toBe("good");
  expect(health.findings).toHaveLength(1);
});

test("cache-only mode, Redis that is away and a certificate that ends are told", () => {
  const health = judgeHealth(
    status([upstream("a", { mode: "cache-only" })], {
      redis: { configured: true, state: "away", lastError: "refused" } as StatusAnswer["redis"],
      certificates: [
        { role: "listener", expiresAt: "2026-11-25T00:00:00Z" },
        { role: "client", expiresAt: "2027-11-25T00:00:00Z" },
      ],
    }),
    NOW,
  );
  const texts = health.findings.map(({ text }) => text);
  expect(texts).toHaveLength(3);
  expect(texts[0]).toContain("Redis is away");
  expect(texts.join("\n")).toContain("a is in cache-only mode");
  expect(texts.join("\n")).toContain("certificate (listener) ends on");
});

test("a state that this page does not know is something to look at", () => {
  const unknown = upstream("a", { state: "levitating" as Upstream["state"] });
  expect(judgeHealth(status([unknown]), NOW).tone).toBe("warn");
});
