import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { type FiveRegistries, startFiveRegistries } from "../support/five-registries.ts";
import { type PostOrder, PostingThread } from "../support/posting-thread.ts";

const BASE = "/api/token-standard/v0/registrars/amulet/registry";
const CANCEL = `${BASE}/allocations/v1/00ab/choice-contexts/cancel`;
const FACTORY_DRAFT = `${BASE}/transfer-instruction/v3/transfer-factory`;
const UPLOAD = `${BASE}/drafts/v1/x`;

let clients: PostingThread;
beforeAll(() => {
  clients = new PostingThread();
});
afterAll(() => clients.stop());

let running: FiveRegistries | undefined;
afterEach(() => running?.stop());

async function start(): Promise<FiveRegistries> {
  running = await startFiveRegistries({
    clients: { tiers: { anonymous: {}, wallet: { requests: 1, per: "24h" }, exchange: {} } },
  });
  return running;
}

const CHUNKED = { "transfer-encoding": "chunked" };
const LARGE = { bytes: 3_000_000, parts: 30 };
/** Parts within what Node keeps of a body that nobody reads yet. */
const PACED = { bytes: 200_000, parts: 200 };
const BURSTS = { bytes: 200_000, parts: 20 };

const lengthOf = ({ bytes }: { readonly bytes: number }) => ({ "content-length": bytes });

const twenty = (status: number) => Array.from({ length: 20 }, () => status);

// Closed with bytes that nobody had read, connections were reset, and many clients saw EPIPE in the place of the answer.
test.each<[string, number, string, Pick<PostOrder, "headers" | "bytes" | "parts">]>([
  ["too large, by its length", 413, CANCEL, { headers: lengthOf(LARGE), ...LARGE }],
  ["too large, in chunks", 413, CANCEL, { headers: CHUNKED, ...LARGE }],
  ["too large, its admin to be read", 413, FACTORY_DRAFT, { headers: CHUNKED, ...LARGE }],
  ["too large, passed through", 413, UPLOAD, { headers: CHUNKED, ...LARGE }],
  ["of no client that is known", 401, CANCEL, { headers: { ...CHUNKED, "x-api-key": "no" }, ...PACED }],
  ["of no client that is known, more at once", 401, CANCEL, { headers: { ...CHUNKED, "x-api-key": "no" }, ...LARGE }],
  ["of no client, its length known", 401, CANCEL, { headers: { ...lengthOf(BURSTS), "x-api-key": "no" }, ...BURSTS }],
  ["compressed", 415, UPLOAD, { headers: { ...CHUNKED, "content-encoding": "gzip" }, ...LARGE }],
])("twenty clients whose body is refused as %s see the %i", async (_what, status, path, body) => {
  const { url } = await start();
  expect(await clients.post({ url: `${url}${path}`, count: 20, ...body })).toEqual(twenty(status));
});

test("clients whose tier allows no more see the 429", async () => {
  const { url, keys } = await start();
  const order = { url: `${url}${CANCEL}`, headers: { ...CHUNKED, "x-api-key": keys.wallet }, ...PACED };
  await clients.post({ ...order, count: 1 });
  expect(await clients.post({ ...order, count: 20 })).toEqual(twenty(429));
});

test("operators see the 413", async () => {
  const { operations } = await start();
  const order = { url: `${operations}/session`, headers: CHUNKED, count: 20, ...LARGE };
  expect(await clients.post(order)).toEqual(twenty(413));
});
