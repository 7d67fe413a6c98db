import type { Contestant } from "../contestant.ts";
import { gateway, gatewayWithRedis } from "./gateway.ts";
import { haproxy } from "./haproxy.ts";
import { httpProxy } from "./http-proxy.ts";
import { nginx } from "./nginx.ts";
import { noProxy } from "./no-proxy.ts";
import { varnish } from "./varnish.ts";

/** In the order of the table. */
export const CONTESTANTS: readonly Contestant[] = [
  gateway,
  gatewayWithRedis,
  nginx,
  varnish,
  haproxy,
  httpProxy,
  noProxy,
];
