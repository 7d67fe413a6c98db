import { beforeAll, describe } from "vitest";
import { OperationsSite, startGateway } from "../support/gateway.ts";
import { Site } from "../support/http.ts";
import { instruments, startRegistry } from "../support/registry.ts";
import { type Deployment, journeys } from "./journeys.ts";

/** Anybody's: `GATEWAY_URL`, and `GATEWAY_ADMIN` for its operations listener; else one in this process. */
const { GATEWAY_URL: url, GATEWAY_ADMIN: admin } = process.env;

describe(url === undefined ? "a gateway in this process" : `the gateway at ${url}`, () => {
  let deployment: Deployment | undefined;
  beforeAll(async () => {
    if (url !== undefined) {
      deployment = { site: new Site(url), operations: admin === undefined ? undefined : new OperationsSite(admin) };
      return;
    }
    const amulet = await startRegistry("amulet", { instruments: instruments("AMULET", 120) });
    const bonds = await startRegistry("bonds");
    const gateway = await startGateway({ upstreams: [amulet, bonds] });
    deployment = { site: gateway, operations: gateway.operations };
  });
  journeys(() => deployment!);
});
