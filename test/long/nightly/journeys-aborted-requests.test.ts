import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { abortStorm, remainsOf } from "../../support/abort-storm.ts";
import { useThreeRegistries } from "../../support/three-registries.ts";

const running = useThreeRegistries({ upstreamKeys: { hedge: { enabled: false } }, keys: { log: { level: "fatal" } } });

const AT_A_TIME = 50;

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

/** Bytes in use on the heap and in buffers, once what can be collected was. */
async function bytesInUse(): Promise<number> {
  // What the test support and the sample registries note down is not the gateway's.
  (running().lines as unknown[]).length = 0;
  running().clearCalls();
  for (let i = 0; i < 5; i++) {
    collectGarbage();
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
  }
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

test("10,000 aborted requests leave open handles, sockets and heap where they were", async () => {
  const idle = { openCalls: 0, running: 0, queued: 0, inFlight: 0 };
  await abortStorm(running(), 2_000, AT_A_TIME);
  await expect.poll(() => remainsOf(running())).toMatchObject(idle);
  const before = { ...remainsOf(running()), bytes: await bytesInUse() };

  await abortStorm(running(), 10_000, AT_A_TIME);
  await expect.poll(() => remainsOf(running())).toMatchObject(idle);
  const after = { ...remainsOf(running()), bytes: await bytesInUse() };
  expect(after.sockets).toBeLessThan(before.sockets + 2 * AT_A_TIME);
  const grown = (after.bytes - before.bytes) / 1024 / 1024;
  console.log(`sockets ${before.sockets} → ${after.sockets}, heap and buffers ${grown.toFixed(1)} MiB more`);
  expect(grown).toBeLessThan(8);
});
