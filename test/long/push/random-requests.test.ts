import { createHash } from "node:crypto";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { Pool } from "undici";
import { afterAll, beforeAll, expect, test } from "vitest";
import { mulberry32, type Random } from "../../../src/sandbox/random.ts";
import { type Endpoint, ENDPOINTS, endpointPath } from "../../../src/spec/endpoints.ts";
import { type GatewayUnderTest, startGateway } from "../../support/gateway.ts";
import { runs } from "../../support/thorough.ts";

const PREFIX = "/api/token-standard/v0/registrars";
const NAMES = ["one", "two", "three", "four", "five"] as const;
const AT_ONCE = 16;
/** Contracts of each registry that it answered for before anything is asked at random. */
const LEARNED = 30;

const adminOf = (name: string) => `${name}-registry::1220${createHash("sha256").update(name).digest("hex")}`;
const STRANGER = adminOf("stranger");

interface Received {
  readonly registry: string;
  readonly url: string;
  readonly body: Buffer;
}

/** By request id: every call that reached a registry. */
const received = new Map<string, Received[]>();

/** Numbers that no double holds, keys given twice, needless escapes, odd white space: what survives only as bytes. */
const PECULIAR = [
  "1.0E+2",
  "-0.0",
  "12345678901234567890.10",
  '{"a":1,"a":2}',
  '"\\u0041\\/é\\u00e9"',
  " [\t1 ,\r\n 2 ] ",
];

/** A registry's answer: its own, of that URL and body, and peculiar. */
function answerOf(registry: string, url: string, body: Buffer): string {
  const digest = createHash("sha256").update(url).update(body).digest("hex");
  const own = `"of":"${registry}" ,"to":"${digest}","x":${PECULIAR[digest.charCodeAt(0) % PECULIAR.length]}`;
  if (url.endsWith("/info")) return `{ "adminId":"${adminOf(registry)}","supportedApis":{"v":1}, ${own}}`;
  if (url.includes("/instruments/")) {
    const id = JSON.stringify(decodeURIComponent(url.split("/").at(-1)!));
    return `{${own},"id":${id},"name":"N","symbol":"S", "decimals":10,"supportedApis":{ }}\n`;
  }
  if (url.includes("/instruments")) return `{"instruments":[ ],${own}}`;
  if (url.includes("/metadata/")) return `{${own}}`;
  const context = `{"choiceContextData":{${own}},"disclosedContracts":[ ]}`;
  if (!url.endsWith("-factory")) return context;
  return `{"factoryId":"f","transferKind":"offer", "choiceContext":${context}}`;
}

function createRegistry(registry: string): Server {
  return createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const body = Buffer.concat(chunks);
      const id = String(request.headers["x-request-id"]);
      if (request.method === "POST")
        received.set(id, [...(received.get(id) ?? []), { registry, url: request.url!, body }]);
      response.writeHead(200, { "content-type": "application/json" });
      response.end(answerOf(registry, request.url!, body));
    });
  });
}

let servers: readonly Server[] = [];
let gateway: GatewayUnderTest;
let pool: Pool;

beforeAll(async () => {
  servers = NAMES.map(createRegistry);
  for (const server of servers) await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  gateway = await startGateway({
    routing: { learn: true },
    log: { level: "warn" },
    upstreams: NAMES.map((name, at) => ({
      name,
      admin: adminOf(name),
      urls: [`http://127.0.0.1:${(servers[at]!.address() as AddressInfo).port}`],
    })),
  });
  pool = new Pool(gateway.url, { connections: AT_ONCE });
});
afterAll(async () => {
  await pool.close();
  await gateway.stop();
  for (const server of servers) {
    server.close();
    server.closeAllConnections();
  }
});

interface Sent {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly body: string;
}

interface Case {
  readonly request: Sent;
  /** Where it goes, or the status with which it goes nowhere. */
  readonly goesTo: string | 400 | 404;
  /** Path and query with which the registry is asked. */
  readonly url: string;
}

interface Draw {
  readonly random: Random;
  readonly pick: <T>(from: readonly T[]) => T;
  readonly chance: (share: number) => boolean;
}

