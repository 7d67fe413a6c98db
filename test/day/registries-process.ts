import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { seededRandom } from "../../src/sandbox/random.ts";
import { optionsOfParent, tellParent } from "../support/forks.ts";
import { type Day, faultAt, type Registry } from "./plan.ts";
import { questionsOf, rightBody, TTL, versionAt } from "./truth.ts";

/** All registries of a day, in a process of their own: nodes are listeners, limits are those of all nodes together. */

/**
 * What one registry was asked: all calls; those beyond its limit, which it refused; and how often the page that was read most
 * often was read in the first seconds, when no entry is due to be refreshed.
 */
export type RegistryCount = Record<"calls" | "beyondLimit" | "coldReadings", number>;

export type RegistriesCommand = { readonly do: "begin"; readonly begin: number } | { readonly do: "count" };

/** Milliseconds before a page may be refreshed, where its registry says nothing of its lifetime. */
const COLD = 20_000;
const MOST_ADDRESSES = 10_000;
/** The node that lags, how much later it answers, and a slow registry. */
const LAGGING = { node: 3, later: 2_000 };
const SLOWER = 4_000;
const SHARE_OF_429 = 0.05;

const { day } = optionsOfParent() as { readonly day: Day };
let begin = Number.POSITIVE_INFINITY;
const now = (): number => Math.max(0, Date.now() - begin);

async function serve(registry: Registry) {
  const { number, latency, limit, maxAge, hasValidators } = registry;
  const random = seededRandom(number);
  const questions = questionsOf(registry);
  const count: RegistryCount = { calls: 0, beyondLimit: 0, coldReadings: 0 };
  const cold = new Map<string, number>();
  /** When the calls of the last window came, by client address. */
  const recent = new Map<string, number[]>();

  /** Whether one more call of this address is within the limit, in any window. */
  function isWithinLimit(address: string, at: number): boolean {
    if (recent.size === MOST_ADDRESSES) recent.clear();
    const times = (recent.get(address) ?? []).filter((time) => time > at - limit.per);
    const isWithin = times.length < limit.requests;
    if (isWithin) times.push(at);
    else count.beyondLimit += 1;
    recent.set(address, times);
    return isWithin;
  }

  function answer({ url = "", headers }: IncomingMessage, response: ServerResponse, body: string): void {
    const question = questions.get(url);
    if (question === undefined) {
      const nonce = /"nonce":"([0-9a-f]+)"/.exec(body)?.[1] ?? /\/([0-9a-f]+)\/choice-contexts/.exec(url)?.[1];
      if (nonce === undefined) return send(response, 404, '{"error":"no such path"}');
      const kind = url.endsWith("/transfer-factory") ? "factory" : "context";
      return send(response, 200, rightBody(registry, { kind, nonce, instrument: 0 }, 0));
    }
    const version = versionAt(registry, now());
    const etag = `"${version}"`;
    if (hasValidators) response.setHeader("etag", etag);
    if (maxAge !== undefined) response.setHeader("cache-control", `max-age=${maxAge}`);
    if (hasValidators && headers["if-none-match"] === etag) response.writeHead(304).end();
    else send(response, 200, rightBody(registry, question, version));
  }

  const receive = (node: number, request: IncomingMessage, response: ServerResponse): void => {
    const { url = "", headers, socket } = request;
    const at = now();
    const fault = faultAt(day, number, at);
    count.calls += 1;
    // As servers behind an ingress take it; only who asks without a proxy is told apart by it here.
    const isWithin = isWithinLimit(String(headers["x-envoy-external-address"] ?? socket.remoteAddress), at);
    const isRefused = !isWithin || (fault === "5 % are 429" && random() < SHARE_OF_429);
    if (at < Math.min(COLD, 900 * (maxAge ?? TTL.page)) && url.includes("/instruments")) {
      cold.set(url, (cold.get(url) ?? 0) + 1);
      count.coldReadings = Math.max(count.coldReadings, cold.get(url)!);
    }
    const isLagging = fault === "a node lags" && node === LAGGING.node;
    const delay = latency + (fault === "registry slow" ? SLOWER : 0) + (isLagging ? LAGGING.later : 0);
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.once("end", () => {
      setTimeout(() => {
        if (isRefused) return send(response, 429, "Too Many Requests", "text/plain");
        if (fault === "registry answers 503") return send(response, 503, '{"error":"no database"}');
        // It does not know yet what the others know.
        if (isLagging && url.includes("/choice-contexts/")) return send(response, 404, '{"error":"no such contract"}');
        answer(request, response, Buffer.concat(chunks).toString());
      }, delay);
    });
  };

  const nodes = Array.from({ length: registry.nodes }, (_none, at) =>
    createServer({ keepAliveTimeout: 65_000 }, (...asked) => receive(at, ...asked)),
  );
  const ports = await Promise.all(nodes.map((node) => listen(node, 0)));
  return { count, ports, node: nodes[0]! };
}

function send(response: ServerResponse, status: number, body: string, type = "application/json"): void {
  response.writeHead(status, { "content-type": type, "content-length": Buffer.byteLength(body) }).end(body);
}

function listen(server: Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", () => resolve((server.address() as AddressInfo).port));
  });
}

const registries = await Promise.all(day.registries.map(serve));
process.on("message", (command: RegistriesCommand) => {
  if (command.do === "count") return tellParent(registries.map(({ count }) => count));
  begin = command.begin;
  const dead = day.faults.find(({ name }) => name === "registry dead")!;
  const { node, ports } = registries[dead.registry!]!;
  setTimeout(
    () => {
      node.close();
      node.closeAllConnections();
    },
    begin + dead.from - Date.now(),
  );
  setTimeout(() => void listen(node, ports[0]!), begin + dead.to - Date.now());
});
tellParent(registries.map(({ ports }) => ports));
