import { warningOfEnd } from "./check-certificates.ts";
import { checkDiscovery } from "./check-discovery.ts";
import { nodeAddressOf } from "../config/urls.ts";
import type { AnswerContent } from "../bodies/answer.ts";
import { BodyReader } from "../bodies/body-reader.ts";
import { type Clock, type Duration, systemClock, withReply } from "../clock.ts";
import type { Config, RedisConfig, UpstreamConfig } from "../config/schema.ts";
import { FileWatcher } from "../config/watched-files.ts";
import { localCoordinator } from "../sharing/alone.ts";
import { createClient, readFault, type RedisClient, type RedisFault } from "../sharing/redis/client.ts";
import { defineScript, runScript } from "../sharing/redis/scripts.ts";
import { silentObserver } from "../upstream/observer.ts";
import { heldAnswers } from "../upstream/parts.ts";
import { Upstream } from "../upstream/upstream.ts";

/** Page sizes to try, the largest first: servers clamp, ignore or refuse what is too large for them. */
const PAGE_SIZES = [1000, 100, 25];

interface NodeReport {
  readonly admin: string | undefined;
  /** It proved its admin and lists its instruments. */
  readonly isWell: boolean;
  readonly line: string;
}

/**
 * `check --live`: asks each node of each upstream who it is, how fast it answers and what page size it takes, logs in to
 * Redis, and looks what discovery would find.
 *
 * @param print called with each line
 * @returns whether Redis is well and every node proved its admin and lists its instruments
 */
export async function checkLive(config: Config, print: (line: string) => void): Promise<boolean> {
  const redis = config.redis === undefined ? undefined : await checkRedis(config.redis, systemClock());
  if (redis !== undefined) print(redis.line);
  let isGood = redis?.isWell !== false;
  const admins = new Map<string, string>();
  for (const upstream of config.upstreams.filter(({ enabled }) => enabled)) {
    const reports = await Promise.all(
      upstream.urls.map((node) => checkNode(upstream, nodeAddressOf(node).url, config)),
    );
    for (const { line } of reports) print(line);
    if (!reports.every(({ isWell }) => isWell)) isGood = false;
    const taught = new Set(reports.map(({ admin }) => admin));
    taught.delete(undefined);
    if (taught.size > 1) {
      isGood = false;
      print(`${upstream.name}: its nodes serve different registries: ${[...taught].join(", ")}`);
    }
    const agreeing = reports.filter((report) => report.admin !== undefined).length;
    if (upstream.agreement.admin > 1 && taught.size === 1 && agreeing < upstream.agreement.admin) {
      print(
        `${upstream.name}: agreement.admin asks for ${upstream.agreement.admin} nodes that name the same admin, and ${agreeing} did`,
      );
    }
    const [admin] = taught;
    const other = admin === undefined ? undefined : admins.get(admin);
    if (other !== undefined) {
      isGood = false;
      print(
        `${upstream.name}: names the same admin as ${other}; set admin for the right one, or make them one upstream`,
      );
    }
    if (admin !== undefined) admins.set(admin, upstream.name);
    if (upstream.admin === undefined && taught.size === 1 && other === undefined) {
      print(`${upstream.name}: paste this line into its entry: admin: ${JSON.stringify(admin)}`);
    }
  }
  return (await checkDiscovery(config, print)) && isGood;
}

/** A few questions, which `rateLimit` is not about: there may be fewer calls in it than it takes to know a node. */
async function checkNode(config: UpstreamConfig, url: string, { limits }: Config): Promise<NodeReport> {
  const { rateLimit: _, ...keys } = config;
  const clock = systemClock();
  const coordinator = localCoordinator(clock);
  const upstream = new Upstream(
    { ...keys, urls: [url], agreement: { admin: 1, metadata: 1, contexts: 1, observe: 0 } },
    {
      limits,
      clock,
      files: new FileWatcher(clock),
      bodies: new BodyReader({ clock, largest: () => limits.responseBody }),
      answers: heldAnswers(),
      random: Math.random,
      coordinator,
      observer: silentObserver,
      forget: () => undefined,
    },
  );
  const place = `${config.name} ${url}`;
  try {
    const startedAt = clock.now();
    const admin = await upstream.learnAdmin(startedAt + config.timeout);
    const latency = Math.round(clock.now() - startedAt);
    const { isWell, said } = await askForPages(upstream, () => clock.now() + config.timeout);
    const tls = url.startsWith("https:") ? `TLS verified${describeEnd(upstream, clock)}` : "no TLS";
    const line = `${place}: admin ${admin}, ${latency} ms, ${protocolOf(upstream)}, ${tls}, ${said}`;
    return { admin, isWell, line };
  } catch (error) {
    return { admin: undefined, isWell: false, line: `${place}: ${(error as Error).message}` };
  } finally {
    await upstream.close();
    await coordinator.close();
  }
}

