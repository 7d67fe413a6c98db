import { describe, expect, it } from "vitest";
import type { GatewayState } from "../../../src/observe/state.ts";
import { healthOf } from "../../../src/operations/health.ts";
import type { HealthLevel } from "../../../src/operations/types.ts";
import { anUpstream, aState, NOW } from "../observe/states.ts";

const MINUTE = 60_000;
const DAY = 86_400_000;
const BEGAN = NOW - 4 * MINUTE;
const REFUSED = "refused the connection";

interface Case {
  readonly what: string;
  readonly state: Partial<GatewayState>;
  readonly level: HealthLevel;
  readonly text: string;
  readonly runbook?: string;
}

const one = (own: Parameters<typeof anUpstream>[0]) => ({ upstreams: [anUpstream(own)] });
const out = { state: "out", cause: REFUSED, since: BEGAN } as const;
const paused = { pausedUntil: NOW + 26_400 };

const CASES: readonly Case[] = [
  {
    what: "a registry whose only node is out",
    state: one({ state: "down", cause: REFUSED, since: BEGAN, nodes: [out] }),
    level: "page",
    text: "amulet is down since 13:11: its only node refused the connection",
    runbook: "registrygatewayallnodesdown",
  },
  {
    what: "a registry that is down with no word of its own, by those of its nodes, each once",
    state: one({
      state: "down",
      since: BEGAN,
      nodes: [out, { ...out, ...paused }, { ...out, cause: "failed the TLS handshake." }],
    }),
    level: "page",
    text: "amulet is down since 13:11: its nodes refused the connection, or failed the TLS handshake",
    runbook: "registrygatewayallnodesdown",
  },
  {
    what: "a registry whose nodes all fail alike",
    state: one({ state: "down", cause: `${REFUSED} (2 of 2 nodes)`, since: BEGAN, nodes: [out, out] }),
    level: "page",
    text: "amulet is down since 13:11: both nodes refused the connection",
    runbook: "registrygatewayallnodesdown",
  },
  {
    what: "a registry at whose URL another one answers",
    state: one({
      state: "down",
      cause: "names another admin, B::1220",
      since: BEGAN,
      nodes: [{ ...out, state: "wrong", cause: "names another admin, B::1220" }],
    }),
    level: "page",
    text: "amulet is down since 13:11: its only node names another admin, B::1220",
    runbook: "registrygatewayadminmismatch",
  },
  {
    what: "a registry whose nodes contradict each other",
    state: one({ state: "disabled", cause: "its nodes name different admins.", since: NOW - DAY }),
    level: "page",
    text: "amulet is disabled since 27 Nov, 13:15: its nodes name different admins",
    runbook: "registrygatewayadminmismatch",
  },
  {
    what: "one of two nodes out",
    state: one({ nodes: [{}, out] }),
    level: "warning",
    text: "amulet: node b.example out since 13:11: refused the connection",
    runbook: "registrygatewaynodedown",
  },
  {
    what: "two of three nodes out, by the one that was out first",
    state: one({ nodes: [{}, out, { ...out, since: BEGAN - 5 * MINUTE }] }),
    level: "warning",
    text: "amulet: 2 of 3 nodes out since 13:06: refused the connection",
    runbook: "registrygatewaynodedown",
  },
  {
    what: "one of two nodes that names another admin",
    state: one({ nodes: [{}, { ...out, state: "wrong", cause: "names another admin, B::1220" }] }),
    level: "warning",
    text: "amulet: node b.example not used since 13:11: names another admin, B::1220",
    runbook: "registrygatewaynodeadminmismatch",
  },
  {
    what: "every node paused by a 429, until the first of them may be asked",
    state: one({ nodes: [paused, { pausedUntil: NOW + 50_000 }], limit: { requests: "120/1m", waiting: 3 } }),
    level: "warning",
    text: "amulet answered 429, paused until 13:15:26 (2 nodes)",
    runbook: "registrygatewayregistrypauses",
  },
  {
    what: "the only node that is up paused, and the other out",
    state: one({ nodes: [paused, out] }),
    level: "warning",
    text: "amulet answered 429, paused until 13:15:26 (1 node)",
    runbook: "registrygatewayregistrypauses",
  },
  {
    what: "one of two nodes paused: calls go to the other",
    state: one({ nodes: [{}, paused] }),
    level: "well",
    text: "amulet answered 429, paused until 13:15:26 (1 node)",
    runbook: "registrygatewayregistrypauses",
  },
  {
    what: "a pause that is just over: the next 429 may come at any time",
    state: one({ nodes: [{ pausedUntil: NOW - 1 }] }),
    level: "warning",
    text: "amulet answered 429, was paused until 13:14:59 (1 node)",
    runbook: "registrygatewayregistrypauses",
  },
  {
    what: "a credential that cannot be had",
    state: one({ credential: "the token endpoint answered 500", nodes: [{}, out] }),
    level: "warning",
    text: "amulet: the gateway's credential is unusable: the token endpoint answered 500",
    runbook: "registrygatewaycredentialunusable",
  },
  {
    what: "a credential that cannot be had from the start: nothing was asked of the registry",
    state: one({ credential: "the token endpoint cannot be reached", state: "unproved", since: NOW - 60_000 }),
    level: "warning",
    text: "amulet: the gateway's credential is unusable: the token endpoint cannot be reached",
    runbook: "registrygatewaycredentialunusable",
  },
  {
    what: "calls that wait for the operator's own limit",
    state: one({ limit: { requests: "120/1m", waiting: 3 } }),
    level: "well",
    text: "amulet: your limit: 120/1m, 3 calls wait",
    runbook: "registrygatewaylimitreached",
  },
  {
    what: "one call that waits for one of two limits",
    state: one({ limit: { requests: "120/1m", burst: "10/1s", waiting: 1 } }),
    level: "well",
    text: "amulet: your limit: 120/1m and 10/1s, 1 call waits",
    runbook: "registrygatewaylimitreached",
  },
  {
    what: "a limit that is not used up",
    state: one({ limit: { requests: "120/1m", waiting: 0 } }),
    level: "well",
    text: "amulet is well: 1 of 1 node up",
  },
  {
    what: "a registry in cache-only mode, whatever its nodes are",
    state: one({ mode: "cache-only", state: "down", nodes: [out] }),
    level: "well",
    text: "amulet is cache-only, as configured",
  },
  {
    what: "a registry just after the start",
    state: one({ state: "unproved", since: NOW - 2_000, nodes: [{ state: "unproved" }] }),
    level: "well",
    text: "amulet is being asked for the first time",
  },
  {
    what: "a registry that has not answered for long",
    state: one({ state: "unproved", since: BEGAN, nodes: [{ state: "unproved" }] }),
    level: "warning",
    text: "amulet has not named its admin since 13:11: no node has answered",
    runbook: "registrygatewayallnodesdown",
  },
  {
    what: "Redis away",
    state: { redis: { redis: "away", cause: "connect ECONNREFUSED", since: BEGAN, replicas: 1 } },
    level: "warning",
    text: "Redis is away since 13:11: connect ECONNREFUSED",
    runbook: "registrygatewayredisaway",
  },
  {
    what: "Redis there",
    state: { redis: { redis: "up", replicas: 2 } },
    level: "well",
    text: "amulet is well: 1 of 1 node up",
  },
  {
    what: "a replica that fell silent",
    state: { redis: { redis: "up", since: NOW - DAY, replicas: 2, lost: { count: 1, since: BEGAN } } },
    level: "warning",
    text: "1 of 3 replicas is gone since 13:11: it ended without a farewell, or does not reach Redis",
    runbook: "registrygatewayreplicagone",
  },
  {
    what: "replicas that have not found a Redis that is just back",
    state: { redis: { redis: "up", since: NOW - 14_000, replicas: 1, lost: { count: 2, since: BEGAN } } },
    level: "well",
    text: "amulet is well: 1 of 1 node up",
  },
  {
    what: "a refused reload",
    state: {
      reload: {
        takenAt: NOW - DAY,
        refused: { at: BEGAN, problem: "gateway.yaml:12:3 upstreams[0].url: unknown key" },
      },
    },
    level: "warning",
    text: "the configuration was refused at 13:11: gateway.yaml:12:3 upstreams[0].url: unknown key",
    runbook: "registrygatewayreloadfailed",
  },
  {
    what: "a certificate of the listener about to end",
    state: { certificates: [{ role: "listener", peer: "clients", endsAt: NOW + 5 * DAY }] },
    level: "warning",
    text: "the certificate of listen.tls.certFile ends on 3 Dec 2026",
    runbook: "registrygatewaycertificateends",
  },
  {
    what: "a certificate for a registry that has ended",
    state: { certificates: [{ role: "client", peer: "amulet", endsAt: NOW - DAY }] },
    level: "warning",
    text: "the client certificate for amulet ended on 27 Nov 2026",
    runbook: "registrygatewaycertificateends",
  },
  {
    what: "a certificate that lasts",
    state: { certificates: [{ role: "listener", peer: "clients", endsAt: NOW + 15 * DAY }] },
    level: "well",
    text: "amulet is well: 1 of 1 node up",
  },
];

