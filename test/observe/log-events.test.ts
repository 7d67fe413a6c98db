import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { LOG_EVENTS, type LogEvent } from "../../src/observe/log-events.ts";
import { SampleRegistry } from "../support/sample-registry.ts";
import { DSO, UTILITY_ADMIN } from "../support/sample.ts";
import { type GatewayUnderTest, startGateway } from "../support/gateway.ts";
import { type RedisServer, startRedis } from "../support/redis.ts";
import { until } from "../support/until.ts";
import { breakAndAsk, CLIENT_TOKEN, sendEverything, sendStrays } from "../support/traffic.ts";

const LIAR = `liar::1220${"c3".repeat(32)}`;
const UPSTREAM_TOKEN = "upstream-token-that-nobody-may-see";
const REDIS_PASSWORD = "redis-password-that-nobody-may-see";

type Line = Readonly<Record<string, unknown>>;

/** What the table has of an event. */
interface Described {
  readonly levels: readonly unknown[];
  readonly fields: readonly string[];
}

/** What is wrong with a line, by the documented schema. */
function problemOf(line: Line): string | undefined {
  const { level, time, msg, ...fields } = line;
  const described = LOG_EVENTS[String(msg) as LogEvent] as Described | undefined;
  if (described === undefined) return `there is no line "${String(msg)}"`;
  if (!described.levels.includes(level)) return `"${String(msg)}" has the level ${String(level)}`;
  if (typeof time !== "string" || new Date(time).toISOString() !== time) return `the time is ${String(time)}`;
  for (const name of Object.keys(fields)) {
    const isKnown = described.fields.includes(name) || described.fields.includes(`${name}?`);
    if (!isKnown) return `"${String(msg)}" has the field ${name}`;
  }
  for (const name of described.fields) {
    if (!name.endsWith("?") && fields[name] === undefined) return `"${String(msg)}" lacks the field ${name}`;
  }
  return undefined;
}

