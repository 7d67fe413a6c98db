import type { AddressInfo } from "node:net";
import httpProxy from "@fastify/http-proxy";
import { fastify } from "fastify";
import { optionsOfParent, tellParent } from "./parent.ts";

// The stock reverse proxy of the platform, as its documentation starts it.
const { upstream } = optionsOfParent() as { upstream: string };
const app = fastify();
await app.register(httpProxy, { upstream });
await app.listen({ host: "127.0.0.1", port: 0 });
tellParent({ port: (app.server.address() as AddressInfo).port });
