import type { AddressInfo } from "node:net";
import type { FastifyInstance, FastifyServerOptions } from "fastify";

/** Where to listen. */
export interface ListenAddress {
  readonly host: string;
  readonly port: number;
  /** Other processes of the same user may listen on the port, too, and the kernel deals connections out among them. */
  readonly reusePort?: boolean;
}

/**
 * Fastify's `schemaController`: routes have no schemas, and what Fastify compiles schemas with is not loaded, which takes a
 * tenth of a start.
 */
export const NO_SCHEMAS: NonNullable<FastifyServerOptions["schemaController"]> = {
  compilersFactory: { buildValidator: refuseSchema, buildSerializer: refuseSchema },
};

function refuseSchema(): never {
  throw new Error("a route has a schema: bodies are held to theirs by src/spec, and Fastify must not change an answer");
}

/**
 * Opens a listener and returns its port.
 *
 * @param what which listener it is, for the error
 * @throws Error that names listener and port, with `port` and the `code` of the operating system
 */
export async function openListener(
  listener: FastifyInstance,
  { host, port, reusePort = false }: ListenAddress,
  what: "public" | "operations",
): Promise<number> {
  // Fastify hands all of it to Node; its type does not know reusePort.
  const options = { host, port, reusePort };
  try {
    await listener.listen(options);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    const why = explainFailure(code, reusePort);
    throw Object.assign(new Error(`the ${what} listener cannot have port ${port}, ${why}`, { cause }), { code, port });
  }
  return (listener.server.address() as AddressInfo).port;
}

function explainFailure(code: string | undefined, reusePort: boolean): string {
  if (code === "EADDRINUSE") {
    return reusePort
      ? "another process has it: to share it, each has to set listen.reusePort and run as the same user"
      : "another process has it";
  }
  // Node says ENOTSUP where the system has no SO_REUSEPORT that deals connections out.
  if (code === "ENOTSUP" && reusePort) return "this system cannot share ports: leave out listen.reusePort";
  return code ?? "it cannot be opened";
}
