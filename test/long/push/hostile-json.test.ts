import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { Agent, type Dispatcher } from "undici";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { NOTHING_KEPT, type GatewayUnderTest, startGateway } from "../../support/gateway.ts";
import { JSON_CASES, type JsonCase } from "../../support/json-cases.ts";
import { ShiftedClock } from "../../support/shifted-clock.ts";
import { shareOf } from "../../support/thorough.ts";

/** Endpoints that are alike but for their names, so that one of them may have a case for all: the next has the next. */
type Endpoints = readonly string[];

const V1 = "/registry/transfer-instruction/v1";
const POSTS: readonly Endpoints[] = [
  [`${V1}/transfer-factory`],
  ["/registry/allocation-instruction/v1/allocation-factory"],
  [`${V1}/00aa/choice-contexts/accept`],
  [
    `${V1}/00aa/choice-contexts/reject`,
    `${V1}/00aa/choice-contexts/withdraw`,
    "/registry/allocations/v1/00aa/choice-contexts/execute-transfer",
    "/registry/allocations/v1/00aa/choice-contexts/withdraw",
    "/registry/allocations/v1/00aa/choice-contexts/cancel",
  ],
  ["/registry/transfer-instruction/v2/transfer-factory"],
  ["/registry/allocation-instruction/v2/allocation-factory", "/registry/allocation/v2/settlement-factory"],
  [
    "/registry/allocations/v2/00aa/choice-contexts/withdraw",
    "/registry/allocations/v2/00aa/choice-contexts/cancel",
    "/registry/transfer-instruction/v2/00aa/choice-contexts/accept",
  ],
];
const GETS = [
  "/registry/metadata/v1/instruments",
  "/registry/metadata/v1/instruments?pageSize=2&pageToken=x",
  "/registry/metadata/v1/instruments/A",
  "/registry/drafts/v1/x",
];
const INFO = "/registry/metadata/v1/info";

interface Received {
  readonly path: string;
  readonly body: Buffer;
}

interface Answer {
  readonly status: number;
  readonly body: Buffer;
}

/** What the registry answers: to `path`, below the part of its URL that tells registries apart. */
type Script = (registry: string, path: string) => { readonly status?: number; readonly body: Buffer };

/** One server that is as many registries as there are first segments of paths. */
async function startRegistries(script: Script): Promise<{ server: Server; url: string; received: Received[] }> {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    void read(request).then((body) => {
      const [, registry = "", path = ""] = /^\/([^/]+)(.*)$/.exec(request.url!) ?? [];
      received.push({ path, body });
      const answer = script(registry, path);
      response.writeHead(answer.status ?? 200, { "content-type": "application/json" });
      response.end(answer.body);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received };
}

async function read(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks);
}

const agent = new Agent({ connections: 16, bodyTimeout: 20_000, headersTimeout: 20_000 });

async function ask(url: string, path: string, body?: Buffer): Promise<Answer> {
  const options: Dispatcher.RequestOptions =
    body === undefined
      ? { origin: url, path, method: "GET" }
      : { origin: url, path, method: "POST", body, headers: { "content-type": "application/json" } };
  const answer = await agent.request(options);
  return { status: answer.statusCode, body: Buffer.from(await answer.body.arrayBuffer()) };
}

/** Runs `work` for all of `items`, several at a time. */
async function forEach<T>(items: readonly T[], work: (item: T, at: number) => Promise<void>): Promise<void> {
  const queue = items.entries();
  async function next(): Promise<void> {
    for (const [at, item] of queue) await work(item, at);
  }
  await Promise.all(Array.from({ length: 8 }, next));
}

/** Answers of our own are one JSON object with a string, whatever was sent to bring them about. */
function isOwnError({ body }: Answer): boolean {
  const error = (JSON.parse(body.toString()) as { error?: unknown }).error;
  return typeof error === "string" && error.startsWith("registry-gateway: ");
}

/** What is wrong with an answer that is neither passed on whole nor a refusal of ours with the one status it may have. */
function oddity(name: string, { status, body }: Answer, passes: boolean, refusal: number): string | undefined {
  if (status === 200) return passes ? undefined : `${name}: altered, or passed on although it is not JSON`;
  return status === refusal && isOwnError({ status, body }) ? undefined : `${name}: ${status} ${body.toString()}`;
}

/** What is not JSON is refused before anything is made of it. */
const READABLE = JSON_CASES.filter(({ name, isJson }) => isJson !== false || name.includes("lone"));

const PREFIX = "/api/token-standard/v0/registrars";

const infoOf = (registry: string): Buffer =>
  Buffer.from(JSON.stringify({ adminId: `${registry}::1220aa`, supportedApis: { x: 1 } }));

afterAll(() => agent.close());

