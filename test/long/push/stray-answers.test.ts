import { expect, test } from "vitest";
import { openUpstream, inTime } from "../../support/upstream-registries.ts";
import { callUnderStrays, startStrayRegistry, type Stray } from "../../support/stray-registry.ts";

const ALL: readonly Stray[] = ["extra", "doubled", "early", "cut"];

test.each([
  ["that answers once more now and then", ["extra"] as const],
  ["that strays in every way", ALL],
])(
  "of 20,000 calls to a registry %s, none for an instrument or an info gets another's answer",
  async (_what, strays) => {
    const registry = await startStrayRegistry({ share: 0.002, strays });
    const { upstream } = openUpstream([registry.url], { attemptTimeout: "500ms", timeout: "5s" });
    await upstream.learnAdmin(inTime(5_000));
    const counts = await callUnderStrays(upstream, { requests: 20_000, concurrency: 32 });
    expect(counts).toMatchObject({ wrongInstruments: 0, wrongInfos: 0 });
  },
);
