import { describe, expect, it } from "vitest";
import type { Config } from "../../../src/config/schema.ts";
import { GatewayError } from "../../../src/errors.ts";
import { createLog } from "../../../src/observe/log.ts";
import { RecentRequests } from "../../../src/observe/recent-requests.ts";
import { RequestLog } from "../../../src/observe/request-log.ts";
import type { RequestRecord } from "../../../src/requests/record.ts";
import { TestClock } from "../../support/clock.ts";
import { aRecord } from "./states.ts";

type Line = Readonly<Record<string, unknown>>;

const SETTINGS: Config["log"] = { level: "info", hits: 0, addresses: false };

/** A log, the text that it wrote, and its lines. */
function startLog(settings = SETTINGS) {
  const written: string[] = [];
  const { log } = createLog(settings, { write: (text: string) => void written.push(text) }, TestClock.standing());
  return { log, written, lines: () => written.map((text) => JSON.parse(text) as Line) };
}

describe("a line", () => {
  it("has its level as a word and its time in ISO 8601", () => {
    const { log, lines } = startLog();
    log.warn({ upstream: "amulet" }, "the node is out");
    expect(lines()).toEqual([
      {
        level: "warn",
        time: expect.stringMatching(/^20\d\d-\d\d-\d\dT.*Z$/) as string,
        upstream: "amulet",
        msg: "the node is out",
      },
    ]);
  });

  it("holds no credential", () => {
    const { log, written } = startLog();
    const secrets = {
      authorization: "Bearer secret",
      "x-api-key": "secret",
      cookie: "secret",
      "proxy-authorization": "secret",
    };
    log.info({ ...secrets, headers: secrets }, "fields");
    expect(written.join("")).not.toContain("secret");
  });

  it("holds nothing that acts on a terminal or breaks the line, wherever it came from", () => {
    const { log, written, lines } = startLog();
    const text = "a\u001b[31m\u009b\u202e\u2028\nb";
    log.info({ path: text }, text);
    expect(written.join("")).toMatch(/^[\u0020-\u007e]+\n$/);
    expect(lines()[0]).toMatchObject({ path: text });
  });

  it("of an error has its kind, its causes and where it was thrown, each cut", () => {
    const { log, lines, written } = startLog();
    const cause = Object.assign(new Error(`connect ECONNREFUSED ${"x".repeat(10_000)}`), { code: "ECONNREFUSED" });
    log.error({ err: new GatewayError("upstream_unreachable", "no way", { cause }) }, "failed");
    log.error({ err: "no error at all" }, "failed");
    const [line, other] = lines() as [{ err: Line }, { err: Line }];
    expect(line.err).toMatchObject({ type: "GatewayError", code: "upstream_unreachable", message: "no way" });
    expect(line.err["causes"]).toEqual([expect.stringMatching(/^connect ECONNREFUSED x+…$/)]);
    expect(line.err["stack"]).toEqual(expect.arrayContaining([expect.stringMatching(/^at .*log\.test\.ts/)]));
    expect(other.err).toEqual({ message: "no error at all" });
    expect(written[0]!.length).toBeLessThan(5_000);
  });
});

it("a line that is too long stays JSON, and says what it is about", () => {
  const { log, lines } = startLog();
  log.info({ changed: Array.from({ length: 5_000 }, (_, i) => `upstreams[registry-${i}].urls`) }, "reloaded");
  expect(lines()[0]).toMatchObject({ level: "info", msg: "reloaded", characters: expect.any(Number) as number });
});

