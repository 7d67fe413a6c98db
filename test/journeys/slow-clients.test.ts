import { expect, test } from "vitest";
import { firstAnswer, sendRaw } from "./raw-connection.ts";
import { send } from "./send.ts";
import { useThreeRegistries } from "./three-registries.ts";

const running = useThreeRegistries({
  keys: { listen: { host: "127.0.0.1", port: 0, headersTimeout: "300ms", maxConnections: 8 } },
});

const BASE = "/api/token-standard/v0/registrars/amulet/registry";
const CANCEL = `${BASE}/allocations/v1/x/choice-contexts/cancel`;
const DRAFT = `${BASE}/drafts/v1/x`;

const PATIENCE = 8_000;

test.concurrent.each([
  ["half a request line", "GET /registry"],
  ["half a head", `GET ${BASE}/metadata/v1/info HTTP/1.1\r\nHost: g\r\nX:`],
  [
    "half a body",
    `POST ${CANCEL} HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"a"`,
  ],
  ["half a body that passes through", `POST ${DRAFT} HTTP/1.1\r\nHost: g\r\nContent-Length: 9\r\n\r\n{"a"`],
])("%s and then nothing is 408 in our form", async (_what, text) => {
  const answer = await sendRaw(running().url, text, PATIENCE);
  expect(answer.statuses).toEqual([408]);
  expect(answer.isClosed).toBe(true);
  const { head, body } = firstAnswer(answer);
  expect(head).toContain("content-type: application/json");
  expect(head).toContain("access-control-allow-origin: *");
  expect(JSON.parse(body)).toEqual({ error: expect.stringMatching(/^registry-gateway: .*too long/) });
});

test("clients that dawdle take nobody's place for long", async () => {
  const dawdlers = Array.from({ length: 8 }, () => sendRaw(running().url, "GET /", PATIENCE));
  await Promise.all(dawdlers);
  expect((await send(running().url, { path: `${BASE}/metadata/v1/info` })).status).toBe(200);
});
