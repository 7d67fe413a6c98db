import { expect, onTestFinished, test } from "vitest";
import type { ConfigCheckAnswer } from "../../src/operations/answers.ts";
import { manyAliases } from "../support/config-check.ts";
import { startGateway } from "../support/gateway.ts";
import { useOperationsListener } from "../support/operations-listener.ts";
import { errorOf, send } from "../support/send.ts";

const start = useOperationsListener();

const GOOD = "upstreams: [{name: amulet, urls: ['http://127.0.0.1:1']}]\n";

function check(base: string, yaml: unknown) {
  return send(base, { path: "/config/check", body: JSON.stringify({ yaml }) });
}

test("a text is checked against the configuration in use, where the listener is only to show, too", async () => {
  const base = await start({ isReadonly: true });
  const answer = await check(base, `${GOOD}listen: {port: 8081}\n`);
  expect(answer.status).toBe(200);
  const { good, changes } = JSON.parse(answer.text) as ConfigCheckAnswer;
  expect(good).toBe(true);
  expect(changes).toContainEqual({ path: "listen.port", before: "0", after: "8081", effect: "restart" });
  const bad = await check(base, "a: [");
  expect(JSON.parse(bad.text)).toMatchObject({ good: false, problems: [{ line: expect.any(Number) }], changes: [] });
});

test("nothing of it is applied", async () => {
  const gateway = await startGateway({ upstreams: [{ name: "amulet", urls: ["http://127.0.0.1:1"] }] });
  onTestFinished(() => gateway.stop());
  const before = gateway.gateway.config;
  expect((await check(gateway.operations, `${GOOD}log: {level: debug}\n`)).status).toBe(200);
  expect(gateway.gateway.config).toBe(before);
});

test.each([
  ["no text", '{"yaml": 1}', 400],
  ["something else", '{"yaml": "", "x": 1}', 400],
  ["no object", "[]", 400],
  ["a text that is too long", JSON.stringify({ yaml: "x".repeat(300 * 1024) }), 413],
  ["a body that is too long", JSON.stringify({ yaml: "x".repeat(600 * 1024) }), 413],
])("%s is refused", async (_what, body, status) => {
  const base = await start({});
  const answer = await send(base, { path: "/config/check", body });
  expect(answer.status).toBe(status);
  expect(errorOf(answer)).toMatch(/^registry-gateway: /);
});

test.each([
  ["nested deeply", "[".repeat(100_000)],
  ["an alias of itself", "upstreams: &a [*a]\n"],
  // A second or so. What takes longer than a check may is tried in the long tests.
  ["a thousand aliases", manyAliases(1_000)],
])(
  "a text that is %s holds up nobody",
  async (_what, yaml) => {
    const base = await start({});
    const running = { isOver: false, answered: 0 };
    const watch = async () => {
      while (!running.isOver) {
        expect((await send(base, { path: "/livez" })).status).toBe(200);
        running.answered += 1;
      }
    };
    const watched = watch();
    const answer = await check(base, yaml);
    running.isOver = true;
    await watched;
    expect([200, 400]).toContain(answer.status);
    if (answer.status === 200) expect(JSON.parse(answer.text)).toMatchObject({ good: false });
    // A parser among the requests would have let the first of them through at the most.
    expect(running.answered).toBeGreaterThan(5);
  },
  30_000,
);

test("too many at once are refused, and the others are checked", async () => {
  const base = await start({});
  const statuses = await Promise.all(Array.from({ length: 12 }, async () => (await check(base, GOOD)).status));
  expect(statuses.filter((status) => status === 200).length).toBe(4);
  expect(statuses.filter((status) => status === 503).length).toBe(8);
  expect((await check(base, GOOD)).status).toBe(200);
}, 30_000);
