import { connect } from "node:net";
import { describe, expect, test } from "vitest";
import { contractId } from "../../src/sandbox/contracts.ts";
import { type SentRequest, send } from "../support/send.ts";
import { ADMINS, STRANGER, useThreeRegistries } from "../support/three-registries.ts";

const running = useThreeRegistries({ upstreamKeys: { auth: { bearerToken: "token-of-the-gateway" } } });

const ALIAS = "/api/token-standard/v0/registrars/amulet/registry";
const BY_PARTY = `/api/token-standard/v0/registrars/${encodeURIComponent(ADMINS.amulet)}/registry`;
const CONTRACT = contractId(ADMINS.amulet, "a secret contract");
const CREDENTIALS = { authorization: "Bearer token-of-the-client", cookie: "session=cookie-of-the-client" };
const ALICE = `alice-wallet::1220${"a1".repeat(32)}`;

const rows: readonly [string, SentRequest, Record<string, unknown>][] = [
  [
    "a miss",
    { path: `${ALIAS}/metadata/v1/instruments?pageSize=2` },
    { operation: "instruments", upstream: "amulet", status: 200, outcome: "miss" },
  ],
  [
    "an instrument",
    { path: `${BY_PARTY}/metadata/v1/instruments/SECRET-ID` },
    {
      operation: "instrument",
      upstream: "amulet",
      status: 404,
      outcome: "miss",
      instrument: expect.stringMatching(/^[0-9a-f]{12}$/),
    },
  ],
  [
    "a context",
    {
      path: `${BY_PARTY}/allocations/v1/${CONTRACT}/choice-contexts/cancel`,
      body: '{"meta":{"x":"secret-in-a-body"}}',
    },
    {
      operation: "allocation_cancel",
      upstream: "amulet",
      status: 200,
      outcome: "bypass",
      contract: expect.stringMatching(/^[0-9a-f]{12}$/),
    },
  ],
  [
    "a factory",
    {
      path: "/registry/transfer-instruction/v1/transfer-factory",
      body: JSON.stringify({ choiceArguments: { expectedAdmin: ADMINS.amulet, sender: ALICE } }),
    },
    { operation: "transfer_factory", upstream: "amulet", status: 200, outcome: "bypass" },
  ],
  [
    "what passes through",
    { path: `${ALIAS}/drafts/v1/SECRET-ID?party=${ALICE}` },
    { operation: "pass_through", upstream: "amulet", status: 200, outcome: "bypass" },
  ],
  [
    "an unknown admin",
    { path: `/api/token-standard/v0/registrars/${STRANGER}/registry/metadata/v1/info` },
    { operation: "info", upstream: "none", status: 404, outcome: "refused" },
  ],
  [
    "a disagreement",
    { path: `${BY_PARTY}/metadata/v1/info`, headers: { "x-instrument-admin": STRANGER } },
    { operation: "info", upstream: "none", status: 400, outcome: "refused" },
  ],
  [
    "a bad body",
    { path: `${ALIAS}/allocations/v1/${CONTRACT}/choice-contexts/cancel`, body: '{"secret-in-a-body"' },
    { status: 400, outcome: "refused" },
  ],
  [
    "no such path",
    { path: `/nothing/${ALICE}` },
    { operation: "none", upstream: "none", status: 404, outcome: "refused" },
  ],
  [
    "a method",
    { path: `${ALIAS}/metadata/v1/info`, method: "DELETE" },
    { status: 405, outcome: "refused", method: "DELETE" },
  ],
  ["a preflight", { path: `${ALIAS}/metadata/v1/info`, method: "OPTIONS" }, { status: 204, method: "OPTIONS" }],
];

/** The lines about requests since `from`. */
const requestLines = (from: number): Record<string, unknown>[] =>
  running()
    .lines.slice(from)
    .filter(({ msg }) => msg === "request");

describe("the log has exactly one line for", () => {
  test.each(rows)("%s", async (_what, request, fields) => {
    const from = running().lines.length;
    await send(running().url, {
      ...request,
      headers: { ...CREDENTIALS, "x-request-id": "log-me-17", ...request.headers },
    });
    await expect.poll(() => requestLines(from)).toHaveLength(1);
    const [line] = requestLines(from);
    expect(line).toMatchObject({
      level: "info",
      requestId: "log-me-17",
      method: request.method ?? (request.body === undefined ? "GET" : "POST"),
      durationMs: expect.any(Number),
      bytes: expect.any(Number),
      ...fields,
    });
  });

  test("a client that went away", async () => {
    const { amulet } = running().registries;
    const from = running().lines.length;
    await amulet.faults.set({ kind: "hang", operations: ["allocation_cancel"] });
    amulet.calls.clear();
    const { hostname, port } = new URL(running().url);
    const socket = connect(Number(port), hostname);
    socket.write(`POST ${ALIAS}/allocations/v1/x/choice-contexts/cancel HTTP/1.1\r\nHost: g\r\n\r\n`);
    await amulet.calls.reached(1);
    socket.destroy();
    await expect.poll(() => requestLines(from)).toHaveLength(1);
    expect(requestLines(from)[0]).toMatchObject({ operation: "allocation_cancel", status: 499 });
    await amulet.faults.clear();
  });
});

test("an answer that breaks off at the registry is its failure, not the client's", async () => {
  const { amulet } = running().registries;
  const from = running().lines.length;
  await amulet.faults.set({ kind: "truncate", operations: ["pass_through"], times: 1 });
  await expect(send(running().url, { path: `${ALIAS}/drafts/v1/x` })).rejects.toThrow(/aborted|ECONNRESET/);
  await expect.poll(() => requestLines(from)).toHaveLength(1);
  expect(requestLines(from)[0]).toMatchObject({
    operation: "pass_through",
    status: 502,
    reason: "http_response_incomplete",
  });
});

test("hits are not logged, unless asked for", async () => {
  const request = { path: `${ALIAS}/metadata/v1/instruments?pageSize=3` };
  await send(running().url, request);
  const from = running().lines.length;
  for (let i = 0; i < 5; i++) await send(running().url, request);
  expect(requestLines(from)).toEqual([]);
});

test("one id has one hash, so that its lines can be found", async () => {
  const from = running().lines.length;
  for (const id of ["ONE", "OTHER", "ONE"]) {
    await send(running().url, { path: `${ALIAS}/allocations/v1/${id}/choice-contexts/cancel`, body: "{}" });
  }
  await expect.poll(() => requestLines(from)).toHaveLength(3);
  const [one, other, again] = requestLines(from).map(({ contract }) => contract);
  expect(one).toBe(again);
  expect(one).not.toBe(other);
});

test("no line of all these holds a party, an id, a body, a credential or an address", async () => {
  const { amulet } = running().registries;
  for (const fault of ["reset", "html-404", "not-json", "redirect"] as const) {
    await amulet.faults.set({ kind: fault, operations: ["allocation_cancel", "transfer_factory"] });
    await send(running().url, rows[2]![1]);
    await send(running().url, rows[3]![1]);
  }
  await amulet.faults.clear();
  const text = running()
    .lines.map((line) => JSON.stringify(line))
    .join("\n");
  expect(text.split("\n").length).toBeGreaterThan(20);
  const secrets = [
    ...Object.values(ADMINS),
    STRANGER,
    ALICE,
    CONTRACT,
    "SECRET-ID",
    "secret-in-a-body",
    "token-of-the-client",
    "cookie-of-the-client",
    "token-of-the-gateway",
    "127.0.0.1",
    `:${new URL(amulet.url).port}`,
  ];
  for (const secret of secrets) expect([secret, text.includes(secret)]).toEqual([secret, false]);
});
