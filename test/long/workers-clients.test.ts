import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Agent, request } from "undici";
import { afterEach, expect, test, vi } from "vitest";
import { newClient } from "../support/five-registries.ts";
import { RealProcess } from "../support/real-process.ts";
import { until } from "../support/redis.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { useTemporaryFolder } from "../support/temporary-folder.ts";

// Several processes have to start on a machine that may be busy with other tests.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const registry = useSampleRegistries();
const folder = useTemporaryFolder();
let gateway: RealProcess | undefined;

afterEach(() => gateway?.dispose());

const PAGE = "/registry/metadata/v1/instruments";
const POST = "/registry/drafts/v1/x";

/** On a connection of its own, so that any worker may get it. */
async function ask(url: string, headers: Record<string, string>, body?: string): Promise<number> {
  const agent = new Agent();
  const sent = body === undefined ? { headers } : { method: "POST" as const, headers, body };
  const answer = await request(url, { dispatcher: agent, ...sent });
  await answer.body.dump();
  await agent.close();
  return answer.statusCode;
}

interface Report {
  readonly clients: readonly {
    readonly name: string;
    readonly requests: number;
    readonly refusals: Record<string, number>;
  }[];
}

test("all workers know the same clients, and tell together what these used", async () => {
  const amulet = await registry();
  const keysFile = join(folder(), "clients.yaml");
  const [first, second] = [newClient("wallet-a", "wallet"), newClient("wallet-b", "wallet")];
  writeFileSync(keysFile, JSON.stringify([first.entry]));
  gateway = await RealProcess.start({
    workers: 2,
    clients: { anonymous: false, keysFile, tiers: { wallet: { requests: 1_000, posts: { requests: 500 } } } },
    upstreams: [{ name: "amulet", admin: amulet.admin, urls: [amulet.url] }],
  });
  const { url, operations } = gateway;
  const json = { "content-type": "application/json" };
  const large = JSON.stringify({ text: "x".repeat(300_000) });
  for (let at = 0; at < 12; at++) {
    expect(await ask(url + PAGE, { "x-api-key": first.key })).toBe(200);
    expect(await ask(url + PAGE, { "x-api-key": second.key })).toBe(401);
    expect(await ask(url + PAGE, {})).toBe(401);
    // Whole, though the worker may have had to ask the primary who may call before it read it.
    expect(await ask(url + POST, { "x-api-key": first.key, ...json }, large)).toBe(200);
    expect(amulet.calls.last?.body.length).toBe(large.length);
  }
  const report = async () => (await (await fetch(`${operations}/clients`)).json()) as Report;
  expect((await report()).clients).toMatchObject([{ name: "wallet-a", requests: 24, refusals: {} }]);

  writeFileSync(keysFile, JSON.stringify([second.entry]));
  await until(() => gateway!.said("client keys changed").length === 2);
  for (let at = 0; at < 6; at++) {
    expect(await ask(url + PAGE, { "x-api-key": first.key })).toBe(401);
    expect(await ask(url + PAGE, { "x-api-key": second.key })).toBe(200);
  }
  expect(
    await gateway.metric("registry_gateway_client_refusals_total", 'client="none",reason="credential_invalid"'),
  ).toBe(18);
  expect(JSON.stringify([gateway.lines, await report()])).not.toMatch(/rgk_|sha256/);
});
