import { join } from "node:path";
import { expect, test } from "vitest";
import { confirm, goTo, rowOf, useConsoleScene } from "../../support/console-scene.ts";
import { discoveryOf, listOf, partyOf, untilReadAgain, untilState, usePublishers } from "../../support/discovery.ts";
import type { GatewayProcess } from "../../support/gateway-process.ts";
import { startRedis } from "../../support/redis.ts";
import { until } from "../../support/until.ts";
import { useTemporaryFolder } from "../../support/temporary-folder.ts";

const scene = useConsoleScene();
const startPublisher = usePublishers();
const folder = useTemporaryFolder();

const LISTING = "/registry/metadata/v1/instruments";

/** A decision has effect everywhere within, by the contract. */
const EFFECTIVE_WITHIN = 2_000;
/** The page asks every 10 s. */
const ASKS_WITHIN = 20_000;

/** Two registries, each pinned where it was found first, and the same two at other URLs. */
async function startTwice() {
  const [moves, stays] = [partyOf("moves"), partyOf("stays")];
  const before = [await scene.registry({ admin: moves }), await scene.registry({ admin: stays })] as const;
  const after = [await scene.registry({ admin: moves }), await scene.registry({ admin: stays })] as const;
  const list = await startPublisher(listOf({ [moves]: before[0].url, [stays]: before[1].url }));
  const start = async (keys: object = {}): Promise<GatewayProcess> => {
    const pinFile = join(folder(), `${crypto.randomUUID()}.json`);
    const gateway = await scene.gateway({
      ...keys,
      discovery: { every: "1s", sources: [{ url: list.url }], pinFile, allowPrivate: true },
    });
    for (const admin of [moves, stays]) await untilState(gateway, admin, "pinned");
    return gateway;
  };
  const change = () => list.publish(listOf({ [moves]: after[0].url, [stays]: after[1].url }));
  let size = 0;
  /** How many listings each of the four is asked for while both aliases are asked for five. */
  const asked = async ({ url }: GatewayProcess): Promise<number[]> => {
    const all = [...before, ...after];
    const counts = all.map(({ calls }) => calls.count("instruments"));
    for (let i = 0; i < 5; i += 1) {
      size += 1;
      for (const name of ["moves", "stays"]) {
        const answer = await fetch(`${url}/api/token-standard/v0/registrars/${name}${LISTING}?pageSize=${size}`);
        await answer.arrayBuffer();
        expect(answer.status).toBe(200);
      }
    }
    return all.map(({ calls }, at) => calls.count("instruments") - counts[at]!);
  };
  return { moves, stays, before, after, list, start, change, asked };
}

test("a registry that is listed elsewhere waits with the difference shown, and goes there once it is approved alone", async () => {
  const { before, after, list, start, change, asked } = await startTwice();
  const gateway = await start();
  const page = await scene.open(gateway, { at: "discovery" });
  const row = (name: string) => rowOf(page, "Found registries", name);
  await row("moves").getByText("pinned", { exact: true }).waitFor();
  expect(await page.getByRole("button", { name: /Approve|Refuse/ }).count()).toBe(0);

  change();
  for (const [at, name] of ["moves", "stays"].entries()) {
    await row(name).getByText("waiting", { exact: true }).waitFor();
    await row(name).getByRole("deletion").getByText(before[at]!.url).waitFor();
    await row(name).getByRole("insertion").getByText(after[at]!.url).waitFor();
  }
  expect(await asked(gateway)).toEqual([5, 5, 0, 0]);

  await page.getByRole("button", { name: "Approve moves" }).click();
  await page.getByRole("dialog").getByText(after[0].url).waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  expect(await asked(gateway)).toEqual([5, 5, 0, 0]);
  await page.getByRole("button", { name: "Approve moves" }).click();
  await confirm(page, "Approve");
  await page.getByText("moves is approved on this replica.").waitFor();
  await page.getByRole("button", { name: "Refuse stays" }).click();
  await confirm(page, "Refuse");
  await page.getByText("stays is refused on this replica.").waitFor();
  for (const name of ["moves", "stays"]) await row(name).getByText("pinned", { exact: true }).waitFor();
  await row("moves").getByText(after[0].url).waitFor();
  await row("stays").getByText(before[1].url).waitFor();
  expect(await page.getByRole("deletion").or(page.getByRole("insertion")).count()).toBe(0);
  // What was refused does not wait again, though it is listed all the same.
  await untilReadAgain(list);
  await page.reload();
  await row("stays").getByText("pinned", { exact: true }).waitFor();
  expect(await page.getByRole("button", { name: /Approve|Refuse/ }).count()).toBe(0);
  expect(await asked(gateway)).toEqual([0, 5, 5, 0]);
  await goTo(page, "Overview");
  for (const approve of [true, false]) await rowOf(page, "What operators did", `"approve":${approve}`).waitFor();
});

test("what is approved and refused in the console of one replica counts on the other within 2 s", async () => {
  const redis = await startRedis();
  scene.defer(() => redis.stop());
  const { moves, stays, before, after, start, change, asked } = await startTwice();
  const [one, other] = [await start({ redis: { url: redis.url } }), await start({ redis: { url: redis.url } })];
  change();
  for (const gateway of [one, other]) for (const admin of [moves, stays]) await untilState(gateway, admin, "waiting");
  const pages = [await scene.open(one, { at: "discovery" }), await scene.open(other, { at: "discovery" })] as const;
  for (const page of pages) await rowOf(page, "Found registries", "moves").getByText("would come").waitFor();
  const settled = async (admin: string, url: string) => {
    const { registries } = await discoveryOf(other);
    const found = registries.find((each) => each.admin === admin);
    return found?.state === "pinned" && found.urls.join() === url;
  };
  await pages[0].getByRole("button", { name: "Approve moves" }).click();
  await confirm(pages[0], "Approve");
  await pages[0].getByText("moves is approved on 2 of 2 replicas.").waitFor();
  await until(() => settled(moves, after[0].url), EFFECTIVE_WITHIN);
  await pages[0].getByRole("button", { name: "Refuse stays" }).click();
  await confirm(pages[0], "Refuse");
  await pages[0].getByText("stays is refused on 2 of 2 replicas.").waitFor();
  await until(() => settled(stays, before[1].url), EFFECTIVE_WITHIN);
  expect(await asked(other)).toEqual([0, 5, 5, 0]);
  // And who looks at the other replica sees it.
  for (const name of ["Approve moves", "Refuse stays"])
    await pages[1].getByRole("button", { name }).waitFor({ state: "detached", timeout: ASKS_WITHIN });
  await rowOf(pages[1], "Found registries", "moves").getByText(after[0].url).waitFor();
});
