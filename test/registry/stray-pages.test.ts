import { expect, test } from "vitest";
import { clientRequest, openRegistryOf } from "../support/registry-metadata.ts";
import { ADMIN, startRegistry } from "../support/upstream-registries.ts";

test("a page that turns out to be another's takes the instruments along that were cut out of it", async () => {
  const registry = await startRegistry({ instruments: 3 });
  const { metadata, upstream } = openRegistryOf([registry]);
  const call = upstream.call.bind(upstream);
  let leaveStep: () => void = () => undefined;
  upstream.call = async (each) => {
    const answer = await call(each);
    leaveStep = () => answer.origin!.leaveStep("another");
    return answer;
  };
  const page = await metadata.get(ADMIN, { operation: "instruments" }, clientRequest());
  const { instruments } = JSON.parse(page.body!.toString()) as { instruments: { id: string }[] };
  const get = () => metadata.get(ADMIN, { operation: "instrument", id: instruments[0]!.id }, clientRequest());
  expect((await get()).outcome).toBe("hit");
  leaveStep();
  expect((await get()).outcome).toBe("miss");
  expect(registry.calls.count("instrument")).toBe(1);
});
