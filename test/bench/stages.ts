import { mkdirSync } from "node:fs";
import { keyLine, newKey, writeKeys } from "../support/keys.ts";
import { type GatewayServer, type Server, startGateway, startRedisServer } from "../support/servers.ts";
import { DSO, FACTORY_ANSWER, FACTORY_REQUEST, PAGE } from "./bodies.ts";
import { AGENTS, type Asked, capture, requestText } from "./load.ts";
import type { LoadPlan } from "./load-process.ts";
import { startNginx, startNode, startVarnish } from "./servers.ts";

/** A server and the load that it gets. */
export interface Contestant {
  readonly server: Server;
  readonly plan: Omit<LoadPlan, "port">;
}

/** What is compared: the first contestant with each of the others. */
export interface Comparison {
  readonly what: string;
  readonly contestants: readonly Contestant[];
  /** What the ratio may be at most, by the other's name. */
  readonly marks?: Readonly<Record<string, number>>;
  /** Each round asks for other things, and uses up so many numbers. */
  readonly numbers?: number;
  /** The least share of heads that hold what they may; below it nothing was measured. */
  readonly holding?: number;
}

/** What a stage works with. */
export interface Scene {
  /** Registers a server to be stopped when the stage is over. */
  started<Started extends Server>(server: Promise<Started>): Promise<Started>;
  /** A new folder for a server's files. */
  folder(): string;
  /** Another program of the gateway, to be compared with this one: the built one, or another checkout's. */
  readonly beside: string | undefined;
}

/** Starts servers together; returns what is compared of them. */
export type Stage = (scene: Scene) => Promise<readonly Comparison[]>;

const BASE = `/api/token-standard/v0/registrars/${encodeURIComponent(DSO)}`;
const LISTING = "/registry/metadata/v1/instruments";
const FACTORY = "/registry/transfer-instruction/v1/transfer-factory";
const BARE = "bare node:http";
const STOCK = "stock @fastify/http-proxy";

/** Nothing expires while the bench runs. */
const LASTING = { ttl: { info: "1h", instruments: "1h", instrument: "1h" } };
const OF_PAGE = { status: 200, bodyLength: Buffer.byteLength(PAGE) };
const HIT = { connections: 32, count: 2_500, expected: OF_PAGE };
const OF_FACTORY = { status: 200, bodyLength: Buffer.byteLength(FACTORY_ANSWER) };
const POST = { connections: 16, count: 1_200, expected: OF_FACTORY };
const CLIENTS = 100;
const WAVES = 12;
/** Milliseconds that the registry of the joined misses takes: long enough for all clients to come in between. */
const SLOW = 20;
/** Pages in Redis that are asked for in turn, before a memory that holds a few of them. */
const PAGES = 300;

interface GatewayKeys {
  readonly name?: string;
  readonly program?: string;
  /** Further keys of the upstream, and of the configuration. */
  readonly upstream?: object;
  readonly keys?: object;
}

function gateway(scene: Scene, nodes: readonly Server[], more: GatewayKeys = {}): Promise<GatewayServer> {
  const { upstream, keys, ...others } = more;
  const urls = nodes.map(({ port }) => `http://127.0.0.1:${port}`);
  const config = { cache: LASTING, upstreams: [{ name: "amulet", admin: DSO, urls, ...upstream }], ...keys };
  return scene.started(startGateway({ config, folder: scene.folder(), ...others }));
}

/** The gateway from its sources, and the other program where there is one. */
async function gateways(scene: Scene, nodes: readonly Server[]): Promise<readonly GatewayServer[]> {
  const source = await gateway(scene, nodes);
  const program = scene.beside;
  return program === undefined
    ? [source]
    : [source, await gateway(scene, nodes, { name: "the other program", program })];
}

function registry(scene: Scene, delay = 0): Promise<Server> {
  return scene.started(startNode({ kind: "registry", delay }));
}

function stockProxy(scene: Scene, { port }: Server): Promise<Server> {
  return scene.started(startNode({ kind: "http-proxy", upstream: `http://127.0.0.1:${port}` }));
}

/** The second answer: the first was a miss. */
async function hitOf({ port }: Server, asked: Asked) {
  await capture(port, asked);
  const answer = await capture(port, asked);
  if (!answer.fields.join(" ").includes(";hit")) throw new Error(`no hit: ${answer.status} ${answer.fields.join(" ")}`);
  return answer;
}

const LISTED: Asked = { path: BASE + LISTING };

/** Heads that differ from request to request, as those of many wallets do. */
const DIFFERING: readonly string[] = AGENTS.map((agent) =>
  requestText({ ...LISTED, fields: ["traceparent", `00-${"4bf92f35".repeat(4)}-00f067aa{n}-01`] }, agent),
);

