import { expect, test } from "vitest";
import { rowOf, spillsOf, useConsoleScene, violationsOf } from "../../support/console-scene.ts";
import { startRedis } from "../../support/redis.ts";
import { DSO } from "../../support/sample.ts";

const scene = useConsoleScene();

test.each([360, 1280])("the head shows all replicas and in what they differ, %i px wide", async (width) => {
  const registry = await scene.registry();
  const redis = await startRedis();
  scene.defer(() => redis.stop());
  const keys = (more: object = {}) => ({
    redis: { url: redis.url },
    upstreams: [{ name: "amulet", admin: DSO, urls: [registry.url] }],
    ...more,
  });
  const first = await scene.gateway(keys());
  await scene.gateway(keys({ cache: { clientTtl: "1s" } }));
  const page = await scene.open(first, { viewport: { width, height: 800 } });
  const head = page.getByText(/, 1 of 2 replicas/);
  await head.waitFor();
  await page.getByText("differ", { exact: true }).waitFor();
  await head.click();
  await page.getByRole("table", { name: "Replicas" }).waitFor();
  await rowOf(page, "Replicas", "(answers)").getByText("nothing").waitFor();
  await rowOf(page, "Replicas", /configuration$/).waitFor();
  await page
    .getByText(/follows another configuration than /)
    .first()
    .waitFor();
  expect(await violationsOf(page)).toEqual([]);
  expect(await spillsOf(page)).toEqual([]);
});
