import type { AddressInfo } from "node:net";
import httpProxy from "@fastify/http-proxy";
import { fastify } from "fastify";
import { optionsOfParent, tellParent } from "../../bench/parent.ts";

/** One route for each registry, to its nodes by turns. */
const { registries, port } = optionsOfParent() as {
  readonly registries: readonly (readonly number[])[];
  readonly port: number;
};
const app = fastify({ forceCloseConnections: "idle" });
for (const [number, ports] of registries.entries()) {
  let turn = 0;
  await app.register(httpProxy, {
    prefix: `/r${number}`,
    upstream: "",
    replyOptions: { getUpstream: () => `http://127.0.0.1:${ports[turn++ % ports.length]!}` },
  });
}
await app.listen({ host: "127.0.0.1", port });
process.once("SIGTERM", () => void app.close().then(() => process.exit()));
tellParent({ port: (app.server.address() as AddressInfo).port });
