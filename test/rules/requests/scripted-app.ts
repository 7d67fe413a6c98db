import { Agent, request } from "node:http";
import type { Found } from "../../../src/cache/types.ts";
import type { LoadedConfig } from "../../../src/config/loaded.ts";
import type { MetadataRequest } from "../../../src/registry/registry.ts";
import { createApp } from "../../../src/requests/app.ts";
import type { RequestRecord } from "../../../src/requests/record.ts";
import type { Snapshot } from "../../../src/requests/snapshot.ts";
import type { Answer, Call } from "../../../src/upstream/types.ts";
import { TestClock } from "../../support/clock.ts";
import { atEnd } from "../../support/closing.ts";
import { PREFIX } from "../../support/endpoints.ts";
import { partyOf } from "../../support/registry.ts";

/** What came of a request: which registry was asked for what, or the status of the refusal. */
export type Meaning = { readonly registry: string; readonly asks: string } | { readonly status: number };

export const EXTRA = ["/api/utilities/v0/operator", "/featured/*", "POST /burn"];
export const BASES = { "/api/validator/v0/scan-proxy": "amulet", "/bonds": "bonds" };

/** The real routes before two registries that answer everything at once; the plain base is the first one's. */
export async function scriptedApp() {
  const seen: { meaning: Meaning | undefined; call: Call | undefined } = { meaning: undefined, call: undefined };
  const records: RequestRecord[] = [];
  const upstreams = ["amulet", "bonds"].map((name) => scriptedUpstream(name, seen));
  const registries = new Map(upstreams.map((upstream) => [upstream.name, scriptedRegistry(upstream, seen)]));
  const config = {
    listen: { trustedProxies: [], keepAliveTimeout: 1_000, requestTimeout: 1_000, maxConnections: 100 },
    routing: { prefix: PREFIX, adminHeader: "x-instrument-admin", plain: "amulet" },
    limits: { requestBody: 1_024, responseBody: 1_024 },
    cors: { origins: ["*"] },
    cache: { forwardResponseHeaders: [] },
    upstreams: upstreams.map((upstream) => upstream.config),
  };
  const loaded = { config, texts: new Map() } as unknown as LoadedConfig;
  const snapshot = {
    loaded,
    registries,
    clients: undefined,
    upstreams: {
      all: upstreams,
      sole: undefined,
      hasUnlearned: false,
      byName: (name: string) => upstreams.find((each) => each.name === name),
      byAdmin: (party: string) => upstreams.find((each) => each.admin === party),
    },
  } as unknown as Snapshot;
  const app = await createApp({
    loaded,
    snapshot: () => snapshot,
    clock: TestClock.running(),
    onRequestEnd: (record) => records.push(record),
  });
  const base = new URL(await app.listen({ host: "127.0.0.1", port: 0 }));
  const agent = new Agent({ keepAlive: true });
  atEnd(() => {
    agent.destroy();
    return app.close();
  });
  const send = async (method: string, url: string, headers: Record<string, string> = {}, body = "") => {
    seen.meaning = undefined;
    const status = await statusOf(base, agent, { method, url, headers, body });
    return seen.meaning ?? { status };
  };
  return { app, send, seen };
}

function scriptedUpstream(name: string, seen: { meaning: Meaning | undefined; call: Call | undefined }) {
  const cache = { forwardResponseHeaders: [] };
  return {
    name,
    admin: partyOf(name),
    config: {
      name,
      enabled: true,
      timeout: 1_000,
      forwardAuthorization: "off",
      forwardClientAddress: false,
      cache,
      basePaths: Object.entries(BASES).flatMap(([path, owner]) => (owner === name ? [path] : [])),
      extraPaths: name === "bonds" ? EXTRA : [],
    },
    call(call: Call): Promise<Answer> {
      seen.call = call;
      const asks = call.operation === "pass_through" ? `${call.base} ${call.path}` : `${call.operation} ${call.path}`;
      seen.meaning = { registry: name, asks };
      const body = Buffer.from("{}");
      return Promise.resolve({ status: 200, fields: [], body, json: {}, node: "", receivedAt: 0 });
    },
  };
}

function scriptedRegistry(upstream: { name: string }, seen: { meaning: Meaning | undefined }) {
  return {
    upstream,
    hit(request: MetadataRequest): Found {
      const { operation, ...rest } = request;
      seen.meaning = { registry: upstream.name, asks: [operation, ...Object.values(rest)].join(" ") };
      const entry = {
        status: 200,
        fields: [],
        body: Buffer.from("{}"),
        etag: '"x"',
        bornAt: 0,
        freshUntil: 1e12,
        clientTtl: 0,
      };
      return { entry, outcome: "hit", detail: { stored: false } } as unknown as Found;
    },
  };
}

interface Sent {
  readonly method: string;
  readonly url: string;
  readonly headers: Record<string, string>;
  readonly body: string;
}

/** Sends a target as it is, which no URL parser tidies up; resolves with the status when the answer is complete. */
function statusOf(base: URL, agent: Agent, { method, url, headers, body }: Sent): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request({ host: base.hostname, port: base.port, agent, method, path: url, headers }, (response) => {
      response.resume();
      response.on("end", () => resolve(response.statusCode!));
    });
    sent.on("error", reject);
    sent.end(body);
  });
}
