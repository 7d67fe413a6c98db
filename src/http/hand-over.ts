import type { RequestListener, Server } from "node:http";
import { isDeepStrictEqual } from "node:util";
import type { FastifyInstance } from "fastify";
import type { Config } from "../config/schema.ts";

/** Whether a public listener made with `next` would differ: the rest of the configuration is asked at each request. */
export function needsNewListener(running: Config, next: Config): boolean {
  return !isDeepStrictEqual([running.limits, running.docs], [next.limits, next.docs]);
}

/**
 * Lets `fresh`, which itself never listens, answer what comes to the port of `listener`: Fastify and Node fix limits
 * and routes when a listener is made, and making one anew would close connections. Requests that run go on.
 */
export async function handOver(listener: FastifyInstance, fresh: FastifyInstance): Promise<void> {
  await fresh.ready();
  const server = listener.server as BoundedServer;
  // Node reads it at each new connection.
  server.maxHeaderSize = (fresh.server as BoundedServer).maxHeaderSize;
  server.removeAllListeners("request");
  for (const answer of fresh.server.listeners("request")) server.on("request", answer as RequestListener);
}

/** Node keeps the option of this name under it. */
type BoundedServer = Server & { maxHeaderSize: number };
