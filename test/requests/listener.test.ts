import { expect, test } from "vitest";
import { errorOf, send } from "../support/send.ts";
import { useThreeRegistries } from "../support/three-registries.ts";

const running = useThreeRegistries({});

// Fastify's router refuses a path that is not percent-encoded UTF-8, before any route and any hook.
test.each([
  ["GET", "/%ff", 404, /no such path/],
  ["GET", "/registry/%ff", 400, /not percent-encoded UTF-8/],
  ["POST", "/registry/%ff", 400, /not percent-encoded UTF-8/],
  ["HEAD", "/%ff", 404, undefined],
])("%s %s is refused in our form", async (method, path, status, text) => {
  const answer = await send(running().url, { path, method, ...(method === "POST" ? { body: "{}" } : {}) });
  expect(answer.status).toBe(status);
  expect(answer.headers["x-request-id"]).toBeDefined();
  expect(answer.headers["access-control-allow-origin"]).toBe("*");
  if (text !== undefined) expect(errorOf(answer)).toMatch(text);
});

test("a preflight for a path that is not percent-encoded UTF-8 is answered", async () => {
  const answer = await send(running().url, { path: "/registry/%ff", method: "OPTIONS" });
  expect([answer.status, answer.headers["allow"]]).toEqual([204, "GET, HEAD, POST, OPTIONS"]);
});

test("an unknown transfer coding is refused, and the connection closed, whatever the path", async () => {
  const answer = await send(running().url, {
    path: "/%ff",
    method: "GET",
    headers: { "transfer-encoding": "gzip, chunked" },
  });
  expect([answer.status, answer.headers["connection"]]).toEqual([400, "close"]);
});