describe("as request bodies", () => {
  let gateway: GatewayUnderTest;
  let registries: Awaited<ReturnType<typeof startRegistries>>;
  beforeAll(async () => {
    registries = await startRegistries((registry, path) => ({
      body: path === INFO ? infoOf(registry) : Buffer.from("{}"),
    }));
    gateway = await startGateway({ upstreams: [{ name: "sole", urls: [`${registries.url}/sole`] }] });
  });
  afterAll(async () => {
    await gateway.stop();
    registries.server.close();
  });

  test.each(POSTS.map((paths, place) => ({ paths, place })))(
    "$paths.0 passes each on whole, or says what is wrong",
    async ({ paths, place }) => {
      const odd: (string | undefined)[] = [];
      registries.received.length = 0;
      await forEach(
        shareOf(
          JSON_CASES.filter(({ bytes }) => bytes.length > 0),
          place,
          POSTS.length,
        ),
        async ({ name, bytes, isJson }, at) => {
          const path = paths[at % paths.length]!;
          const isChecked = !isPassedThrough(path) || path.endsWith("-factory");
          const answer = await ask(gateway.url, path, bytes);
          const arrived = registries.received.some((each) => each.path === path && each.body.equals(bytes));
          odd.push(oddity(name, answer, arrived && !(isJson === false && isChecked), 400));
        },
      );
      expect(odd.filter(Boolean)).toEqual([]);
    },
  );
});

describe("as answers of a registry", () => {
  const clock = new ShiftedClock();
  /** As many registries as take no harm from each other's cases; each has one case after the other. */
  const ROUNDS = 6;
  const REGISTRIES = [...Array(Math.ceil(JSON_CASES.length / ROUNDS)).keys()];
  let cases: readonly JsonCase[] = [];
  let round = 0;
  const caseOf = (registry: number): JsonCase | undefined => cases[round * REGISTRIES.length + registry];
  let isInfoHostile = false;
  let status = 200;
  let gateway: GatewayUnderTest;
  let registries: Awaited<ReturnType<typeof startRegistries>>;
  beforeAll(async () => {
    registries = await startRegistries((registry, path) => {
      if (path === INFO && !isInfoHostile) return { body: infoOf(registry) };
      // Before the first test, and for what a registry is asked besides, any will do.
      const { bytes } = caseOf(Number(registry.slice(1))) ?? JSON_CASES[0]!;
      return { body: bytes, status };
    });
    gateway = await startGateway(
      {
        routing: { plain: "c0" },
        upstreams: REGISTRIES.map((at) => ({
          name: `c${at}`,
          admin: `c${at}::1220aa`,
          urls: [`${registries.url}/c${at}`],
          cache: { warmUp: true, ttl: { info: "0s" } },
          // Longer than the clock is moved at a time: a question for the info that runs meanwhile is answered.
          timeout: "10m",
          attemptTimeout: "10m",
        })),
      },
      { clock },
    );
  });
  afterAll(async () => {
    await gateway.stop();
    registries.server.close();
  });

  interface Answered {
    readonly paths: Endpoints;
    readonly body?: Buffer;
    /** Which cases: {@link shareOf}. */
    readonly share: readonly JsonCase[];
  }

  /** Has every case of the share answered to one of `paths`, by several registries at once. */
  async function forEachCase(
    { paths, body, share }: Answered,
    look: (each: JsonCase, answer: Answer, path: string) => string | undefined,
  ): Promise<void> {
    // What an earlier test's good pages brought would rightly be served in the place of an answer that is not JSON.
    const headers = { "content-type": "application/json" };
    await fetch(`${gateway.operations}/purge`, { method: "POST", headers, body: "{}" });
    cases = share;
    const odd: (string | undefined)[] = [];
    for (round = 0; round * REGISTRIES.length < share.length; round++) {
      await forEach(REGISTRIES, async (at) => {
        const each = caseOf(at);
        const path = paths[at % paths.length]!;
        if (each !== undefined) odd.push(look(each, await ask(gateway.url, `${PREFIX}/c${at}${path}`, body), path));
      });
      // What failed is forgotten.
      clock.advance(60_000);
    }
    round = 0;
    expect(odd).toHaveLength(share.length);
    expect(odd.filter(Boolean)).toEqual([]);
  }

  const askEach = (answered: Answered): Promise<void> =>
    forEachCase(answered, ({ name, bytes, isJson }, answer, path) => {
      const mayPass = isJson !== false || isPassedThrough(path);
      return oddity(name, answer, mayPass && answer.body.equals(bytes), 502);
    });

  const request = Buffer.from('{"choiceArguments":{}}');
  test.each(GETS.map((path, place) => ({ path, place })))(
    "GET $path passes each on whole, or is 502",
    ({ path, place }) => askEach({ paths: [path], share: shareOf(JSON_CASES, place, GETS.length) }),
  );
  test.each(POSTS.map((paths, place) => ({ paths, place })))(
    "POST $paths.0 passes each on whole, or is 502",
    ({ paths, place }) => askEach({ paths, body: request, share: shareOf(JSON_CASES, place, POSTS.length) }),
  );

  test.each([400, 404])("a %i with one keeps its status", async (code) => {
    status = code;
    await forEachCase(
      { paths: POSTS[0]!, body: request, share: shareOf(JSON_CASES, code === 400 ? 0 : 1, 2) },
      ({ name, bytes }, answer) => {
        const isHtml = code === 404 && name === "n_structure_html";
        const isOwn = name === "api_error_object" ? answer.body.equals(bytes) : isOwnError(answer);
        const isWell = answer.status === (isHtml ? 502 : code) && isOwn;
        return isWell ? undefined : `${name}: ${answer.status} ${answer.body.toString()}`;
      },
    );
    status = 200;
  });

  test(`GET ${INFO} passes each on whole, or is 502`, async () => {
    isInfoHostile = true;
    await askEach({ paths: [INFO], share: JSON_CASES });
  });
});

