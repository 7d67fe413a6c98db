import type { Socket } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { mulberry32 } from "../../../src/sandbox/random.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { useGateways } from "../../support/gateways.ts";
import { startRawServer } from "../../support/raw-server.ts";
import { startRedis } from "../../support/redis.ts";
import { useSampleRegistries } from "../../support/sample-registries.ts";
import type { SampleRegistry, ScriptedAnswer } from "../../support/sample-registry.ts";
import { DSO, sampleJson } from "../../support/sample.ts";
import { type ReceivedAnswer, send, type SentRequest } from "../../support/send.ts";
import { runs } from "../../support/thorough.ts";

const startRegistry = useSampleRegistries();
const startGateway = useGateways();

const ACCEPT = "/registry/transfer-instruction/v1/00aa/choice-contexts/accept";
const FACTORY = "/registry/transfer-instruction/v1/transfer-factory";
const OF_FACTORY = JSON.stringify(sampleJson("04-transfer-factory.request.amulet.json"));

const SETTLEMENT = JSON.stringify({ choiceArguments: { settlement: {}, allocations: ["00aa", "00bb"] } });

/** Each way of a POST that an upstream answers, of both versions. */
const WAYS: readonly (readonly [path: string, body: string])[] = [
  [ACCEPT, "{}"],
  ["/registry/allocations/v1/00aa/choice-contexts/execute-transfer", "{}"],
  ["/registry/transfer-instruction/v2/00aa/choice-contexts/accept", "{}"],
  [FACTORY, OF_FACTORY],
];

type Gateway = Awaited<ReturnType<typeof startGateway>>;

interface Scene {
  readonly clock?: ManualClock;
  readonly keys?: object;
  /** Of the registry's own answers. */
  readonly cacheControl?: string;
  readonly age?: string;
}

async function start(upstream: object, options: Scene = {}) {
  const { clock, cacheControl, age = "0" } = options;
  const date = clock === undefined ? {} : { date: new Date(clock.wallNow()).toUTCString() };
  const marks = cacheControl === undefined ? {} : { "cache-control": cacheControl, age, ...date };
  const registry = await startRegistry({ cacheHeaders: (operation) => (operation === "info" ? {} : marks) });
  const gateway = await startGateway(
    { upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url], ...upstream }], ...options.keys },
    clock === undefined ? {} : { clock },
  );
  // The node proves its admin before anything is counted.
  await send(gateway.url, { path: "/registry/metadata/v1/info" });
  return { registry, gateway };
}

const posts = ({ calls }: SampleRegistry) => calls.recent.filter(({ method }) => method === "POST").length;

const ask = ({ url }: Gateway, request: Partial<SentRequest> = {}): Promise<ReceivedAnswer> =>
  send(url, { path: ACCEPT, body: "{}", ...request });

/** Holds every POST until it is told what to answer: undefined, the registry's own. */
function hold(registry: SampleRegistry): (answer?: ScriptedAnswer) => void {
  const { promise, resolve } = Promise.withResolvers<ScriptedAnswer | undefined>();
  registry.script(({ method }) => (method === "POST" ? promise : undefined));
  return resolve;
}

/** Has 200s to POSTs carry these fields. */
function mark(
  registry: SampleRegistry,
  headers: readonly string[],
  body = '{"choiceContextData":{},"disclosedContracts":[]}',
) {
  const marked = { status: 200, headers: ["content-type", "application/json", ...headers], body };
  registry.script(({ method }) => (method === "POST" ? marked : undefined));
}

async function purge({ operations }: Gateway, body: object): Promise<void> {
  const answer = await send(operations, { path: "/purge", body: JSON.stringify(body) });
  expect(answer.status, answer.text).toBe(200);
}

async function spared({ operations }: Gateway): Promise<Record<string, number>> {
  const { text } = await send(operations, { path: "/metrics" });
  const found = text.matchAll(/^registry_gateway_context_calls_spared_total\{upstream="amulet",by="(\w+)"\} (\d+)/gm);
  return Object.fromEntries([...found].map(([, by, count]) => [by, Number(count)]));
}