function drawFrom(random: Random): Draw {
  return {
    random,
    pick: (from) => from[Math.floor(random() * from.length)]!,
    chance: (share) => random() < share,
  };
}

const learnedId = (registry: string, at: number) => `00aa${registry}-${at}`;

/** Where a factory's body has its admin; the settlement has no such place. */
const PLACES: Partial<Record<Endpoint["operation"], (admin: string) => string>> = {
  transfer_factory: (admin) => `"transfer":{"instrumentId":{"admin":"${admin}" ,"id":"X"}}`,
  transfer_factory_v2: (admin) => `"transfer":{ "sender":{"owner":"o"},"instrumentId":{"admin":"${admin}"}}`,
  allocation_factory: (admin) => `"allocation":{"transferLeg":{"instrumentId":{"id":"X", "admin":"${admin}"}}}`,
  allocation_factory_v2: (admin) => `"allocation":{"admin":"${admin}","transferLegs":[{"instrumentId":"X"}]}`,
};

/** A request to any endpoint: which places name whom falls as it falls, now and then not the same. */
function drawCase(draw: Draw, number: number): Case {
  const { pick, chance } = draw;
  const endpoint = pick(ENDPOINTS);
  const isFactory = endpoint.kind === "factory";
  const target = pick(NAMES);
  const named: string[] = [];
  const name = (share: number): string | undefined => {
    if (!chance(share)) return undefined;
    const who = chance(0.06) ? pick([...NAMES, "stranger"]) : target;
    named.push(who);
    return who;
  };
  const path = name(0.45);
  const header = name(path === undefined && endpoint.kind === "metadata" ? 1 : 0.3);
  const instrument = PLACES[endpoint.operation] === undefined ? undefined : name(0.6);
  const expected = isFactory ? name(0.3) : undefined;
  const isLearned = named.length === 0 && chance(0.8);
  const isSettled = endpoint.operation === "settlement_factory_v2" && isLearned;
  const allocations = isSettled ? drawAllocations(draw, target, number) : [];
  const isOfOne = allocations.every((id) => id.includes(`aa${target}-`));
  const contract = isLearned ? learnedId(target, number % LEARNED) : `00bb ${number}/é`;
  const id = endpoint.operation === "instrument" ? pick(["Amulet", "a b", "x/y", "€", "%41"]) : contract;
  const url = `${endpointPath(endpoint, id)}${endpoint.operation === "instruments" ? `?pageSize=${pick([5, 25, 100])}` : ""}`;
  const body = drawBody(draw, endpoint, [
    ...(instrument === undefined ? [] : [PLACES[endpoint.operation]!(partyOf(instrument))]),
    ...(expected === undefined ? [] : [`"expectedAdmin":"${partyOf(expected)}"`]),
    ...(isSettled ? [`"allocations":${JSON.stringify(allocations)}`] : []),
  ]);
  const aliasOrParty = (who: string) => (chance(0.5) && who !== "stranger" ? who : partyOf(who));
  return {
    request: {
      method: endpoint.kind === "metadata" ? "GET" : "POST",
      path: `${path === undefined ? "" : `${PREFIX}/${pick([encodeURIComponent, String])(aliasOrParty(path))}`}${url}`,
      headers: {
        "x-request-id": `random-${number}`,
        ...(header === undefined ? {} : { "x-instrument-admin": aliasOrParty(header) }),
        ...(body === "" ? {} : { "content-type": "application/json" }),
      },
      body,
    },
    goesTo: destinationOf(new Set(named), {
      learned: isLearned && (endpoint.kind === "context" || (isSettled && isOfOne)) ? target : undefined,
    }),
    url,
  };
}

/** Two of the registry's own, or one that may be of another. */
function drawAllocations({ pick, chance }: Draw, target: string, number: number): readonly string[] {
  const other = chance(0.3) ? pick(NAMES) : target;
  return [learnedId(target, number % LEARNED), learnedId(other, (number * 7) % LEARNED)];
}