describe("the line of a request", () => {
  function ended(record: Partial<RequestRecord>, { hits = 0, addresses = false, random = 0.5 } = {}) {
    const recent = new RecentRequests();
    const settings = { ...SETTINGS, hits, addresses };
    const { log, lines } = startLog(settings);
    new RequestLog({ log, recent, settings: () => settings, random: () => random }).ended(aRecord(record));
    return { lines: lines(), recent: recent.all() };
  }

  it("has what is known of it, and leaves out what is not", () => {
    const { lines, recent } = ended({
      client: "wallet",
      tier: "gold",
      outcome: "miss",
      seconds: 0.0123456,
      waited: 3.4,
      attempts: 2,
      node: 1,
      traceparent: `00-${"ab".repeat(16)}-${"cd".repeat(8)}-01`,
    });
    expect(lines[0]).toMatchObject({
      level: "info",
      msg: "request",
      requestId: "request-1",
      traceId: "ab".repeat(16),
      method: "GET",
      path: "/registry/metadata/v1/instruments/Amulet",
      operation: "instrument",
      upstream: "amulet",
      client: "wallet",
      tier: "gold",
      status: 200,
      outcome: "miss",
      ms: 12.346,
      waited: 3,
      attempts: 2,
      node: 1,
      bytes: 120,
    });
    const { level: _level, time: _time, msg: _msg, ...line } = lines[0]!;
    expect(recent).toEqual([line]);
    expect(Object.keys(ended({ operation: undefined, upstream: undefined }).lines[0]!)).toEqual([
      "level",
      "time",
      "at",
      "requestId",
      "method",
      "path",
      "status",
      "ms",
      "bytes",
      "msg",
    ]);
  });

  it.each<{ what: string; record: Partial<RequestRecord>; level: string }>([
    { what: "a success", record: {}, level: "info" },
    { what: "a client's mistake", record: { status: 400, code: "malformed_path" }, level: "info" },
    { what: "a client that went away", record: { status: 499, code: "client_gone" }, level: "info" },
    { what: "a registry's own 500", record: { status: 500 }, level: "info" },
    { what: "a 503 of ours", record: { status: 503, code: "upstream_down" }, level: "warn" },
    { what: "a fault of ours", record: { status: 500, code: "internal_error" }, level: "warn" },
  ])("of $what is $level", ({ record, level }) => {
    expect(ended(record).lines.map((line) => line["level"])).toEqual([level]);
  });

  it("of a fault of ours has its stack, and of another error its causes alone", () => {
    const fault = new GatewayError("internal_error", "internal server error", {
      cause: new TypeError("x is no function"),
    });
    const { lines } = ended({ status: 500, code: "internal_error", error: fault });
    expect(lines[0]).toMatchObject({ err: { type: "TypeError", message: "x is no function" } });
    const down = new GatewayError("upstream_down", "no node is up", { cause: new Error("connect ECONNREFUSED") });
    const { lines: others, recent } = ended({ status: 503, code: "upstream_down", error: down });
    expect(others[0]).toMatchObject({ causes: ["connect ECONNREFUSED"] });
    expect(others[0]).not.toHaveProperty("err");
    expect(recent[0]).toMatchObject({ causes: ["connect ECONNREFUSED"] });
  });

  it.each([
    { hits: 0, random: 0, logged: 0 },
    { hits: 0.2, random: 0.1, logged: 1 },
    { hits: 0.2, random: 0.3, logged: 0 },
    { hits: 1, random: 0.999, logged: 1 },
  ])("of a fresh hit is written for a share of $hits: $logged at $random", ({ hits, random, logged }) => {
    expect(ended({ outcome: "hit" }, { hits, random }).lines).toHaveLength(logged);
    expect(ended({ outcome: "stale" }, { hits, random }).lines).toHaveLength(1);
  });

  it("has the client's address where log.addresses says so", () => {
    expect(ended({}, { addresses: true }).lines[0]).toMatchObject({ address: "192.0.2.1" });
    expect(ended({}).lines[0]).not.toHaveProperty("address");
  });

  it("stays for the last 500 of them, the latest first", () => {
    const recent = new RecentRequests();
    const { log } = startLog({ ...SETTINGS, level: "silent" });
    const requests = new RequestLog({ log, recent, settings: () => SETTINGS, random: Math.random });
    for (let i = 0; i < 3; i += 1) requests.ended(aRecord({ id: `${i}` }));
    expect(recent.all().map(({ requestId }) => requestId)).toEqual(["2", "1", "0"]);
    for (let i = 3; i < 1_203; i += 1) requests.ended(aRecord({ id: `${i}` }));
    const all = recent.all().map(({ requestId }) => requestId);
    expect(all).toHaveLength(500);
    expect([all[0], all.at(-1)]).toEqual(["1202", "703"]);
  });
});
