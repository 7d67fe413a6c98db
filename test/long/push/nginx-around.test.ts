import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { systemClock } from "../../../src/clock.ts";
import { SampleRegistry } from "../../support/sample-registry.ts";
import { send } from "../../support/send.ts";
import { DSO } from "../../support/sample.ts";
import { type GatewayUnderTest, startGateway } from "../../support/gateway.ts";
import { Nginx } from "../../support/nginx.ts";
import { findFreePort } from "../../support/ports.ts";
import { until } from "../../support/until.ts";

const PREFIX = "/api/token-standard/v0/registrars";
const SECRET = "of the operator's alone\n";

let registry: SampleRegistry;
/** What stands beside the registry on its host, and is no client's to ask; every request for it is recorded. */
let admin: Server;
const asked: string[] = [];
let behind: string;
let gateway: GatewayUnderTest;
let before: string;
/** As {@link before}, but with no gateway between it and the registry. */
let alone: string;

const running: Nginx[] = [];
/** What nginx may serve where it is told to, and nobody may ask for. */
const files = mkdtempSync(join(tmpdir(), "files-"));

/** Starts an nginx with these locations; its URL. */
async function startNginx(locations: string): Promise<string> {
  const port = await findFreePort();
  running.push(Nginx.start(`server { listen 127.0.0.1:${port}; root ${files}; proxy_http_version 1.1; ${locations} }`));
  const url = `http://127.0.0.1:${port}`;
  await until(() =>
    send(url, { path: "/internal/" }).then(
      () => true,
      () => false,
    ),
  );
  return url;
}

beforeAll(async () => {
  registry = new SampleRegistry({ admin: DSO, clock: systemClock() });
  await registry.start();
  admin = createServer((request, response) => {
    asked.push(`${request.url} ${request.headers.authorization ?? "without credentials"}`);
    response.end("{}");
  });
  await new Promise<void>((resolve) => admin.listen(0, "127.0.0.1", resolve));
  const { port } = admin.address() as AddressInfo;
  // Which location it is, nginx decides by what it has decoded and resolved.
  behind = await startNginx(`
    location /registry/ {
      proxy_pass ${registry.url}/registry/;
      # Not for this one, but for the next.
      proxy_ignore_headers X-Accel-Redirect;
      proxy_pass_header X-Accel-Redirect;
    }
    location / { proxy_pass http://127.0.0.1:${port}; }`);
  gateway = await startGateway({
    cache: { ttl: { info: "0s", instruments: "30s", instrument: "30s", notFound: "0s" } },
    upstreams: [{ name: "amulet", admin: DSO, urls: [behind], auth: { bearerToken: "of-the-gateway" } }],
  });
  const internal = (target: string) => `
    location / { proxy_pass ${target}; }
    location /internal/ { internal; }`;
  mkdirSync(join(files, "internal"));
  writeFileSync(join(files, "internal/secret.txt"), SECRET);
  before = await startNginx(internal(gateway.url));
  alone = await startNginx(internal(registry.url));
});

afterAll(async () => {
  await Promise.all(running.map((nginx) => nginx.stop()));
  rmSync(files, { recursive: true, force: true });
  await gateway.stop();
  await registry.stop();
  await new Promise((resolve) => admin.close(resolve));
});