function drawBody({ pick, random }: Draw, { kind }: Endpoint, named: readonly string[]): string {
  if (kind === "metadata") return "";
  if (kind === "context") return pick(["", "{}", ` {"meta":{"a":"b"},"x":${pick(PECULIAR)}}`]);
  const members = [...named, `"y":${pick(PECULIAR)}, "pad":"${"p".repeat(Math.floor(random() ** 6 * 30_000))}"`];
  return ` {"x":${pick(PECULIAR)},"choiceArguments" :{${members.join(" ,")}}}\n`;
}

const partyOf = (who: string) => (who === "stranger" ? STRANGER : adminOf(who));

function destinationOf(named: ReadonlySet<string>, { learned }: { learned: string | undefined }): Case["goesTo"] {
  if (named.size > 1) return 400;
  const [only] = named;
  if (only === "stranger") return 404;
  return only ?? learned ?? 400;
}

async function ask({ method, path, headers, body }: Sent): Promise<{ status: number; text: string; code: unknown }> {
  const answer = await pool.request({ method, path, headers, ...(body === "" ? {} : { body }) });
  const text = await answer.body.text();
  return { status: answer.statusCode, text, code: answer.headers["registry-gateway-error"] };
}

/** A busy machine may refuse for a moment: what it refused reached no registry, and may be asked again. */
async function askUntilAnswered(request: Sent): Promise<{ status: number; text: string }> {
  for (;;) {
    const answer = await ask(request);
    if (answer.code !== "overloaded") return answer;
    expect(received.has(request.headers["x-request-id"]!)).toBe(false);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function check({ request, goesTo, url }: Case): Promise<void> {
  const what = JSON.stringify(request).slice(0, 600);
  const { status, text } = await askUntilAnswered(request);
  const id = request.headers["x-request-id"]!;
  const calls = received.get(id) ?? [];
  received.delete(id);
  if (typeof goesTo === "number") {
    expect([status, calls], what).toEqual([goesTo, []]);
    expect(text, what).toMatch(/^\{"error":"registry-gateway: /);
    return;
  }
  expect([status, text], what).toEqual([200, answerOf(goesTo, url, Buffer.from(request.body))]);
  if (request.method === "GET") return;
  expect(
    calls.map((call) => `${call.registry} ${call.url}`),
    what,
  ).toEqual([`${goesTo} ${url}`]);
  expect(calls[0]!.body.toString(), what).toBe(request.body);
}

test("requests of both versions, at random, over five registries: none at a wrong one, and each byte as it was", async () => {
  for (const name of NAMES) {
    for (let at = 0; at < LEARNED; at += 1) {
      const path = `${PREFIX}/${name}/registry/allocations/v${1 + (at % 2)}/${learnedId(name, at)}/choice-contexts/cancel`;
      const headers = { "x-request-id": `learn-${name}-${at}` };
      expect((await askUntilAnswered({ method: "POST", path, headers, body: "" })).status).toBe(200);
    }
  }
  const seed = Math.floor(Math.random() * 2 ** 32);
  const draw = drawFrom(mulberry32(seed));
  // Of five hundred, one run in some dozens had nobody ask for a registry that is not there.
  const count = runs(1_500, 20_000);
  const went = new Map<string, number>();
  let number = 0;
  const client = async () => {
    while (number < count) {
      number += 1;
      const each = drawCase(draw, number);
      await check(each);
      const where = typeof each.goesTo === "number" ? `refused ${each.goesTo}` : each.goesTo;
      went.set(where, (went.get(where) ?? 0) + 1);
    }
  };
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, client));
  } catch (error) {
    throw new Error(`seed ${seed}`, { cause: error });
  }
  expect([...went.values()].reduce((sum, each) => sum + each, 0)).toBe(count);
  // All of them are asked, and enough is refused for that to mean something.
  for (const name of NAMES) expect(went.get(name)).toBeGreaterThan(count / 20);
  expect(went.get("refused 400")).toBeGreaterThan(count / 50);
  expect(went.get("refused 404")).toBeGreaterThan(0);
  expect(received.size).toBe(NAMES.length * LEARNED);
});
