import type { AddressInfo } from "node:net";
import type { FastifyInstance } from "fastify";

/**
 * Opens a listener and returns its port.
 *
 * @param what which listener it is, for whoever reads why it cannot be opened
 * @throws Error that names listener and port, with `port` and the `code` of the operating system
 */
export async function openListener(
  listener: FastifyInstance,
  { host, port }: { readonly host: string; readonly port: number },
  what: "public" | "operations",
): Promise<number> {
  try {
    await listener.listen({ host, port });
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    const why = code === "EADDRINUSE" ? "another process has it" : (code ?? "it cannot be opened");
    throw Object.assign(new Error(`the ${what} listener cannot have port ${port}, ${why}`, { cause }), { code, port });
  }
  return (listener.server.address() as AddressInfo).port;
}
