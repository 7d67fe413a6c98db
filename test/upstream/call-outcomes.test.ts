import { expect, test } from "vitest";
import type { ScriptedAnswer } from "../support/sample-registry.ts";
import {
  acceptCall,
  inTime,
  listCall,
  openUpstream,
  startRegistry,
  streamedCall,
} from "../support/upstream-registries.ts";

// Two registries failed all POSTs for eight minutes and no alert named them: nothing counted calls by what came of them.
test.each<[string, ScriptedAnswer, "answered" | "failed"]>([
  ["200", { status: 200, body: "{}" }, "answered"],
  ["404", { status: 404, body: '{"error":"none"}' }, "answered"],
  ["409", { status: 409, body: '{"error":"taken"}' }, "answered"],
  ["429", { status: 429, body: '{"error":"slow down"}' }, "failed"],
  ["500", { status: 500, body: '{"error":"broken"}' }, "failed"],
  ["503", { status: 503, body: "{}" }, "failed"],
  ["a reset", { raw: "" }, "failed"],
  ["something that is not JSON", { status: 200, body: "<html>" }, "failed"],
])("a call that a registry answers with %s counts once, as it ends", async (_what, answer, outcome) => {
  const registry = await startRegistry();
  registry.script(({ operation }) => (operation === "info" ? undefined : answer));
  const { upstream, observer } = openUpstream([registry]);
  await upstream.call(acceptCall()).catch(() => undefined);
  await upstream.call(listCall()).catch(() => undefined);
  expect(observer.calls).toEqual([`amulet transfer_accept ${outcome}`, `amulet instruments ${outcome}`]);
});

test("a call to a registry that cannot be asked has failed; what is passed through is not counted", async () => {
  const { upstream, observer } = openUpstream(["http://127.0.0.1:1"]);
  await upstream.call(acceptCall()).catch(() => undefined);
  await upstream.stream(streamedCall()).catch(() => undefined);
  expect(observer.calls).toEqual(["amulet transfer_accept failed"]);
});

test("a client that goes away, and the gateway's own limits, count for nothing", async () => {
  const registry = await startRegistry();
  const rateLimit = { requests: 3, per: "1m", maxWait: "0s" };
  const { upstream, observer } = openUpstream([registry], { rateLimit });
  await upstream.call(acceptCall());
  registry.slow(100);
  await expect(upstream.call(acceptCall({ deadline: inTime(10) }))).rejects.toMatchObject({ status: 504 });
  await expect(upstream.call(acceptCall({ signal: AbortSignal.abort() }))).rejects.toMatchObject({ status: 499 });
  await expect(upstream.call(acceptCall())).rejects.toMatchObject({ status: 429 });
  expect(observer.calls).toEqual(["amulet transfer_accept answered"]);

  const crowded = openUpstream([registry], { concurrency: { max: 1, queue: 1 } });
  await crowded.upstream.call(acceptCall());

  const calls = Array.from({ length: 3 }, () => crowded.upstream.call(acceptCall({ deadline: inTime(5_000) })));
  const settled = await Promise.allSettled(calls);
  expect(settled.filter(({ status }) => status === "rejected")).toHaveLength(1);
  expect(crowded.observer.calls).toEqual(Array(3).fill("amulet transfer_accept answered"));
});
