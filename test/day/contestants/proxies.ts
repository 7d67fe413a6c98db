import httpProxy from "@fastify/http-proxy";
import { fastify } from "fastify";
import { optionsOfParent, startModule, stop, tellParent } from "../../support/forks.ts";
import { findFreePort } from "../../support/ports.ts";
import type { Contestant } from "../play.ts";

/** Stock @fastify/http-proxy, which caches nothing: one route for each registry, to its nodes by turns. */
export const stockProxy: Contestant = {
  name: "http-proxy",
  async start({ registries }) {
    const options: Served = { registries: registries.map(({ ports }) => ports), port: await findFreePort() };
    const begin = async () => (await startModule(new URL(import.meta.url), options)).child;
    let child = await begin();
    return {
      bases: ({ number }) => [`http://127.0.0.1:${options.port}/r${number}`],
      pids: () => [child.pid!],
      async restart() {
        await stop(child);
        child = await begin();
      },
      stop: () => stop(child),
    };
  },
};

/** Wallets ask registries themselves, each from an address of its own, one node at random. */
export const noProxy: Contestant = {
  name: "no proxy",
  start: async () => ({
    bases: ({ ports }) => ports.map((port) => `http://127.0.0.1:${port}`),
    hasAddresses: true,
    pids: () => [],
    stop: async () => {},
  }),
};

type Served = { readonly registries: readonly (readonly number[])[]; readonly port: number };

/** In a process of its own: the proxy. */
async function serve({ registries, port }: Served): Promise<void> {
  const app = fastify({ forceCloseConnections: "idle" });
  for (const [number, ports] of registries.entries()) {
    let turn = 0;
    const getUpstream = (): string => `http://127.0.0.1:${ports[turn++ % ports.length]!}`;
    await app.register(httpProxy, { prefix: `/r${number}`, upstream: "", replyOptions: { getUpstream } });
  }
  await app.listen({ host: "127.0.0.1", port });
  process.once("SIGTERM", () => void app.close().then(() => process.exit()));
  tellParent({});
}

if (import.meta.main) await serve(optionsOfParent() as Served);