/** What the one node speaks. */
function protocolOf(upstream: Upstream): string {
  return upstream.status().nodes[0]?.protocol === "h2" ? "HTTP/2" : "HTTP/1.1";
}

/** When the certificate of the one node ends. */
function describeEnd(upstream: Upstream, clock: Clock): string {
  const end = upstream.status().certificates.find(({ role }) => role === "node")?.expiresAt;
  if (end === undefined) return "";
  const warning = warningOfEnd(Date.parse(end), clock.wallNow());
  return `, its certificate ends on ${end}${warning === undefined ? "" : ` (warning: ${warning})`}`;
}

/** What came of asking for pages of the listing; `said`: the rest of a sentence about the node. */
interface PagesReport {
  readonly isWell: boolean;
  readonly said: string;
}

async function askForPages(upstream: Upstream, deadline: () => number): Promise<PagesReport> {
  try {
    return await findPageSize(upstream, deadline);
  } catch (error) {
    return { isWell: false, said: `sends no listing: ${(error as Error).message}` };
  }
}

/** Which page size the node accepts: the configured one, or the largest of a few. */
async function findPageSize(upstream: Upstream, deadline: () => number): Promise<PagesReport> {
  const configured = upstream.config.pageSize;
  const smaller = PAGE_SIZES.filter((size) => configured === undefined || size < configured);
  const sizes = configured === undefined ? smaller : [configured, ...smaller];
  const statuses = new Set<number>();
  let refusal = "";
  for (const pageSize of sizes) {
    const { status, content } = await upstream.call({
      operation: "instruments",
      method: "GET",
      path: `/registry/metadata/v1/instruments?pageSize=${pageSize}`,
      fields: ["accept", "application/json"],
      priority: "background",
      deadline: deadline(),
    });
    if (status === 200) {
      return { isWell: true, said: `${refusal}takes pages of ${pageSize}${shortfall(content, pageSize)}` };
    }
    if ((status === 401 || status === 403) && hasClientsCredentials(upstream.config)) {
      return { isWell: true, said: `lists nothing without a client's credentials (${status})` };
    }
    // That it was asked too much says nothing of the size.
    if (status === 429) return { isWell: true, said: `${refusal}says nothing of page sizes (429)` };
    if (pageSize === configured) refusal = `refuses the configured pageSize ${pageSize} with ${status}, `;
    statuses.add(status);
  }
  const said = `${refusal}takes no page size of ${sizes.join(", ")}: it answered ${[...statuses].join(", ")}`;
  return { isWell: false, said };
}

/** What reads its listing are credentials of clients, of which there are none here. */
function hasClientsCredentials({ forwardAuthorization, auth }: UpstreamConfig): boolean {
  return forwardAuthorization === true && auth === undefined;
}

/** A node may accept a size and send fewer all the same, though there are more. */
function shortfall(content: AnswerContent | undefined, pageSize: number): string {
  const page = content?.page;
  if (typeof page !== "object" || page.ids.length >= pageSize || page.nextPageToken === undefined) return "";
  return ` but sends ${page.ids.length}`;
}

/** A server that is well answers in a fraction of it; a client tries a dozen times in it. */
const DEADLINE: Duration = 4_000;

/** As the gateway's own scripts: Redis 7 at least, a master, and a user that may run scripts and write. */
const PROBE = defineScript("check", "allow-oom", 'return redis.call("SET", KEYS[1], "1", "PX", "1000")');

export interface RedisReport {
  readonly isWell: boolean;
  /** For people, without addresses and secrets. */
  readonly line: string;
}

/** Connects to Redis as a gateway would, logs in, and writes a key that is gone a second later. */
export async function checkRedis(config: RedisConfig, clock: Clock): Promise<RedisReport> {
  let client: RedisClient | undefined;
  let fault: RedisFault | undefined;
  try {
    client = createClient(config, clock);
    const startedAt = clock.now();
    await withReply(
      whenReady(client, (next) => (fault = next)),
      DEADLINE,
      clock,
    );
    await withReply(
      runScript(client, { script: PROBE, keys: [`${config.keyPrefix}check`], args: [] }),
      DEADLINE,
      clock,
    );
    return { isWell: true, line: `redis: answers, ${Math.round(clock.now() - startedAt)} ms with the login` };
  } catch (error) {
    const { text } = fault ?? readFault(error);
    return { isWell: false, line: `redis: ${text}` };
  } finally {
    client?.disconnect();
  }
}

/** Rejects at once for a fault that will not pass; one that may pass goes to `onFault` while the client goes on trying. */
function whenReady(client: RedisClient, onFault: (fault: RedisFault) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    client.once("ready", resolve);
    client.on("error", (error: Error) => {
      const fault = readFault(error);
      onFault(fault);
      if (fault.isPermanent) reject(error);
    });
    // Its event says why.
    client.connect().catch(() => undefined);
  });
}