describe("with contexts.share", () => {
  test.each(WAYS)("100 equal questions at once are one call: %s", async (path, body) => {
    const { registry, gateway } = await start({ contexts: { share: true } });
    const release = hold(registry);
    const asked = Array.from({ length: 100 }, () => ask(gateway, { path, body }));
    await expect.poll(() => spared(gateway)).toMatchObject({ shared: 99 });
    release();
    const answers = await Promise.all(asked);
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(answers[0]!.status).toBe(200);
    expect(new Set(answers.map(({ headers }) => headers["cache-control"]))).toEqual(new Set(["no-store"]));
    expect(new Set(answers.map(({ headers }) => headers["x-request-id"])).size).toBe(100);
    expect(posts(registry)).toBe(1);
    const statuses = Map.groupBy(answers, ({ headers }) => headers["cache-status"]);
    expect(statuses.get("registry-gateway;fwd=uri-miss")).toHaveLength(1);
    expect(statuses.get("registry-gateway;fwd=uri-miss;collapsed")).toHaveLength(99);
    const lines = gateway.lines.filter(({ msg, method }) => msg === "request" && method === "POST");
    expect(lines.filter(({ collapsed }) => collapsed === true)).toHaveLength(99);
    // Not kept: what comes after the call is another question.
    await ask(gateway, { path, body });
    expect(posts(registry)).toBe(2);
  });

  test("other bytes, paths, media types and forwarded credentials are other questions", async () => {
    const { registry, gateway } = await start({ contexts: { share: true }, forwardAuthorization: "calls" });
    const release = hold(registry);
    const questions: Partial<SentRequest>[] = [
      {},
      { body: "{ }" },
      { body: '{"excludeDebugFields":true}' },
      { path: ACCEPT.replace("00aa", "00ab") },
      { path: ACCEPT.replace("accept", "reject") },
      { headers: { accept: "text/plain" } },
      { headers: { authorization: "Bearer one" } },
      { headers: { authorization: "Bearer two" } },
    ];
    const asked = [...questions, ...questions].map((question) => ask(gateway, question));
    await expect.poll(() => spared(gateway)).toMatchObject({ shared: questions.length });
    release();
    await Promise.all(asked);
    expect(posts(registry)).toBe(questions.length);
    const sent = registry.calls.recent
      .map(({ headers }) => headers.authorization)
      .filter((value) => value !== undefined);
    expect(sent.sort()).toEqual(["Bearer one", "Bearer two"]);
  });

  test("what an Authorization that stays here says is no other question, nor is a trace or an id", async () => {
    const { registry, gateway } = await start({ contexts: { share: true } });
    const release = hold(registry);
    const asked = ["one", "two"].map((name, i) =>
      ask(gateway, {
        headers: {
          authorization: `Bearer ${name}`,
          "x-request-id": name,
          traceparent: `00-${"a".repeat(31)}${i}-${"b".repeat(16)}-01`,
        },
      }),
    );
    await expect.poll(() => spared(gateway)).toMatchObject({ shared: 1 });
    release();
    const ids = (await Promise.all(asked)).map(({ headers }) => headers["x-request-id"]);
    expect(ids).toEqual(["one", "two"]);
    expect(posts(registry)).toBe(1);
  });

  test("a client's true address, where it goes upstream, makes another question", async () => {
    const { registry, gateway } = await start(
      { contexts: { share: true }, forwardClientAddress: true },
      { keys: { listen: { host: "127.0.0.1", port: 0, trustedProxies: ["127.0.0.1/32"] } } },
    );
    const release = hold(registry);
    const addresses = ["192.0.2.1", "192.0.2.2", "192.0.2.1"];
    const asked = addresses.map((address) => ask(gateway, { headers: { "x-forwarded-for": address } }));
    await expect.poll(() => spared(gateway)).toMatchObject({ shared: 1 });
    release();
    await Promise.all(asked);
    expect(posts(registry)).toBe(2);
  });

  test("an error is every waiter's, and nobody's later", async () => {
    const { registry, gateway } = await start({ contexts: { share: true, maxAge: "1m" }, retry: { attempts: 1 } });
    const release = hold(registry);
    const asked = Array.from({ length: 10 }, () => ask(gateway));
    await expect.poll(() => spared(gateway)).toMatchObject({ shared: 9 });
    const headers = ["content-type", "application/json", "cache-control", "max-age=60"];
    release({ status: 409, headers, body: '{"error":"contention"}' });
    const answers = await Promise.all(asked);
    expect(answers.map(({ status, text }) => `${status} ${text}`)).toEqual(
      Array(10).fill('409 {"error":"contention"}'),
    );
    registry.script(undefined);
    expect((await ask(gateway)).status).toBe(200);
    expect(posts(registry)).toBe(2);
  });

  test("a connection that breaks is every waiter's error, with an id of its own in each body", async () => {
    const { registry, gateway } = await start({ contexts: { share: true }, retry: { attempts: 1 } });
    const release = hold(registry);
    const asked = Array.from({ length: 5 }, () => ask(gateway));
    await expect.poll(() => spared(gateway)).toMatchObject({ shared: 4 });
    release({ raw: "nonsense\r\n\r\n" });
    const answers = await Promise.all(asked);
    expect(answers.map(({ status }) => status)).toEqual(Array(5).fill(502));
    expect(new Set(answers.map(({ text }) => (JSON.parse(text) as { requestId: string }).requestId)).size).toBe(5);
    expect(posts(registry)).toBe(1);
  });

  test("each waits with its own deadline", async () => {
    const { registry, gateway } = await start({ contexts: { share: true } });
    const release = hold(registry);
    const hasty = ask(gateway, { headers: { "request-timeout": "0.2" } });
    await expect.poll(() => posts(registry)).toBe(1);
    const patient = ask(gateway);
    expect((await hasty).status).toBe(504);
    release();
    expect((await patient).status).toBe(200);
    expect(posts(registry)).toBe(1);
  });

  test("a call ends when all that wait have gone, and not before", async () => {
    const { registry, gateway } = await start({ contexts: { share: true } });
    const release = hold(registry);
    const leaving = [new AbortController(), new AbortController()];
    const gone = leaving.map(({ signal }) =>
      fetch(`${gateway.url}${ACCEPT}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: "{}",
        signal,
      }).catch(() => "gone"),
    );
    await expect.poll(() => spared(gateway)).toMatchObject({ shared: 1 });
    const stays = ask(gateway, { headers: { accept: "*/*", "accept-language": "*" } });
    await expect.poll(() => spared(gateway)).toMatchObject({ shared: 2 });
    leaving[0]!.abort();
    await gone[0];
    leaving[1]!.abort();
    await gone[1];
    expect(registry.calls.aborted).toBe(0);
    release();
    expect((await stays).status).toBe(200);

    hold(registry);
    const last = new AbortController();
    const alone = fetch(`${gateway.url}${ACCEPT}`, { method: "POST", signal: last.signal }).catch(() => "gone");
    await expect.poll(() => posts(registry)).toBe(2);
    last.abort();
    await alone;
    await expect.poll(() => registry.calls.aborted).toBe(1);
  });

  test("a question after a purge waits for no call from before it", async () => {
    const { registry, gateway } = await start({ contexts: { share: true, maxAge: "1m" } });
    const release = hold(registry);
    const before = ask(gateway);
    await expect.poll(() => posts(registry)).toBe(1);
    await purge(gateway, { upstream: "amulet", contract: "00aa" });
    mark(registry, ["cache-control", "max-age=60"], '{"choiceContextData":{"values":{}},"disclosedContracts":[]}');
    const after = await ask(gateway);
    expect(after.headers["cache-status"]).toBe("registry-gateway;fwd=uri-miss");
    release({
      status: 200,
      headers: ["content-type", "application/json", "cache-control", "max-age=60"],
      body: '{"choiceContextData":{},"disclosedContracts":[]}',
    });
    expect((await before).text).not.toBe(after.text);
    // What is kept is what came after the purge.
    expect((await ask(gateway)).text).toBe(after.text);
    expect(posts(registry)).toBe(2);
  });

  test("a client that insists on a fresh answer has a call of its own", async () => {
    const { registry, gateway } = await start({ contexts: { share: true } });
    const release = hold(registry);
    const asked = [ask(gateway)];
    await expect.poll(() => posts(registry)).toBe(1);
    asked.push(ask(gateway, { headers: { "cache-control": "no-cache" } }));
    await expect.poll(() => posts(registry)).toBe(2);
    release();
    expect((await Promise.all(asked)).map(({ status }) => status)).toEqual([200, 200]);
  });

  test("each counts for its client", async () => {
    const clients = { anonymous: "few", tiers: { few: { posts: { requests: 3, per: "1m" } } } };
    const { registry, gateway } = await start({ contexts: { share: true } }, { keys: { clients } });
    const release = hold(registry);
    const asked = Array.from({ length: 5 }, () => ask(gateway));
    await expect.poll(() => spared(gateway)).toMatchObject({ shared: 2 });
    release();
    const statuses = (await Promise.all(asked)).map(({ status }) => status);
    expect(statuses.toSorted((a, b) => a - b)).toEqual([200, 200, 200, 429, 429]);
    expect(posts(registry)).toBe(1);
  });

  test("a gateway that stops answers those that wait, late ones with 503", async () => {
    const { registry, gateway } = await start(
      { contexts: { share: true } },
      { keys: { shutdown: { grace: "0s", timeout: "1s" } } },
    );
    hold(registry);
    const asked = Array.from({ length: 5 }, () => ask(gateway));
    await expect.poll(() => spared(gateway)).toMatchObject({ shared: 4 });
    await gateway.gateway.stop({ grace: false });
    const answers = await Promise.all(asked);
    expect(answers.map(({ status }) => status)).toEqual(Array(5).fill(503));
    expect(answers.every(({ text }) => text.includes("stopping"))).toBe(true);
  });

  test("a registry that hangs is every waiter's 504 at the end of its time", async () => {
    const { registry, gateway } = await start({ contexts: { share: true }, timeout: "400ms", attemptTimeout: "400ms" });
    hold(registry);
    const answers = await Promise.all([ask(gateway), ask(gateway)]);
    expect(answers.map(({ status }) => status)).toEqual([504, 504]);
    expect(answers[0].text).toContain("amulet");
    // It counts as what it is, and not as given up by its clients.
    const { text } = await send(gateway.operations, { path: "/metrics" });
    expect(text).toMatch(/^registry_gateway_upstream_attempts_total\{upstream="amulet",outcome="failure"\} 1$/m);
  });

  test("only what nodes agree on is shared and kept", async () => {
    const nodes = [await startRegistry({}), await startRegistry({}), await startRegistry({})];
    const gateway = await startGateway({
      upstreams: [
        {
          name: "amulet",
          admin: DSO,
          urls: nodes.map(({ url }) => url),
          agreement: { contexts: 2 },
          contexts: { share: true, maxAge: "1m" },
        },
      ],
    });
    for (const [i, node] of nodes.entries()) {
      mark(
        node,
        ["cache-control", "max-age=60"],
        `{"choiceContextData":{"values":{"a":${i}}},"disclosedContracts":[]}`,
      );
    }
    const refused = await Promise.all([ask(gateway), ask(gateway)]);
    expect(refused.map(({ status }) => status)).toEqual([502, 502]);
    const before = nodes.reduce((sum, node) => sum + posts(node), 0);
    for (const node of nodes.slice(1)) mark(node, ["cache-control", "max-age=60"]);
    const answers = await Promise.all([ask(gateway), ask(gateway)]);
    expect(new Set(answers.map(({ text }) => text))).toEqual(
      new Set(['{"choiceContextData":{},"disclosedContracts":[]}']),
    );
    expect(nodes.reduce((sum, node) => sum + posts(node), 0) - before).toBeLessThanOrEqual(3);
    expect((await ask(gateway)).headers["cache-status"]).toMatch(/^registry-gateway;hit;ttl=5\d$/);
  });
});

interface Told {
  readonly authorization: string;
  readonly url: string;
  readonly body: string;
  /** When the registry was asked. */
  readonly at: number;
}

const QUESTIONS = runs(300, 800);

test(`${QUESTIONS} random questions, purges and departures: never another's answer, nor one from before a purge`, async () => {
  const { registry, gateway } = await start({ contexts: { share: true, maxAge: "1m" }, forwardAuthorization: "calls" });
  const random = mulberry32(34);
  const one = <T>(all: readonly T[]): T => all[Math.floor(random() * all.length)]!;
  registry.script(async ({ method, url, headers, body }) => {
    if (method !== "POST") return undefined;
    const values = { authorization: headers.authorization, url, body: body.toString(), at: performance.now() };
    const marks = one(["max-age=60", "max-age=60", "max-age=0", "no-store"]);
    return {
      status: random() < 0.05 ? 409 : 200,
      headers: ["content-type", "application/json", "cache-control", marks],
      body: JSON.stringify({ choiceContextData: { values }, disclosedContracts: [], error: "contention" }),
      delay: random() * 8,
    };
  });
  const ids = ["00aa", "00ab", "00ac"];
  /** By contract: when its last purge began, of those that have been answered. */
  const purged = new Map(ids.map((id) => [id, 0]));
  const wrong: unknown[] = [];
  const counts = { answered: 0, left: 0, purges: 0 };

  async function question(): Promise<void> {
    const id = one(ids);
    const asked = {
      authorization: `Bearer ${one(["x", "y", "z"])}`,
      url: ACCEPT.replace("00aa", id),
      body: one(["{}", "{ }"]),
    };
    const insists = random() < 0.1;
    const notBefore = insists ? performance.now() : purged.get(id)!;
    const leaving = new AbortController();
    if (random() < 0.2) setTimeout(() => leaving.abort(), random() * 8);
    const { authorization, body } = asked;
    const headers = { "content-type": "application/json", authorization, "cache-control": insists ? "no-cache" : "" };
    try {
      const answer = await fetch(gateway.url + asked.url, { method: "POST", headers, body, signal: leaving.signal });
      const told = (await answer.json()) as { choiceContextData: { values: Told } };
      const { at, ...of } = told.choiceContextData.values;
      if (JSON.stringify(of) !== JSON.stringify(asked) || at < notBefore) wrong.push({ asked, of, at, notBefore });
      counts.answered += 1;
    } catch {
      counts.left += 1;
    }
  }

  async function purgeOne(): Promise<void> {
    const id = one(ids);
    const isAll = random() < 0.3;
    const begun = performance.now();
    await purge(gateway, isAll ? { upstream: "amulet" } : { upstream: "amulet", contract: id });
    for (const each of isAll ? ids : [id]) purged.set(each, Math.max(purged.get(each)!, begun));
    counts.purges += 1;
  }

  let left = QUESTIONS;
  async function client(): Promise<void> {
    while (left > 0) {
      left -= 1;
      await (random() < 0.03 ? purgeOne() : question());
    }
  }
  await Promise.all(Array.from({ length: 16 }, client));
  expect(wrong).toEqual([]);
  expect(counts.answered + counts.left + counts.purges).toBe(QUESTIONS);
  expect(Math.min(counts.left, counts.purges)).toBeGreaterThan(0);
  const saved = await spared(gateway);
  expect(saved["shared"]).toBeGreaterThan(10);
  expect(saved["kept"]).toBeGreaterThan(10);
}, 30_000);

test("without it each question is a call, whatever the registry marks", async () => {
  const { registry, gateway } = await start({});
  mark(registry, ["cache-control", "max-age=60"]);
  const answers = await Promise.all([ask(gateway), ask(gateway), ask(gateway)]);
  expect(posts(registry)).toBe(3);
  expect(answers.map(({ headers }) => headers["cache-status"])).toEqual([undefined, undefined, undefined]);
});

describe("with contexts.maxAge", () => {
  test.each(WAYS)("an answer is reused as long as the registry marks it: %s", async (path, body) => {
    const clock = new ManualClock();
    const { registry, gateway } = await start(
      { contexts: { maxAge: "1m" } },
      { clock, cacheControl: "max-age=30", age: "10" },
    );
    const first = await ask(gateway, { path, body });
    expect(first.status).toBe(200);
    expect(first.headers.age).toBe("10");
    clock.advance(5_000);
    const second = await ask(gateway, { path, body });
    expect(second.bytes).toEqual(first.bytes);
    expect(second.headers.age).toBe("15");
    expect(second.headers["cache-control"]).toBe("no-store");
    expect(second.headers["cache-status"]).toBe("registry-gateway;hit;ttl=15");
    expect(posts(registry)).toBe(1);
    clock.advance(14_999);
    await ask(gateway, { path, body });
    expect(posts(registry)).toBe(1);
    clock.advance(1);
    await ask(gateway, { path, body });
    expect(posts(registry)).toBe(2);
    expect(await spared(gateway)).toMatchObject({ kept: 2 });
  });

  test("it is reused no longer than that", async () => {
    const clock = new ManualClock();
    const { registry, gateway } = await start({ contexts: { maxAge: "20s" } }, { clock });
    mark(registry, ["cache-control", "max-age=99999999999999999999"]);
    await ask(gateway);
    clock.advance(19_999);
    await ask(gateway);
    expect(posts(registry)).toBe(1);
    clock.advance(1);
    await ask(gateway);
    expect(posts(registry)).toBe(2);
  });

  test.each([
    ["nothing"],
    ["cache-control: no-store, max-age=60"],
    ["cache-control: private, max-age=60"],
    ['cache-control: private="x", max-age=60'],
    ["cache-control: no-cache, max-age=60"],
    ["cache-control: public"],
    ["cache-control: max-age=0"],
    ["cache-control: max-age=1e99"],
    ["cache-control: max-age=-1"],
    ["cache-control: max-age=60, max-age=0"],
    ["cache-control: max-age=60, s-maxage=0"],
    ["cache-control: s-maxage=60"],
    ["cache-control: max-age=60|age: 60"],
    ["cache-control: max-age=60|age: 99999999999"],
    ["cache-control: max-age=60|date: Thu, 01 Jan 1970 00:00:00 GMT"],
    ["cache-control: max-age=60|vary: *"],
    ["cache-control: max-age=60|vary: Accept, X-Request-Id"],
    ["cache-control: max-age=60|cdn-cache-control: no-store"],
    ["cache-control: max-age=60|cdn-cache-control: max-age=0"],
    ["expires: Fri, 01 Jan 2100 00:00:00 GMT"],
  ])("nothing is kept of an answer with %s", async (text) => {
    const { registry, gateway } = await start({ contexts: { maxAge: "1m" } });
    mark(registry, text === "nothing" ? [] : text.split("|").flatMap((line) => line.split(": ", 2)));
    await ask(gateway);
    await ask(gateway);
    expect(posts(registry)).toBe(2);
  });

  test.each([
    ["cache-control: max-age=60|vary: Origin, Accept-Encoding"],
    ["cdn-cache-control: max-age=60"],
    ["cdn-cache-control: max-age=60|cache-control: no-store"],
    ["registry-gateway-cache-control: max-age=60|cdn-cache-control: no-store"],
  ])("one with %s is", async (text) => {
    const { registry, gateway } = await start({ contexts: { maxAge: "1m" } });
    mark(
      registry,
      text.split("|").flatMap((line) => line.split(": ", 2)),
    );
    await ask(gateway);
    await ask(gateway);
    expect(posts(registry)).toBe(1);
  });

  test("errors, and answers that break the schema, are not kept", async () => {
    const { registry, gateway } = await start({ contexts: { maxAge: "1m" } });
    const headers = ["content-type", "application/json", "cache-control", "max-age=60"];
    for (const answer of [
      { status: 404, headers, body: '{"error":"no"}' },
      { status: 200, headers, body: '{"choiceContextData":{},"disclosedContracts":{}}' },
    ]) {
      registry.calls.clear();
      registry.script(({ method }) => (method === "POST" ? answer : undefined));
      await ask(gateway);
      expect((await ask(gateway)).status).toBe(answer.status);
      expect(posts(registry)).toBe(2);
    }
  });

  test("never across credentials, nor with other bytes", async () => {
    const { registry, gateway } = await start({ contexts: { maxAge: "1m" }, forwardAuthorization: true });
    registry.script(({ method, headers, body }) =>
      method === "POST"
        ? {
            status: 200,
            headers: ["content-type", "application/json", "cache-control", "max-age=60"],
            body: JSON.stringify({
              choiceContextData: { values: { asked: `${headers.authorization} ${body.toString()}` } },
              disclosedContracts: [],
            }),
          }
        : undefined,
    );
    for (const round of [0, 1]) {
      for (const authorization of ["Bearer one", "Bearer two", undefined]) {
        for (const body of ["{}", '{"excludeDebugFields":true}']) {
          const headers = authorization === undefined ? {} : { authorization };
          const { text } = await ask(gateway, { body, headers });
          const { choiceContextData } = JSON.parse(text) as { choiceContextData: { values: { asked: string } } };
          expect(choiceContextData.values.asked, String(round)).toBe(`${authorization} ${body}`);
        }
      }
    }
    expect(posts(registry)).toBe(6);
  });

  test("a client's no-cache forces a fresh one, which the others get", async () => {
    const clock = new ManualClock();
    const { registry, gateway } = await start({ contexts: { maxAge: "1m" } }, { clock });
    mark(registry, ["cache-control", "max-age=60"]);
    await ask(gateway);
    clock.advance(10_000);
    mark(registry, ["cache-control", "max-age=60"], '{"choiceContextData":{"values":{}},"disclosedContracts":[]}');
    const forced = await ask(gateway, { headers: { "cache-control": "no-cache" } });
    expect(forced.headers["cache-status"]).toBe("registry-gateway;fwd=request");
    expect((await ask(gateway, { headers: { pragma: "no-cache" } })).text).toBe(forced.text);
    expect(posts(registry)).toBe(3);
    const next = await ask(gateway);
    expect([next.text, next.headers.age]).toEqual([forced.text, "0"]);
    clock.advance(10_000);
    expect((await ask(gateway, { headers: { "cache-control": "max-age=20" } })).headers.age).toBe("10");
    await ask(gateway, { headers: { "cache-control": "max-age=5" } });
    expect(posts(registry)).toBe(4);
  });

  test.each([
    ["everything", {}, 2],
    ["its registry", { upstream: "amulet" }, 2],
    ["its registry, softly", { upstream: "amulet", soft: true }, 2],
    ["its contract", { upstream: "amulet", contract: "00aa" }, 2],
    ["another contract", { upstream: "amulet", contract: "00ab" }, 1],
    ["the registry's info", { upstream: "amulet", endpoint: "info" }, 1],
  ])("a purge of %s", async (_, body, calls) => {
    const { registry, gateway } = await start({ contexts: { maxAge: "1m" } });
    mark(registry, ["cache-control", "max-age=60"]);
    await ask(gateway);
    await purge(gateway, body);
    await ask(gateway);
    expect(posts(registry)).toBe(calls);
    const noted = gateway.lines.filter(({ msg }) => msg === "operator action");
    expect(noted).toEqual([expect.not.objectContaining({ contract: expect.anything() as unknown })]);
  });

  test("a settlement goes with each of its allocations", async () => {
    const { registry, gateway } = await start({ contexts: { maxAge: "1m" } }, { cacheControl: "max-age=60" });
    const settle = { path: "/registry/allocation/v2/settlement-factory", body: SETTLEMENT };
    expect((await ask(gateway, settle)).status).toBe(200);
    await purge(gateway, { upstream: "amulet", contract: "00cc" });
    await ask(gateway, settle);
    expect(posts(registry)).toBe(1);
    await purge(gateway, { upstream: "amulet", contract: "00bb" });
    await ask(gateway, settle);
    expect(posts(registry)).toBe(2);
  });

  test("an operator who lets nothing be asked has nothing answered either", async () => {
    const { registry, gateway } = await start({ contexts: { maxAge: "1m", share: true } });
    mark(registry, ["cache-control", "max-age=60"]);
    await ask(gateway);
    const body = JSON.stringify({ upstream: "amulet", mode: "cache-only" });
    expect((await send(gateway.operations, { path: "/upstreams", body })).status).toBe(200);
    expect((await ask(gateway)).status).toBe(503);
  });

  test("GET and HEAD are refused as before", async () => {
    const { registry, gateway } = await start({ contexts: { maxAge: "1m", share: true } });
    mark(registry, ["cache-control", "max-age=60"]);
    await ask(gateway);
    for (const method of ["GET", "HEAD"]) {
      expect((await send(gateway.url, { path: ACCEPT, method })).status).toBe(405);
    }
  });

  test("what an upstream was before a reload answers nothing after it", async () => {
    const { registry, gateway } = await start({ contexts: { maxAge: "1m" } });
    mark(registry, ["cache-control", "max-age=60"]);
    await ask(gateway);
    const { config } = gateway.gateway;
    const [upstream] = config.upstreams;
    await gateway.gateway.reload({ ...config, upstreams: [{ ...upstream!, timeout: 9_000 }] });
    expect((await ask(gateway)).status).toBe(200);
    expect(posts(registry)).toBe(2);
  });

  test("what came over a connection that turns out to be out of step is kept no more", async () => {
    const sockets: Socket[] = [];
    let calls = 0;
    const server = await startRawServer((socket) => {
      socket.on("data", (chunk: Buffer) => {
        const isCall = chunk.toString("latin1").startsWith("POST");
        if (isCall) sockets.push(socket);
        if (isCall) calls += 1;
        const text = isCall
          ? '{"choiceContextData":{},"disclosedContracts":[]}'
          : JSON.stringify({ adminId: DSO, supportedApis: {} });
        const head = `content-type: application/json\r\ncache-control: max-age=60\r\ncontent-length: ${text.length}`;
        socket.write(`HTTP/1.1 200 OK\r\n${head}\r\n\r\n${text}`);
      });
    });
    const url = `http://127.0.0.1:${server.port}`;
    const gateway = await startGateway({
      upstreams: [{ name: "amulet", admin: DSO, urls: [url], contexts: { maxAge: "1m" } }],
    });
    await ask(gateway);
    expect((await ask(gateway)).headers["cache-status"]).toMatch(/hit/);
    expect(calls).toBe(1);
    sockets[0]!.write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    await expect.poll(() => gateway.lines.some(({ msg }) => msg === "node answers out of step")).toBe(true);
    expect((await ask(gateway)).headers["cache-status"]).toBe("registry-gateway;fwd=uri-miss");
    expect(calls).toBe(2);
  });

  test("every replica obeys a purge", async () => {
    const registry = await startRegistry({});
    mark(registry, ["cache-control", "max-age=60"]);
    const redis = await startRedis();
    onTestFinished(() => redis.stop());
    const keys = {
      redis: { url: redis.url },
      upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url], contexts: { maxAge: "1m" } }],
    };
    const [one, two] = [await startGateway(keys), await startGateway(keys)];
    const isKept = async (gateway: Gateway) => (await ask(gateway)).headers["cache-status"]?.includes("hit");
    // Each keeps its own, from when it knows the epochs in Redis.
    for (const gateway of [one, two]) await expect.poll(() => isKept(gateway)).toBe(true);
    const before = posts(registry);
    await purge(one, { upstream: "amulet", contract: "00aa" });
    await ask(one);
    expect(posts(registry)).toBe(before + 1);
    await expect.poll(async () => (await ask(two)) && posts(registry)).toBe(before + 2);
  });
});
