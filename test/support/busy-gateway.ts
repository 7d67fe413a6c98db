import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Agent, request } from "undici";
import type { ConsoleScene } from "./console-scene.ts";
import { discoveryOf, listOf, partyOf, usePublishers } from "./discovery.ts";
import { newClient } from "./five-registries.ts";
import type { GatewayProcess } from "./gateway-process.ts";
import type { SampleRegistry } from "./sample-registry.ts";
import { until } from "./until.ts";
import { DSO, pemFile, UTILITY_ADMIN } from "./sample.ts";
import { useTemporaryFolder } from "./temporary-folder.ts";
import { makeKey, signToken } from "./token-issuer.ts";

/** What the operations listener asks of operators. */
interface OperationsKeys {
  readonly token?: string;
  readonly readonly?: boolean;
}

/** What a client of the gateway shows. */
export type Credential = "key" | "key of a small tier" | "token" | "certificate" | "nothing";

/** A gateway with something to show on every page of the console. */
export interface BusyGateway {
  readonly gateway: GatewayProcess;
  /** Two nodes, the second cordoned. */
  readonly amulet: SampleRegistry;
  /** The status of a request below the base path of a registry, by its alias. */
  readonly ask: (credential: Credential, alias: string, path?: string) => Promise<number>;
}

const ISSUER = "https://login.example";
const LISTING = "/registry/metadata/v1/instruments";

/** Requests a minute that the key of the small tier is granted. */
export const SMALL = 5;

/** What each client is called. */
export const NAMES = {
  key: "wallet-a",
  "key of a small tier": "exchange-a",
  token: "desk-7",
  certificate: "sample client",
  nothing: "anonymous",
} as const satisfies Readonly<Record<Credential, string>>;

/**
 * Starts gateways of which one registry is well and one is another than configured; whose clients are known by key, token
 * and certificate; that have found registries which are pinned, wait, cannot be proved and are listed no more.
 */
export function useBusyGateways(scene: ConsoleScene): (operations?: OperationsKeys) => Promise<BusyGateway> {
  const startPublisher = usePublishers();
  const folder = useTemporaryFolder();
  return async (operations = {}) => {
    const [amulet, other] = [await scene.registry(), await scene.registry()];
    const [moves, moved] = [
      await scene.registry({ admin: partyOf("moves") }),
      await scene.registry({ admin: partyOf("moves") }),
    ];
    const leaves = await scene.registry({ admin: partyOf("leaves") });
    const list = await startPublisher(listOf({ [moves.admin]: moves.url, [leaves.admin]: leaves.url }));
    const { keys, ...clients } = clientsIn(folder());
    const gateway = await scene.gateway({
      operations,
      log: { hits: 1 },
      listen: {
        tls: {
          certFile: pemFile("server"),
          keyFile: pemFile("server-key"),
          clientCaFile: pemFile("ca"),
          clientAuth: "request",
        },
      },
      clients: clients.config,
      discovery: {
        every: "1s",
        sources: [{ url: list.url }],
        pinFile: join(folder(), "pins.json"),
        allowPrivate: true,
      },
      upstreams: [
        { name: "amulet", admin: DSO, urls: [amulet.url, other.url] },
        { name: "bonds", admin: UTILITY_ADMIN, urls: [other.url] },
      ],
    });
    const count = async (state: string) =>
      (await discoveryOf(gateway, operations.token)).registries.filter((each) => each.state === state).length;
    await until(async () => (await count("pinned")) === 2);
    const dead = `http://127.0.0.1:1/${"nothing-here-".repeat(12)}`;
    list.publish(listOf({ [moves.admin]: moved.url, [partyOf("dead")]: dead }));
    await until(
      async () => (await count("waiting")) === 1 && (await count("gone")) === 1 && (await count("found")) === 1,
    );
    const ask = askerOf(scene, gateway, keys);
    for (let i = 1; i < 20; i += 1) await ask("key", i % 5 === 0 ? "bonds" : "amulet", `${LISTING}?pageSize=${i}`);
    return { gateway, amulet, ask };
  };
}

/** The configuration of who may call, with its files in `folder`, and what each of them has to show. */
function clientsIn(folder: string) {
  const [wallet, exchange] = [newClient(NAMES.key, "wallet"), newClient(NAMES["key of a small tier"], "small")];
  const [keysFile, jwksFile] = [join(folder, "clients.jsonl"), join(folder, "jwks.json")];
  const key = makeKey("ES256", "one");
  writeFileSync(keysFile, [wallet, exchange].map(({ entry }) => `${JSON.stringify(entry)}\n`).join(""));
  writeFileSync(jwksFile, JSON.stringify({ keys: [key.jwk] }));
  const exp = Math.floor(Date.now() / 1_000) + 3_600;
  const token = signToken({ alg: "ES256", kid: "one" }, { iss: ISSUER, aud: "gateway", sub: NAMES.token, exp }, key);
  return {
    keys: { key: wallet.key, "key of a small tier": exchange.key, token },
    config: {
      anonymous: "browser",
      keysFile,
      jwt: [{ issuer: ISSUER, audience: "gateway", algorithms: ["ES256"], jwksFile, tier: "wallet" }],
      certificates: { tier: "wallet", name: "cn" },
      tiers: {
        wallet: { requests: 1_000, per: "1m" },
        small: { requests: SMALL, per: "1m" },
        browser: { requests: 120, per: "1m" },
      },
    },
  };
}

/** Clients of the gateway's TLS listener, each on connections of its own. */
function askerOf(
  scene: ConsoleScene,
  { url }: GatewayProcess,
  keys: Readonly<Record<"key" | "key of a small tier" | "token", string>>,
): BusyGateway["ask"] {
  const ca = readFileSync(pemFile("ca"));
  const shown = { cert: readFileSync(pemFile("client")), key: readFileSync(pemFile("client-key")) };
  const agents = { certificate: new Agent({ connect: { ca, ...shown } }), other: new Agent({ connect: { ca } }) };
  scene.defer(() => Promise.all([agents.certificate.close(), agents.other.close()]));
  return async (credential, alias, path = LISTING) => {
    const known = credential === "certificate" || credential === "nothing" ? undefined : keys[credential];
    const { statusCode, body } = await request(
      `${url.replace("http:", "https:")}/api/token-standard/v0/registrars/${alias}${path}`,
      {
        dispatcher: credential === "certificate" ? agents.certificate : agents.other,
        headers: known === undefined ? {} : { "x-api-key": known },
      },
    );
    await body.dump();
    return statusCode;
  };
}
