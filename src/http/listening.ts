import type { AddressInfo } from "node:net";
import { platform } from "node:os";
import type { FastifyInstance, FastifyServerOptions } from "fastify";

/** Where to listen. */
export interface ListenAddress {
  readonly host: string;
  readonly port: number;
  /** Other workers of this gateway listen on the same port. */
  readonly isShared?: boolean;
}

/**
 * Fastify's `schemaController`: routes have no schemas, and what Fastify compiles schemas with is not loaded, which takes a
 * tenth of a start.
 */
export const NO_SCHEMAS: NonNullable<FastifyServerOptions["schemaController"]> = {
  compilersFactory: { buildValidator: refuseSchema, buildSerializer: refuseSchema },
};

function refuseSchema(): never {
  throw new Error(
    "a route has a schema: bodies are held to theirs by src/schema, and Fastify must not change an answer",
  );
}

/**
 * Opens a listener and returns its port.
 *
 * @param what which listener it is, for the error
 * @throws Error that names listener and port, with `port` and the `code` of the operating system
 */
export async function openListener(
  listener: FastifyInstance,
  { host, port, isShared = false }: ListenAddress,
  what: "public" | "operations",
): Promise<number> {
  try {
    await listener.listen({ host, port, ...(isShared ? sharedPort() : {}) });
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    const why = code === "EADDRINUSE" ? "another process has it" : (code ?? "it cannot be opened");
    throw Object.assign(new Error(`the ${what} listener cannot have port ${port}, ${why}`, { cause }), { code, port });
  }
  return (listener.server.address() as AddressInfo).port;
}

/**
 * How workers share a port. On Linux each has a socket of its own, and the kernel deals connections out: what a worker
 * that dies had not accepted ends with it. Elsewhere the primary accepts for all (`node:cluster`), for such sockets
 * cannot be had or are not dealt out evenly.
 */
function sharedPort(): { exclusive?: boolean; reusePort?: boolean } {
  return platform() === "linux" ? { exclusive: true, reusePort: true } : {};
}
