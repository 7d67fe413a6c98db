import { expect, test } from "vitest";
import { type AskedUpstream, type ContextQuestion, Contexts } from "../../src/registry/contexts.ts";
import { localCoordinator } from "../../src/sharing/alone.ts";
import type { UpstreamAnswer, UpstreamCall } from "../../src/upstream/call.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { ADMIN, upstreamConfigs } from "../support/upstream-registries.ts";

type Ask = (call: UpstreamCall) => Promise<UpstreamAnswer>;

function open(contexts: object) {
  const clock = new ManualClock();
  const [config] = upstreamConfigs({ name: "amulet", admin: ADMIN, urls: ["http://registry.example"], contexts });
  const spared: string[] = [];
  const store = new Contexts({
    clock,
    epochs: localCoordinator(clock).epochs,
    observer: { callSpared: (_, by) => spared.push(by) },
  });
  const upstreamOf = (call: Ask): AskedUpstream => ({
    name: "amulet",
    admin: ADMIN,
    config: config!,
    refusal: () => undefined,
    call,
  });
  const question = (body: string | Buffer): ContextQuestion => ({
    call: {
      operation: "transfer_accept",
      method: "POST",
      path: "/registry/transfer-instruction/v1/00aa/choice-contexts/accept",
      fields: [],
      body: Buffer.from(body),
      priority: "post",
    },
    contracts: ["00aa"],
    headers: {},
    check: () => undefined,
    deadline: clock.now() + 15_000,
  });
  const answer = (body: string, fields = ["cache-control", "max-age=60"]): UpstreamAnswer => ({
    status: 200,
    fields,
    body: Buffer.from(body),
    content: undefined,
    requestedAt: clock.now(),
    receivedAt: clock.now(),
    node: 0,
  });
  return { clock, store, spared, upstreamOf, question, answer };
}

test("10,000 different questions take no more than 16 MiB, and the latest are kept", async () => {
  const { store, spared, upstreamOf, question, answer } = open({ share: true, maxAge: "1m" });
  const text = "x".repeat(4_000);
  const upstream = upstreamOf(async () => answer(text));
  let most = 0;
  for (let i = 0; i < 10_000; i += 1) {
    await store.ask(upstream, question(`{"n":${i}}`));
    most = Math.max(most, store.bytes);
  }
  expect(most).toBeGreaterThan(15 * 2 ** 20);
  expect(most).toBeLessThanOrEqual(16 * 2 ** 20);
  expect(spared).toEqual([]);
  await store.ask(upstream, question('{"n":9999}'));
  expect(spared).toEqual(["kept"]);
});

test("an answer that is too large is given and not kept", async () => {
  const { store, upstreamOf, question, answer } = open({ maxAge: "1m" });
  const upstream = upstreamOf(async () => answer("x".repeat(2 ** 20)));
  expect((await store.ask(upstream, question("{}"))).answer.body).toHaveLength(2 ** 20);
  expect(store.bytes).toBe(0);
});

test("an answer that was asked for earlier takes no place of a later one", async () => {
  const { clock, store, upstreamOf, question, answer } = open({ maxAge: "1m" });
  const { promise, resolve } = Promise.withResolvers<void>();
  const calls: Ask[] = [
    async () => {
      const early = answer("early");
      await promise;
      return early;
    },
    async () => answer("late"),
  ];
  const upstream = upstreamOf((call) => calls.shift()!(call));
  const first = store.ask(upstream, question("{}"));
  clock.advance(1_000);
  await store.ask(upstream, question("{}"));
  resolve();
  expect((await first).answer.body.toString()).toBe("early");
  expect((await store.ask(upstream, question("{}"))).answer.body.toString()).toBe("late");
});

test("a call has the upstream's whole time, whatever the first client's deadline", async () => {
  const { clock, store, upstreamOf, question, answer } = open({ share: true });
  const { promise, resolve } = Promise.withResolvers<UpstreamAnswer>();
  const asked: UpstreamCall[] = [];
  const upstream = upstreamOf((call) => {
    asked.push(call);
    return promise;
  });
  const start = clock.now();
  const first = store.ask(upstream, { ...question("{}"), deadline: start + 1_000 });
  const second = store.ask(upstream, question("{}"));
  const failed = expect(first).rejects.toMatchObject({ code: "upstream_timeout" });
  clock.advance(1_000);
  await failed;
  expect(asked).toHaveLength(1);
  expect(asked[0]!.deadline).toBe(start + 15_000);
  expect(asked[0]!.signal?.aborted).toBe(false);
  resolve(answer("here"));
  expect((await second).answer.body.toString()).toBe("here");
});

test("a call ends when the last that waits has gone, and the next question is another call", async () => {
  const { clock, store, upstreamOf, question, answer } = open({ share: true });
  const asked: UpstreamCall[] = [];
  const upstream = upstreamOf((call) => {
    asked.push(call);
    return asked.length === 1 ? new Promise(() => undefined) : Promise.resolve(answer("here"));
  });
  const first = store.ask(upstream, { ...question("{}"), deadline: clock.now() + 1_000 });
  const failed = expect(first).rejects.toMatchObject({ code: "upstream_timeout" });
  clock.advance(1_000);
  await failed;
  expect(asked[0]!.signal?.aborted).toBe(true);
  expect((await store.ask(upstream, question("{}"))).answer.body.toString()).toBe("here");
});