describe("with an nginx before the registry, which decodes and resolves", () => {
  const INSTRUMENTS = "/registry/metadata/v1/instruments";
  const climbing = [
    "..%2F..%2F..%2F..%2Fadmin%2Fsecret",
    "..%2f..%2f..%2f..%2fadmin%2fsecret",
    "x%2F..%2F..%2F..%2F..%2F..%2Fadmin%2Fsecret",
    "%2e%2e%2F%2e%2e%2F%2e%2e%2F%2e%2e%2Fadmin%2Fsecret",
    "..%2F.%2F..%2F%2F..%2F..%2Fadmin%2Fsecret",
  ];
  const doubly = climbing.map((segment) => segment.replaceAll("%", "%25"));

  test.each(climbing)(
    "an id such as %s reaches what is not the registry's when it is sent there directly",
    async (id) => {
      asked.length = 0;
      await send(behind, { path: `${INSTRUMENTS}/${id}` });
      expect(asked).toEqual([expect.stringMatching(/admin.*secret/)]);
    },
  );

  test.each([...climbing, ...doubly])(
    "the gateway refuses %s on every route and in every form of address",
    async (id) => {
      asked.length = 0;
      registry.calls.clear();
      const paths = [
        [`${INSTRUMENTS}/${id}`],
        [`/registry/transfer-instruction/v1/${id}/choice-contexts/accept`, "{}"],
        [`/registry/allocations/v1/${id}/choice-contexts/cancel`, "{}"],
        [`/registry/allocations/v2/${id}/choice-contexts/cancel`, "{}"],
        [`/registry/drafts/v1/${id}`],
        [`/registry/drafts/v1/${id}`, "{}"],
        [`/registry/${id}`],
      ] as const;
      for (const [path, body] of paths) {
        const request = body === undefined ? {} : { body };
        for (const answer of [
          await send(gateway.url, { path, ...request }),
          await send(gateway.url, { path, headers: { "x-instrument-admin": DSO }, ...request }),
          await send(gateway.url, { path: `${PREFIX}/amulet${path}`, ...request }),
          await send(gateway.url, { path: `${PREFIX}/${encodeURIComponent(DSO)}${path}`, ...request }),
          await send(before, { path, ...request }),
        ]) {
          expect([path, answer.status]).toEqual([path, expect.toBeOneOf([400, 404])]);
        }
      }
      expect(asked).toEqual([]);
      expect(registry.calls.recent).toEqual([]);
    },
  );

  test("ids that only look so go on working", async () => {
    for (const id of ["a..b", "...", "..a", "b.."]) {
      registry.catalogue.add({ id, name: id, symbol: "X", decimals: 10, supportedApis: {} });
      const answer = await send(gateway.url, { path: `${INSTRUMENTS}/${id}` });
      expect([id, answer.status]).toEqual([id, 200]);
    }
  });
});

describe("with an nginx before the gateway that has files of the operator's", () => {
  const LIST = "/registry/metadata/v1/instruments";
  const requests = [
    { path: `${LIST}?pageSize=2` },
    { path: `${LIST}?pageSize=2` },
    { path: `${LIST}/accel` },
    { path: "/registry/allocations/v1/00ab/choice-contexts/cancel", body: "{}" },
    { path: "/registry/drafts/v1/x" },
    { path: "/registry/drafts/v1/x", body: "{}" },
  ];

  /** What answers these questions and no others. */
  const BODIES: Readonly<Record<string, string>> = {
    instruments: '{"instruments":[]}',
    instrument: '{"id":"accel","name":"a","symbol":"a","decimals":1,"supportedApis":{}}',
    allocation_cancel: '{"choiceContextData":{},"disclosedContracts":[]}',
  };

  test.each([200, 201, 400, 404, 429, 500])(
    "an X-Accel-Redirect with status %i brings none of them out",
    async (status) => {
      registry.script(({ operation }) =>
        operation === "info"
          ? undefined
          : {
              status,
              headers: [
                ["Content-Type", "application/json"],
                ["X-Accel-Redirect", "/internal/secret.txt"],
                ["X-Accel-Expires", "3600"],
              ].flat(),
              body: status < 300 ? (BODIES[operation] ?? "{}") : '{"error":"no"}',
            },
      );
      for (const request of requests) {
        expect((await send(alone, request)).text).toBe(SECRET);
        const answer = await send(before, request);
        expect(answer.status).toBe(status);
        expect(answer.text).not.toContain(SECRET.trim());
        expect(JSON.parse(answer.text)).toBeTypeOf("object");
      }
      registry.script(undefined);
      expect((await send(gateway.operations, { path: "/purge", body: "{}" })).status).toBe(200);
    },
  );

  test("none of them can be asked for directly", async () => {
    expect((await send(before, { path: "/internal/secret.txt" })).status).toBe(404);
  });
});
