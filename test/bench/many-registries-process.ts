import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { optionsOfParent, tellParent } from "./parent.ts";

/** Many registries behind one port, each under its number as base path. */
export interface ManyRegistriesOptions {
  readonly admins: readonly string[];
  /** Instruments of each. */
  readonly instruments: number;
  /** Header field in which each page says which one it is, counted over all registries. */
  readonly numberField?: string;
}

/** Answer to any message. */
export interface RegistryCount {
  /** Pages that were sent so far. */
  readonly pages: number;
}

const { admins, instruments, numberField } = optionsOfParent() as ManyRegistriesOptions;
const ROUTE = /^\/([0-9]+)\/registry\/metadata\/v1\/(info|instruments)(?:\?(.*))?$/;
const WORDS = ["Amber", "Bond", "Carbon", "Delta", "Euro", "Fund", "Gold", "Harbour", "Iron", "Juno"];

let pages = 0;

const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
  const [, registry, endpoint, query] = ROUTE.exec(request.url!) ?? [];
  if (registry === undefined) return send(response, 404, { error: "not found" });
  if (endpoint === "info") return send(response, 200, { adminId: admins[Number(registry)], supportedApis: {} });
  const parameters = new URLSearchParams(query);
  const from = Number(parameters.get("pageToken") ?? 0);
  const to = Math.min(instruments, from + Number(parameters.get("pageSize") ?? 25));
  pages += 1;
  if (numberField !== undefined) response.setHeader(numberField, pages);
  const page = Array.from({ length: to - from }, (_, i) => instrument(Number(registry), from + i));
  send(response, 200, to < instruments ? { instruments: page, nextPageToken: String(to) } : { instruments: page });
});

function instrument(registry: number, number: number) {
  const words = [WORDS[(number + registry) % 10], WORDS[Math.floor(number / 10) % 10]];
  return {
    // As long for every registry, and so are the first twenty together.
    id: `${String(registry).padStart(4, "0")}-${number}`,
    name: `${words.join(" ")} ${number}`,
    symbol: `${words.map((word) => word![0]).join("")}${number}`,
    totalSupply: "1000000.0000000000",
    totalSupplyAsOf: "2026-09-10T06:00:00Z",
    decimals: 10,
    supportedApis: { "splice-api-token-metadata-v1": 1 },
  };
}

function send(response: ServerResponse, status: number, json: object): void {
  const body = JSON.stringify(json);
  response.writeHead(status, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
  response.end(body);
}

process.on("message", () => tellParent({ pages } satisfies RegistryCount));
server.listen(0, "127.0.0.1", () => tellParent({ port: (server.address() as AddressInfo).port }));