describe("the log of a gateway under everything that can happen", () => {
  let redis: RedisServer;
  let registries: Readonly<Record<"amulet" | "second" | "bonds" | "liar", SampleRegistry>>;
  let gateway: GatewayUnderTest;
  let lines: readonly Line[];

  beforeAll(async () => {
    redis = await startRedis({ settings: { requirepass: REDIS_PASSWORD } });
    const make = (admin: string) => new SampleRegistry({ admin, clock: systemClock(), etags: true });
    registries = { amulet: make(DSO), second: make(DSO), bonds: make(UTILITY_ADMIN), liar: make(LIAR) };
    const { amulet, second, bonds, liar } = registries;
    await Promise.all(Object.values(registries).map((registry) => registry.start()));
    gateway = await startGateway({
      redis: { url: redis.url.replace("redis://", `redis://:${REDIS_PASSWORD}@`) },
      log: { level: "debug" },
      cache: { ttl: { info: "0s" } },
      upstreams: [
        {
          name: "amulet",
          admin: DSO,
          urls: [amulet.url, second.url],
          auth: { bearerToken: UPSTREAM_TOKEN },
          // A busy machine would have a hedge in the place of the retry.
          hedge: { enabled: false },
        },
        { name: "bonds", urls: [bonds.url], rateLimit: { requests: 1_000, per: "1s" } },
        { name: "liar", admin: `truth::1220${"d4".repeat(32)}`, urls: [liar.url] },
      ],
    });
    await until(async () => (await fetch(`${gateway.operations}/readyz`)).ok);
    for (const name of ["amulet", "bonds", "liar"]) await sendEverything(gateway.url, name);
    await sendStrays(gateway.url);
    await breakAndAsk(bonds, gateway.url, "bonds");
    const accept = `${gateway.url}/api/token-standard/v0/registrars/amulet/registry/transfer-instruction/v1/00aa/choice-contexts/accept`;
    const post = () => fetch(accept, { method: "POST" }).then((answer) => answer.text());
    const isRetry = ({ upstream, kind, outcome }: Line) =>
      upstream === "amulet" && kind === "retry" && outcome === "success";
    // A node that is gone may be taken out before a call meets it; one that breaks these calls alone comes back.
    await second.faults.set({ kind: "reset", operations: ["transfer_accept"] });
    await until(async () => {
      await Promise.all(Array.from({ length: 12 }, post));
      return gateway.lines.some(isRetry);
    });
    await second.kill();
    for (let turn = 0; turn < 8; turn += 1) await sendEverything(gateway.url, "amulet");
    const headers = { "content-type": "application/json" };
    await fetch(`${gateway.operations}/purge`, { method: "POST", headers, body: '{"upstream":"amulet"}' });
    await redis.kill();
    await until(() => gateway.lines.some(({ msg, to }) => msg === "Redis state changed" && to === "away"));
    await gateway.stop();
    lines = gateway.lines;
  });

  afterAll(async () => {
    await Promise.all(Object.values(registries).map((registry) => registry.stop()));
    await redis.stop();
  });

  test("has only lines of the documented form", () => {
    expect(lines.map(problemOf).filter((problem) => problem !== undefined)).toEqual([]);
  });

  test.each([
    "request",
    "request routed",
    "attempt ended",
    "listening",
    "admin proved",
    "node state changed",
    "node names another admin",
    "upstream state changed",
    "Redis state changed",
    "operator action",
    "upstream answered 429: calling it less",
  ])("has the line: %s", (message) => {
    expect(lines.map(({ msg }) => msg)).toContain(message);
  });

  test("says each change of state once", () => {
    const changes = lines
      .filter(({ msg }) => String(msg).endsWith("state changed"))
      .map((change) => JSON.stringify({ ...change, time: undefined }));
    // What comes and goes alternates; the same change twice in a row would be one too many.
    for (const [index, change] of changes.entries()) expect(change).not.toBe(changes[index - 1]);
  });

  test("says at level debug why a request went where it went, and every attempt it took", () => {
    const posts = lines.filter(({ msg, operation, upstream }) => {
      return msg === "request" && operation === "transfer_factory" && upstream === "amulet";
    });
    expect(posts.length).toBeGreaterThan(5);
    const of = (message: string, { requestId }: Line) =>
      lines.filter((line) => line["msg"] === message && line["requestId"] === requestId);
    for (const post of posts) {
      expect(of("request routed", post)).toMatchObject([{ upstream: "amulet", by: "path" }]);
      expect(of("attempt ended", post).at(-1)).toMatchObject({ upstream: "amulet", status: post["status"] });
    }
    // The node that broke them off, and the one asked in its place.
    const attempts = lines.filter(({ msg, upstream }) => msg === "attempt ended" && upstream === "amulet");
    const failed = attempts.filter(({ node, outcome }) => node === 1 && outcome === "failure");
    for (const { reason } of failed) expect(reason).toMatch(/^(refused|reset)$/);
    const next = failed.filter(({ requestId }) => requestId !== undefined).flatMap((line) => of("attempt ended", line));
    expect(next).toContainEqual(expect.objectContaining({ node: 0, kind: "retry", outcome: "success" }));
  });

  test.each([
    ["a client's token", CLIENT_TOKEN],
    ["a token for a registry", UPSTREAM_TOKEN],
    ["the password of Redis", REDIS_PASSWORD],
    ["a party id", DSO],
    ["another party id", UTILITY_ADMIN],
    ["the party id of a wrong registry", LIAR],
    ["its fingerprint", DSO.split("::")[1]!],
    ["an address", "127.0.0.1"],
    ["a contract id", `00${"ab".repeat(68)}`],
    ["an instrument", "Amulet"],
    ["a body", "choiceArguments"],
  ])("never holds %s", (_name, secret) => {
    expect(lines.length).toBeGreaterThan(100);
    expect(lines.map((line) => JSON.stringify(line)).filter((line) => line.includes(secret))).toEqual([]);
  });
});

describe("sampling of hits", () => {
  test.each([
    [0, 0],
    [0.25, 25],
    [1, 100],
  ])("with log.hits %d, %d of 100 fresh hits have a line", async (share, expected) => {
    const registry = new SampleRegistry({ admin: DSO, clock: systemClock() });
    await registry.start();
    let drawn = 0;
    const gateway = await startGateway(
      { log: { hits: share }, upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url] }] },
      { random: () => (drawn++ % 100) / 100 },
    );
    const url = `${gateway.url}/registry/metadata/v1/info`;
    await (await fetch(url)).text();
    drawn = 0;
    for (let turn = 0; turn < 100; turn += 1) await (await fetch(url)).text();
    const requests = gateway.lines.filter(({ msg }) => msg === "request");
    expect(requests.filter(({ outcome }) => outcome === "hit")).toHaveLength(expected);
    expect(requests.filter(({ outcome }) => outcome === "miss")).toHaveLength(1);
    await gateway.stop();
    await registry.stop();
  });
});