describe("as answers of one of several registries", () => {
  const clock = new ShiftedClock();
  let hostile: JsonCase | undefined;
  let gateway: GatewayUnderTest;
  let registries: Awaited<ReturnType<typeof startRegistries>>;
  beforeAll(async () => {
    registries = await startRegistries((registry, path) => {
      if (registry === "odd" && hostile !== undefined && path !== INFO) return { body: hostile.bytes };
      if (path === INFO) return { body: infoOf(registry) };
      const good = { instruments: [{ id: `${registry}-1`, name: "N", symbol: "S", decimals: 1, supportedApis: {} }] };
      return path.includes("/instruments/")
        ? { status: 404, body: Buffer.from('{"error":"no"}') }
        : { body: Buffer.from(JSON.stringify(good)) };
    });
    gateway = await startGateway(
      {
        routing: { learn: true, probe: true },
        ...NOTHING_KEPT,
        upstreams: ["good", "odd"].map((name) => ({
          name,
          admin: `${name}::1220aa`,
          urls: [`${registries.url}/${name}`],
        })),
      },
      { clock },
    );
  });
  afterAll(async () => {
    await gateway.stop();
    registries.server.close();
  });

  const MERGED = [
    "/registry/metadata/v1/instruments",
    "/registry/metadata/v1/instruments?partial=true",
    "/registry/metadata/v1/instruments/A",
    "/registry/metadata/v1/instruments/A?partial=true",
    "/catalog/v1/instruments",
    "/catalog/v1/registries",
  ];
  test.each(MERGED.map((path, place) => ({ path, place })))("GET $path is JSON, or 404, or 502", async (asked) => {
    const { path, place } = asked;
    const odd: string[] = [];
    for (const each of shareOf(READABLE, place, MERGED.length)) {
      hostile = each;
      const answer = await ask(gateway.url, path);
      if (![200, 404, 502].includes(answer.status))
        odd.push(`${each.name}: ${answer.status} ${answer.body.toString()}`);
      if (answer.status === 200) JSON.parse(answer.body.toString());
      else if (!isOwnError(answer)) odd.push(`${each.name}: ${answer.body.toString()}`);
      clock.advance(60_000);
    }
    expect(odd).toEqual([]);
  });

  test("the catalogue reads what it can of a listing made of one, and lists the other registry all the same", async () => {
    for (const each of JSON_CASES.filter(({ name }) => /^api_(page|instrument)|lonely|lone_|BOM/.test(name))) {
      hostile = each;
      // Nothing known may be used any more: the next to ask has all read anew.
      expect((await ask(gateway.operations, "/purge", Buffer.from("{}"))).status).toBe(200);
      const first = async (): Promise<string | undefined> => {
        const answer = await ask(gateway.url, "/catalog/v1/instruments");
        return (JSON.parse(answer.body.toString()) as { instruments?: { admin: string }[] }).instruments?.[0]?.admin;
      };
      await expect.poll(first, { message: each.name }).toBe("good::1220aa");
      clock.advance(60_000);
    }
  });

  test("POST where all are asked which knows a contract is never 500", async () => {
    const odd: string[] = [];
    for (const each of shareOf(READABLE, 0, 3)) {
      hostile = each;
      const answer = await ask(gateway.url, POSTS[2]![0]!, Buffer.from("{}"));
      if (![200, 400, 502].includes(answer.status))
        odd.push(`${each.name}: ${answer.status} ${answer.body.toString()}`);
      clock.advance(60_000);
    }
    expect(odd).toEqual([]);
  });
});

function isPassedThrough(path: string): boolean {
  return path.includes("/drafts/") || path.includes("/v2/");
}
