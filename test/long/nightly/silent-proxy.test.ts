import { expect, test } from "vitest";
import { startRawServer } from "../../support/raw.ts";
import { until } from "../../support/until.ts";
import { useUpstreams } from "../../support/upstream.ts";

test("a proxy that never answers CONNECT has its connections closed, soon after those who waited have left", async () => {
  let [open, accepted] = [0, 0];
  const httpProxy = await startRawServer((socket) => {
    [open, accepted] = [open + 1, accepted + 1];
    socket.resume().once("close", () => (open -= 1));
  });
  const far = { name: "far", admin: "far::1220", urls: ["https://far.example"], httpProxy };
  const gateway = useUpstreams([far]);
  expect((await gateway.call("transfer_factory", { name: "far", within: 1_000 })).error).toBeDefined();
  gateway.upstreams.close();
  expect(accepted).toBeGreaterThan(0);
  // They stayed for five minutes, undici's own patience. Its timers may be a second late.
  await until(() => open === 0, 20_000);
});