describe("health", () => {
  it.each(CASES)("of $what is $level", ({ state, level, text, runbook }) => {
    const health = healthOf(aState(state));
    expect(health.level).toBe(level);
    expect(health.lines[0]).toMatchObject({ level, text, ...(runbook !== undefined && { runbook }) });
    expect(health.lines[0]?.runbook).toBe(runbook);
    // One line a registry, whatever is true of it besides, and one for each other subject.
    expect(new Set(health.lines.map(({ name }) => name)).size).toBe(health.lines.length);
    expect(health.sentence).toBe(level === "well" ? "All is well: 1 registry." : `${text}.`);
  });

  it("has every registry as a line, the worst first, and one sentence of the worst", () => {
    const upstreams = [
      anUpstream({ name: "gold" }),
      anUpstream({ name: "funds", nodes: [{}, out] }),
      anUpstream({ name: "bonds", state: "down", cause: REFUSED, since: BEGAN, nodes: [out] }),
    ];
    const redis = { redis: "away", cause: "it is loading", since: BEGAN, replicas: 1 } as const;
    const health = healthOf(aState({ upstreams, redis }));
    expect(health.lines.map(({ name, level }) => `${name} ${level}`)).toEqual([
      "bonds page",
      "funds warning",
      "Redis warning",
      "gold well",
    ]);
    expect(health.sentence).toBe(`bonds is down since 13:11: its only node ${REFUSED}. Not well either: funds, Redis.`);
    expect(healthOf(aState({ upstreams: upstreams.slice(0, 1) })).sentence).toBe("All is well: 1 registry.");
  });

  it("names three of many, and counts the others", () => {
    const names = ["a", "b", "c", "d", "e", "f"];
    const upstreams = names.map((name) =>
      anUpstream({ name, state: "down", cause: REFUSED, since: BEGAN, nodes: [out] }),
    );
    const { sentence } = healthOf(aState({ upstreams }));
    expect(sentence).toBe(`a is down since 13:11: its only node ${REFUSED}. Not well either: b, c, d, and 2 more.`);
  });

  it("says since when, and what clients notice", () => {
    const { lines } = healthOf(aState(one({ state: "down", cause: REFUSED, since: BEGAN, nodes: [out] })));
    expect(lines[0]).toMatchObject({ since: BEGAN, effect: expect.stringContaining("503") as string });
  });
});