/** Fresh hits, beside servers that send the same bytes under the same fields. */
async function hits(scene: Scene): Promise<readonly Comparison[]> {
  const ours = await gateways(scene, [await registry(scene)]);
  const [full] = await Promise.all(ours.map((each) => hitOf(each, LISTED)));
  const { fields } = full!;
  const etag = fields[fields.findIndex((field) => field.toLowerCase() === "etag") + 1]!;
  const conditional: Asked = { ...LISTED, fields: ["if-none-match", etag] };
  const unchanged = await capture(ours[0]!.port, conditional);
  const bare = await scene.started(startNode({ kind: "bare", answer: full! }));
  const bareUnchanged = await scene.started(startNode({ kind: "bare", answer: unchanged }));
  const upstream = bare.port;
  const nginx = await scene.started(startNginx({ upstream, folder: scene.folder(), caches: true }));
  const varnish = await scene.started(startVarnish({ upstream, folder: scene.folder() }));
  const among = (least: Server, plan: Contestant["plan"]) =>
    [...ours, least, nginx, varnish].map((server) => ({ server, plan }));
  const notModified = { expected: { status: 304, bodyLength: 0 }, requests: [requestText(conditional)] };
  const marks = { [BARE]: 1.25 };
  return [
    { what: "memory hit, 8.9 kB", contestants: among(bare, { ...HIT, requests: [requestText(LISTED)] }), marks },
    {
      what: "the same, heads differ",
      contestants: among(bare, { ...HIT, requests: DIFFERING, from: 10_000_000 }),
      marks,
    },
    { what: "304 to If-None-Match", contestants: among(bareUnchanged, { ...HIT, ...notModified }) },
  ];
}

async function clients(scene: Scene): Promise<readonly Comparison[]> {
  const node = await registry(scene);
  const key = newKey();
  const folder = scene.folder();
  mkdirSync(folder, { recursive: true });
  const keysFile = writeKeys(folder, [keyLine(key, "wallet", "partner")]);
  const tiers = { partner: { requests: "10000000/1m", concurrency: 100, upstreams: ["amulet"] } };
  const name = "the same without";
  const knowing = await gateway(scene, [node], { keys: { clients: { anonymous: false, keysFile, tiers } } });
  const plain = await gateway(scene, [node], { name });
  const asked: Asked = { ...LISTED, fields: ["x-api-key", key] };
  await Promise.all([knowing, plain].map((each) => hitOf(each, asked)));
  const contestants = [knowing, plain].map((server) => ({ server, plan: { ...HIT, requests: [requestText(asked)] } }));
  return [{ what: "memory hit with a key and a tier", contestants, marks: { [name]: 1.3 } }];
}

async function redis(scene: Scene): Promise<readonly Comparison[]> {
  const node = await registry(scene);
  const { url } = await scene.started(startRedisServer(scene.folder()));
  const memory = { cache: { ...LASTING, memory: "128KiB" } };
  const forgetting = await gateway(scene, [node], { keys: { redis: { url }, ...memory } });
  const keeping = await gateway(scene, [node], { name: "memory hit", keys: { redis: { url } } });
  await hitOf(keeping, LISTED);
  const numbered = (n: number | string): Asked => ({ path: `${BASE + LISTING}?pageSize=${n}` });
  for (let n = 1; n <= PAGES; n += 1) await capture(forgetting.port, numbered(n));
  const shared = { requests: [requestText(numbered("{n}"))], from: 1, period: PAGES, head: "detail=redis" };
  const contestants = [
    { server: forgetting, plan: { ...HIT, ...shared } },
    { server: keeping, plan: { ...HIT, requests: [requestText(LISTED)] } },
  ];
  return [{ what: "Redis hit, 8.9 kB", contestants, marks: { "memory hit": 3.5 }, holding: 0.95 }];
}

/** A hundred clients ask for the same cold page at once, then for the next. */
async function misses(scene: Scene): Promise<readonly Comparison[]> {
  const node = await registry(scene, SLOW);
  const ours = await gateway(scene, [node]);
  const varnish = await scene.started(startVarnish({ upstream: node.port, folder: scene.folder() }));
  const contestants = [ours, await stockProxy(scene, node), varnish].map((server) => {
    const requests = [requestText({ path: `${server === ours ? BASE : ""}${LISTING}?pageSize={n}` })];
    return { server, plan: { ...HIT, connections: CLIENTS, count: CLIENTS * WAVES, inWaves: true, requests } };
  });
  return [{ what: "miss that 100 clients join, for each", contestants, numbers: WAVES, marks: { [STOCK]: 0.85 } }];
}

const posted = (base: string) => ({
  ...POST,
  requests: [requestText({ path: base + FACTORY, body: FACTORY_REQUEST })],
});

async function posts(scene: Scene): Promise<readonly Comparison[]> {
  const node = await registry(scene);
  const ours = await gateways(scene, [node]);
  const nginx = await scene.started(startNginx({ upstream: node.port, folder: scene.folder(), caches: false }));
  const others = [await stockProxy(scene, node), nginx];
  const contestants = [...ours, ...others].map((server) => ({
    server,
    plan: posted(others.includes(server) ? "" : BASE),
  }));
  return [{ what: "POST factory, 1.5 kB in, 13 kB out", contestants, marks: { [STOCK]: 0.85 } }];
}

async function agreement(scene: Scene): Promise<readonly Comparison[]> {
  const nodes = [await registry(scene), await registry(scene)];
  const name = "one node's word";
  const agreed = await gateway(scene, nodes, { upstream: { agreement: 2 } });
  const servers = [agreed, await gateway(scene, nodes, { name })];
  const contestants = servers.map((server) => ({ server, plan: posted(BASE) }));
  return [{ what: "POST factory that two nodes agree on", contestants, marks: { [name]: 2.4 } }];
}

/** In the order of the table. */
export const STAGES: Readonly<Record<string, Stage>> = {
  hit: hits,
  clients,
  redis,
  miss: misses,
  post: posts,
  agreement,
};
