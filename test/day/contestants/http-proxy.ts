import { startProcess, stop } from "../../bench/child.ts";
import { findFreePort } from "../../support/ports.ts";
import type { Contestant } from "../contestant.ts";

/** Stock @fastify/http-proxy, which caches nothing. */
export const httpProxy: Contestant = {
  name: "@fastify/http-proxy",
  async start({ registries }) {
    const options = { registries: registries.map(({ ports }) => ports), port: await findFreePort() };
    const begin = async () => (await startProcess("../day/contestants/http-proxy-process.ts", options)).child;
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
