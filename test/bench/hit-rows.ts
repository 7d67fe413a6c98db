import { DSO } from "./bodies.ts";
import type { CannedAnswer } from "./canned-process.ts";
import { capture, type HttpRequest, requestText } from "./client.ts";
import { compare } from "./comparison.ts";
import { startGateway } from "./gateway.ts";
import { findNginx, startNginx } from "./nginx.ts";
import { startBare } from "./node-servers.ts";
import { gatewayBefore, startRegistry } from "./registry.ts";
import { type BenchContext, cpuResults, type Limits, newFolder, type Result, type Row } from "./row.ts";
import type { BenchServer } from "./server.ts";
import { findVarnish, startVarnish } from "./varnish.ts";

export const REGISTRAR = `/api/token-standard/v0/registrars/${encodeURIComponent(DSO)}`;
export const PAGE_PATH = `${REGISTRAR}/registry/metadata/v1/instruments`;
const INSTRUMENT_PATH = `${PAGE_PATH}/Amulet`;

const REQUESTS = 2_500;
export const CONNECTIONS = 32;

interface HitRow {
  readonly name: string;
  readonly what: string;
  readonly path: string;
  readonly method?: "GET" | "HEAD";
  /** Asks with the ETag that the client knows. */
  readonly conditional?: boolean;
  readonly connections?: number;
  readonly limits?: Limits;
}

/** What a memory hit may cost, by what it is compared with. */
const LIMITS: Limits = {
  "bare node:http": { bound: 1 },
  Varnish: { bound: 1 },
  "nginx proxy_cache": { bound: 1.2 },
};

/** What one may cost that comes alone: there is nothing to answer it together with. */
const LONE_LIMITS: Limits = { "bare node:http": { bound: 1.02 } };

const ROWS: readonly HitRow[] = [
  { name: "hit-page", what: "memory hit, page of 8.9 kB", path: PAGE_PATH, limits: LIMITS },
  {
    name: "hit-lone",
    what: "the same, one connection",
    path: PAGE_PATH,
    connections: 1,
    limits: LONE_LIMITS,
  },
  {
    name: "hit-instrument",
    what: "memory hit, instrument of 0.4 kB",
    path: INSTRUMENT_PATH,
    limits: LIMITS,
  },
  { name: "not-modified", what: "304 to If-None-Match", path: PAGE_PATH, conditional: true },
  { name: "head", what: "HEAD of the page", path: PAGE_PATH, method: "HEAD" },
];

/** Fresh memory hits, against servers that send the same bytes under the same header fields. */
export const hitRows: readonly Row[] = ROWS.map((row) => ({
  name: row.name,
  run: (context) => runHitRow(context, row),
}));

async function runHitRow(context: BenchContext, row: HitRow): Promise<Result[]> {
  const registry = await context.started(startRegistry());
  const gateway = await context.started(
    startGateway({ config: gatewayBefore([registry]), folder: newFolder(context) }),
  );
  const full = await captureHit(gateway, { method: "GET", path: row.path });
  const request = requestOf(row, full);
  const answer = await capture(gateway.port, request);
  const [bare, caches] = await Promise.all([context.started(startBare(answer)), startCaches(context, full)]);

  const status = row.conditional === true ? 304 : 200;
  const bodyLength = status === 304 || row.method === "HEAD" ? 0 : Buffer.from(full.body, "base64").length;
  const plan = {
    connections: row.connections ?? CONNECTIONS,
    count: REQUESTS,
    request: requestText(request),
    expected: { status, bodyLength },
  };
  const servers = [gateway, bare, ...caches];
  const contestants = servers.map((server) => ({ server, plan }));
  const measured = await compare(context.load, contestants, context);
  return cpuResults(measured, row.what, servers, row.limits ?? {});
}

/** The second answer: the first was a miss. */
async function captureHit(gateway: BenchServer, request: HttpRequest): Promise<CannedAnswer> {
  await capture(gateway.port, request);
  const answer = await capture(gateway.port, request);
  if (!valueOf(answer, "cache-status")?.includes("hit")) throw new Error(`no hit: ${answer.fields.join(" ")}`);
  return answer;
}

function requestOf({ method = "GET", path, conditional }: HitRow, full: CannedAnswer): HttpRequest {
  return { method, path, fields: conditional === true ? ["if-none-match", valueOf(full, "etag")!] : [] };
}

function valueOf({ fields }: CannedAnswer, name: string): string | undefined {
  const at = fields.findIndex((field, i) => i % 2 === 0 && field.toLowerCase() === name);
  return at === -1 ? undefined : fields[at + 1];
}

/** The installed caches, before an origin that sends what the gateway sends. */
async function startCaches(context: BenchContext, answer: CannedAnswer): Promise<BenchServer[]> {
  const { port } = await context.started(startBare(answer));
  const caches: Promise<BenchServer>[] = [];
  if (findVarnish() === undefined) context.note("Varnish is not installed (Debian: varnish): left out");
  else caches.push(context.started(startVarnish(port, newFolder(context))));
  if (findNginx() === undefined) context.note("nginx is not installed (Debian: nginx-light): left out");
  else caches.push(context.started(startNginx({ upstream: port, caches: true, folder: newFolder(context) })));
  return Promise.all(caches);
}
