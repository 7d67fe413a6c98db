import { expect, test } from "vitest";
import { type Credential, NAMES, SMALL, useBusyGateways } from "../../support/busy-gateway.ts";
import { rowOf, useConsoleScene } from "../../support/console-scene.ts";
import { until } from "../../support/until.ts";

const scene = useConsoleScene();
const startBusyGateway = useBusyGateways(scene);

test("clients are shown by key, token and certificate, with their use of their tier and what was refused to them", async () => {
  const { gateway, ask } = await startBusyGateway();
  const page = await scene.open(gateway, { at: "clients" });
  const row = (credential: Credential) => rowOf(page, "Clients", NAMES[credential]);
  const sent = { token: 3, certificate: 2, nothing: 1 } as const;
  for (const [credential, count] of Object.entries(sent) as [keyof typeof sent, number][])
    for (let i = 0; i < count; i += 1) expect(await ask(credential, "amulet")).toBe(200);
  const statuses: number[] = [];
  for (let i = 0; i < SMALL + 4; i += 1) statuses.push(await ask("key of a small tier", "amulet"));
  expect(statuses).toEqual([...Array.from({ length: SMALL }, () => 200), 429, 429, 429, 429]);
  const cells = async (credential: Credential) => {
    const texts = await row(credential).getByRole("cell").allInnerTexts();
    const [kind, tier, , requests, refused, why] = texts;
    return { kind, tier, requests, refused, why };
  };
  const nothing = { refused: "0", why: "–" };
  for (const [credential, told] of [
    ["key", { kind: "key", tier: "wallet", requests: "19", ...nothing }],
    ["token", { kind: "token", tier: "wallet", requests: "3", ...nothing }],
    ["certificate", { kind: "certificate", tier: "wallet", requests: "2", ...nothing }],
    ["nothing", { kind: "anonymous", tier: "browser", requests: "1", ...nothing }],
    [
      "key of a small tier",
      { kind: "key", tier: "small", requests: String(SMALL + 4), refused: "4", why: "client_rate_limited 4" },
    ],
  ] as const)
    await expect.poll(() => cells(credential)).toEqual(told);
  // Of what it used since the answer before: all of its tier, or more.
  await until(async () => (await ask("key of a small tier", "amulet")) === 429);
  await expect.poll(() => row("key of a small tier").innerText()).toMatch(/[1-9]\d* of 5 \/ min/);
  await expect.poll(() => row("key").innerText()).toMatch(/of 1,000 \/ min/);
  await rowOf(page, "Tiers", "small").getByText("requests: 5, per: 1 min").waitFor();
  // Who it was leads to what it asked for.
  await row("token").getByRole("link", { name: NAMES.token }).click();
  await page.getByRole("heading", { level: 1, name: "Requests" }).waitFor();
  await expect.poll(() => rowOf(page, "Latest requests", NAMES.token).count()).toBe(3);
  expect(await rowOf(page, "Latest requests", NAMES.key).count()).toBe(0);
});
