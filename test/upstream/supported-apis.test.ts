import { supportedApis } from "../../src/sandbox/instrument.ts";
import { describe, expect, test } from "vitest";
import { readAnswerBody } from "../../src/bodies/answer.ts";
import { type NodeApis, SupportedApis } from "../../src/upstream/nodes/supported-apis.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { ADMIN, acceptCall, openUpstream, startRegistry } from "../support/upstream-registries.ts";

const V1 = ["transfer-v1 1"];
const V2 = ["transfer-v1 1", "transfer-v2 1"];
const UPGRADE = { added: ["transfer-v2 1"], removed: [] };
const ROLLBACK = { added: [], removed: ["transfer-v2 1"] };

function start() {
  const clock = new ManualClock();
  return { clock, apis: new SupportedApis(clock), nodes: [node(), node()] as const };
}

const node = (): NodeApis => ({ supportedApis: undefined });

describe("a change of supportedApis", () => {
  test("is none when nodes are heard for the first time, whatever they say", () => {
    const { apis, nodes } = start();
    expect(nodes.map((each, at) => apis.note(each, at === 0 ? V1 : V2))).toEqual([undefined, undefined]);
    expect(apis.note(nodes[0], V1)).toBeUndefined();
  });

  test("is told once while nodes are upgraded one after the other, and again when they are rolled back", () => {
    const { clock, apis, nodes } = start();
    for (const each of nodes) apis.note(each, V1);
    expect(apis.note(nodes[0], V2)).toEqual(UPGRADE);
    for (let look = 0; look < 5; look += 1) {
      clock.advance(300_000);
      expect([apis.note(nodes[1], V1), apis.note(nodes[0], V2)]).toEqual([undefined, undefined]);
    }
    expect(apis.note(nodes[1], V2)).toBeUndefined();
    expect(apis.note(nodes[1], V1)).toEqual(ROLLBACK);
    expect(apis.note(nodes[0], V1)).toBeUndefined();
  });

  test("is told at most once a minute, and not forgotten when it lasts", () => {
    const { clock, apis, nodes } = start();
    const [only] = nodes;
    apis.note(only, V1);
    const changes: unknown[] = [];
    for (let second = 0; second < 600; second += 1) {
      changes.push(apis.note(only, second % 2 === 0 ? V2 : V1));
      clock.advance(1_000);
    }
    expect(changes.filter((each) => each !== undefined).length).toBeLessThanOrEqual(10);
    clock.advance(60_000);
    apis.note(only, V1);
    clock.advance(60_000);
    expect(apis.note(only, V2)).toEqual(UPGRADE);
    expect(apis.note(only, V1)).toBeUndefined();
    clock.advance(60_000);
    expect(apis.note(only, V1)).toEqual(ROLLBACK);
  });

  test("goes on with what was known before a reload", () => {
    const { clock, apis, nodes } = start();
    apis.note(nodes[0], V1);
    const reloaded = new SupportedApis(clock);
    reloaded.inherit(apis);
    expect(reloaded.note({ ...nodes[0] }, V2)).toEqual(UPGRADE);
  });

  test("is seen in the check of a connection, without any client that asks for the info", async () => {
    const registry = await startRegistry({ version: "v1" });
    const { upstream, observer } = openUpstream([registry], { admin: ADMIN });
    await upstream.call(acceptCall());
    registry.script(({ operation }) =>
      operation === "info" ? { status: 200, body: `{"adminId":"${ADMIN}","supportedApis":{"new-v2":3}}` } : undefined,
    );
    await registry.kill();
    await registry.revive();
    await upstream.call(acceptCall());
    expect(observer.events.filter((event) => event.startsWith("apis"))).toEqual([
      `apis amulet +new-v2 3 -${Object.keys(supportedApis("v1"))
        .sort()
        .map((name) => `${name} 1`)
        .join()}`,
    ]);
  });
});

test("of an info with very many APIs or very long names a part is compared, and of what is none nothing", () => {
  const infoOf = (supportedApis: unknown) =>
    readAnswerBody(Buffer.from(JSON.stringify({ adminId: ADMIN, supportedApis })), "info").supportedApis;
  const many = Object.fromEntries(Array.from({ length: 1_000 }, (_none, at) => [`api-${at}-${"x".repeat(500)}`, 1]));
  const listed = infoOf(many)!;
  expect(listed).toHaveLength(64);
  expect(Math.max(...listed.map((each) => each.length))).toBe(100);
  expect(infoOf({ b: 1, a: 2 })).toEqual(["a 2", "b 1"]);
  for (const none of [undefined, null, 7, "x", []]) expect(infoOf(none)).toBeUndefined();
});

const DEEP = "[".repeat(30_000) + "]".repeat(30_000);

// The infos of such a registry proved nothing, so that no request reached it.
test.each([
  ["has no text", '{"toString":null}'],
  ["is deep", DEEP],
  ["is null", "null"],
])("a version that %s keeps no registry out of service", async (_what, version) => {
  const body = `{"adminId":"${ADMIN}","supportedApis":{"x":${version}}}`;
  expect(readAnswerBody(Buffer.from(body), "info").supportedApis).toEqual(["x ?"]);
  const registry = await startRegistry();
  registry.script(({ operation }) => (operation === "info" ? { status: 200, body } : undefined));
  const { upstream } = openUpstream([registry], { admin: ADMIN });
  expect((await upstream.call(acceptCall())).status).toBe(200);
  expect(upstream.status()).toMatchObject({ state: "up", nodes: [{ state: "up" }] });
});
