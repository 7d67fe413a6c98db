import type { SampleRegistry } from "./sample-registry.ts";
import { DSO, sampleText } from "./sample.ts";

/** A stand-in for a contract id that any sample registry knows. */
const CONTRACT = `00${"ab".repeat(68)}`;

const FACTORY_BODY = sampleText("04-transfer-factory.request.amulet.json");
const ALLOCATION_BODY = sampleText("11-allocation-factory.request.amulet.json");

const CONTEXTS = [
  `transfer-instruction/v1/${CONTRACT}/choice-contexts/accept`,
  `transfer-instruction/v1/${CONTRACT}/choice-contexts/reject`,
  `transfer-instruction/v1/${CONTRACT}/choice-contexts/withdraw`,
  `allocations/v1/${CONTRACT}/choice-contexts/execute-transfer`,
  `allocations/v1/${CONTRACT}/choice-contexts/withdraw`,
  `allocations/v1/${CONTRACT}/choice-contexts/cancel`,
];

const FACTORIES_V2 = [
  "transfer-instruction/v2/transfer-factory",
  "allocation-instruction/v2/allocation-factory",
  "allocation/v2/settlement-factory",
];

const CONTEXTS_V2 = [
  `transfer-instruction/v2/${CONTRACT}/choice-contexts/accept`,
  `transfer-instruction/v2/${CONTRACT}/choice-contexts/reject`,
  `transfer-instruction/v2/${CONTRACT}/choice-contexts/withdraw`,
  `allocation-instruction/v2/${CONTRACT}/choice-contexts/accept`,
  `allocation-instruction/v2/${CONTRACT}/choice-contexts/withdraw`,
  `allocations/v2/${CONTRACT}/choice-contexts/withdraw`,
  `allocations/v2/${CONTRACT}/choice-contexts/cancel`,
];

/** A credential that must not turn up anywhere. */
export const CLIENT_TOKEN = "client-token-that-nobody-may-see";

async function ask(url: string, init: RequestInit = {}): Promise<Response> {
  const response = await fetch(url, init);
  await response.arrayBuffer();
  return response;
}

function post(url: string, body: string): Promise<Response> {
  const headers = { "content-type": "application/json", authorization: `Bearer ${CLIENT_TOKEN}` };
  return ask(url, { method: "POST", headers, body });
}

/**
 * One of everything that clients send to a registry through the gateway: each endpoint, hits and misses, pages, a
 * validation, an unknown instrument, passed-through paths, and what is refused.
 *
 * @param base URL of the gateway's public listener
 * @param name alias of the registry
 */
export async function sendEverything(base: string, name: string): Promise<void> {
  const root = `${base}/api/token-standard/v0/registrars/${name}/registry`;
  const headers = { authorization: `Bearer ${CLIENT_TOKEN}` };
  await ask(`${root}/metadata/v1/info`, { headers });
  const info = await ask(`${root}/metadata/v1/info`, { headers });
  await ask(`${root}/metadata/v1/info`, { headers: { "if-none-match": info.headers.get("etag") ?? '"none"' } });
  await walk(`${root}/metadata/v1/instruments?pageSize=25`);
  await ask(`${root}/metadata/v1/instruments?pageToken=made-up`);
  await ask(`${root}/metadata/v1/instruments/Amulet`);
  await ask(`${root}/metadata/v1/instruments/nobody-has-this`);
  await post(`${root}/transfer-instruction/v1/transfer-factory`, FACTORY_BODY);
  await post(`${root}/allocation-instruction/v1/allocation-factory`, ALLOCATION_BODY);
  for (const path of FACTORIES_V2) await post(`${root}/${path}`, '{"choiceArguments":{}}');
  for (const path of [...CONTEXTS, ...CONTEXTS_V2]) await post(`${root}/${path}`, "{}");
  await ask(`${root}/some-draft/v3/echo`);
  await post(`${root}/transfer-instruction/v1/transfer-factory`, "not json");
  await post(`${root}/transfer-instruction/v2/transfer-factory`, "not json");
  await ask(`${root}/transfer-instruction/v1/transfer-factory`);
  await ask(`${root}/metadata/v1/instruments?pageSize=`);
}

/** What is about no registry: unknown admins and paths. */
export async function sendStrays(base: string): Promise<void> {
  await ask(`${base}/api/token-standard/v0/registrars/nobody::1220ab/registry/metadata/v1/info`);
  await ask(`${base}/nowhere`);
  await ask(`${base}/registry/metadata/v1/info`, { headers: { "x-instrument-admin": DSO } });
}

async function walk(first: string): Promise<void> {
  let url = first;
  for (let page = 0; page < 10; page += 1) {
    const response = await fetch(url);
    if (!response.ok) return void (await response.arrayBuffer());
    const { nextPageToken } = (await response.json()) as { nextPageToken?: string };
    if (nextPageToken === undefined || nextPageToken === "") return;
    url = `${first}&pageToken=${encodeURIComponent(nextPageToken)}`;
  }
}

/** Everything a registry can do wrong, one after the other, with requests meanwhile. */
export async function breakAndAsk(registry: SampleRegistry, base: string, name: string): Promise<void> {
  const root = `${base}/api/token-standard/v0/registrars/${name}/registry`;
  const faults = [
    // First: after ten failures in a row the breaker is open, and nothing is asked that could break the schema.
    { kind: "status", status: 200, body: "{}", contentType: "application/json" },
    { kind: "status", status: 503 },
    { kind: "429", retryAfter: "1" },
    { kind: "not-json" },
    { kind: "reset" },
    { kind: "truncate" },
    { kind: "redirect" },
    { kind: "html-404" },
  ] as const;
  for (const [turn, fault] of faults.entries()) {
    await registry.faults.set(fault);
    await ask(`${root}/metadata/v1/instruments/unseen-${turn}`);
    await post(`${root}/transfer-instruction/v1/${CONTRACT}/choice-contexts/accept`, "{}");
  }
  await registry.faults.clear();
}
