import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Config } from "../../src/config/schema.ts";
import { newClient } from "../support/five-registries.ts";
import { useGateways } from "../support/gateways.ts";
import { sendRaw } from "../support/raw-connection.ts";
import type { SampleRegistry } from "../support/sample-registry.ts";
import { UTILITY_ADMIN } from "../support/sample.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { testConfig } from "../support/gateway.ts";
import { useTemporaryFolder } from "../support/temporary-folder.ts";
import { until } from "../support/until.ts";

const registry = useSampleRegistries();
const gateway = useGateways();
const folder = useTemporaryFolder();

const INSTRUMENTS = "/registry/metadata/v1/instruments";
const INFO = "/registry/metadata/v1/info";
const ACCEPT = "/registry/transfer-instruction/v1/00aa/choice-contexts/accept";

function upstream(name: string, at: SampleRegistry, keys: Record<string, unknown> = {}) {
  return { name, admin: at.admin, urls: [at.url], ...keys };
}

function configured(keys: Record<string, unknown>): Config {
  return testConfig(keys);
}

async function statusOf(url: string): Promise<number> {
  const response = await fetch(url);
  await response.arrayBuffer();
  return response.status;
}

test("an unchanged upstream keeps its nodes, their proofs and its cache", async () => {
  const [amulet, bonds] = [await registry(), await registry({ admin: UTILITY_ADMIN })];
  const running = await gateway({ upstreams: [upstream("amulet", amulet)] });
  await statusOf(`${running.registrar("amulet")}${INSTRUMENTS}`);
  const before = running.gateway.upstreams().byName("amulet");
  amulet.calls.clear();

  await running.gateway.reload(configured({ upstreams: [upstream("amulet", amulet), upstream("bonds", bonds)] }));

  const response = await fetch(`${running.registrar("amulet")}${INSTRUMENTS}`);
  expect(response.headers.get("cache-status")).toContain("hit");
  expect(running.gateway.upstreams().byName("amulet")).toBe(before);
  expect(amulet.calls.total).toBe(0);
  expect(await statusOf(`${running.registrar("bonds")}${INFO}`)).toBe(200);
});

test("a changed upstream keeps the proofs of its nodes and its cache", async () => {
  const amulet = await registry();
  const running = await gateway({ upstreams: [upstream("amulet", amulet)] });
  await statusOf(`${running.registrar("amulet")}${INSTRUMENTS}`);

  await running.gateway.reload(configured({ upstreams: [upstream("amulet", amulet, { timeout: "3s" })] }));

  expect(running.gateway.upstreams().byName("amulet")?.isProved).toBe(true);
  const response = await fetch(`${running.registrar("amulet")}${INSTRUMENTS}`);
  expect(response.headers.get("cache-status")).toContain("hit");
});

test("an alias that moves to another admin never serves what the former one had", async () => {
  const [amulet, bonds] = [await registry({ instruments: 3 }), await registry({ admin: UTILITY_ADMIN })];
  const running = await gateway({ upstreams: [upstream("prod", amulet)] });
  const url = `${running.registrar("prod")}${INFO}`;
  const first = await (await fetch(url)).text();
  expect((await fetch(url)).headers.get("cache-status")).toContain("hit");

  await running.gateway.reload(configured({ upstreams: [upstream("prod", bonds)] }));

  const response = await fetch(url);
  expect(response.headers.get("cache-status")).toContain("fwd=uri-miss");
  const second = await response.text();
  expect(second).not.toBe(first);
  expect(second).toContain(UTILITY_ADMIN);
  expect(await statusOf(`${running.registrar(amulet.admin)}${INFO}`)).toBe(404);
});

test("a reload that is refused changes nothing: each admin is served by whom it was", async () => {
  const [amulet, bonds] = [await registry(), await registry({ admin: UTILITY_ADMIN })];
  const running = await gateway({ upstreams: [upstream("prod", amulet)] });
  const keysFile = join(folder(), "keys.jsonl");
  writeFileSync(keysFile, `${JSON.stringify(newClient("wallet", "all").entry)}\n`);
  const next = configured({
    upstreams: [upstream("prod", bonds)],
    clients: { tiers: { all: {} }, anonymous: "all", keysFile },
  });
  rmSync(keysFile);

  await expect(running.gateway.reload(next)).rejects.toThrow(/keys\.jsonl/);

  expect(await statusOf(`${running.registrar(amulet.admin)}${INFO}`)).toBe(200);
  expect(await statusOf(`${running.registrar(UTILITY_ADMIN)}${INFO}`)).toBe(404);
});

test("a removed upstream finishes what runs and is then closed", async () => {
  const [amulet, bonds] = [await registry(), await registry({ admin: UTILITY_ADMIN })];
  const running = await gateway({ upstreams: [upstream("amulet", amulet), upstream("bonds", bonds)] });
  await statusOf(`${running.registrar("bonds")}${INFO}`);
  bonds.slow(300);
  const slow = fetch(`${running.registrar("bonds")}${ACCEPT}`, { method: "POST" });
  await until(() => bonds.calls.open === 1);

  await running.gateway.reload(configured({ upstreams: [upstream("amulet", amulet)] }));

  expect(await statusOf(`${running.registrar("bonds")}${INFO}`)).toBe(404);
  expect((await slow).status).toBe(200);
  await until(() => bonds.connections.open === 0);
});

test("a request that began before a reload may still call the upstream it began with", async () => {
  const amulet = await registry();
  const running = await gateway({ upstreams: [upstream("amulet", amulet)] });
  await statusOf(`${running.registrar("amulet")}${INFO}`);
  let finish: () => void = () => {};
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(new TextEncoder().encode("{"));
      finish = () => {
        controller.enqueue(new TextEncoder().encode("}"));
        controller.close();
      };
    },
  });
  const init: RequestInit & { duplex: "half" } = {
    method: "POST",
    headers: { "content-type": "application/json" },
    body,
    duplex: "half",
  };
  const pending = fetch(`${running.registrar("amulet")}${ACCEPT}`, init);
  await until(async () => {
    const text = await (await fetch(`${running.operations}/metrics`)).text();
    return text.includes("registry_gateway_requests_in_flight 1\n");
  });

  await running.gateway.reload(configured({ upstreams: [upstream("amulet", amulet, { timeout: "9s" })] }));

  finish();
  expect((await pending).status).toBe(200);
});

test("a call budget is not renewed by a reload", async () => {
  const amulet = await registry();
  const rateLimit = { requests: 3, per: "10m", maxWait: "0s" };
  const running = await gateway({ upstreams: [upstream("amulet", amulet, { rateLimit })] });
  const post = () => fetch(`${running.registrar("amulet")}${ACCEPT}`, { method: "POST" });
  while ((await post()).status === 200);
  const calls = amulet.calls.total;

  await running.gateway.reload(configured({ upstreams: [upstream("amulet", amulet, { rateLimit, timeout: "9s" })] }));

  expect((await post()).status).toBe(429);
  expect(amulet.calls.total).toBe(calls);
});

test("the memory tier changes its size, and keeps what fits", async () => {
  const amulet = await registry();
  const upstreams = [upstream("amulet", amulet)];
  const running = await gateway({ upstreams });
  await statusOf(`${running.registrar("amulet")}${INSTRUMENTS}`);
  const metric = async (name: string): Promise<number> => {
    const text = await (await fetch(`${running.operations}/metrics`)).text();
    return Number(new RegExp(`^registry_gateway_${name} (.*)$`, "m").exec(text)?.[1]);
  };
  const held = await metric("cache_entries");
  expect(held).toBeGreaterThan(1);

  await running.gateway.reload(configured({ upstreams, cache: { memory: { maxBytes: "32MiB" } } }));
  expect(await metric("cache_max_bytes")).toBe(32 * 1024 * 1024);
  expect(await metric("cache_entries")).toBe(held);

  await running.gateway.reload(configured({ upstreams, cache: { memory: { maxBytes: "16KiB" } } }));
  expect(await metric("cache_entries")).toBeLessThan(held);
  expect(await metric("cache_bytes")).toBeLessThanOrEqual(16 * 1024);
});

test("the limit of bodies, pages, cross-origin rules and log level change at a reload, on connections that stay", async () => {
  const amulet = await registry();
  const upstreams = [upstream("amulet", amulet)];
  const running = await gateway({ upstreams });
  const send = async (bytes: number): Promise<number> => {
    const body = JSON.stringify({ meta: { text: "x".repeat(bytes) } });
    const headers = { "content-type": "application/json" };
    const response = await fetch(`${running.registrar("amulet")}${ACCEPT}`, { method: "POST", headers, body });
    await response.arrayBuffer();
    return response.status;
  };
  expect(await send(2_000)).toBe(200);
  expect(await statusOf(`${running.url}/docs`)).toBe(200);

  await running.gateway.reload(
    configured({
      upstreams,
      limits: { requestBody: "1KiB" },
      docs: false,
      cors: { origins: ["https://wallet.example"] },
      log: { level: "error" },
    }),
  );

  expect(await send(2_000)).toBe(413);
  expect(await send(100)).toBe(200);
  const response = await fetch(`${running.url}/docs`, { headers: { origin: "https://other.example" } });
  await response.arrayBuffer();
  expect(response.status).toBe(404);
  expect(response.headers.get("access-control-allow-origin")).toBeNull();
  const lines = running.lines.length;
  await statusOf(`${running.url}/nothing-here`);
  expect(running.lines.length).toBe(lines);
});

test("a request whose body is no HTTP reaches nobody after a reload of limits either", async () => {
  const amulet = await registry();
  const upstreams = [upstream("amulet", amulet)];
  const running = await gateway({ upstreams });
  const broken = (path: string) =>
    `GET ${new URL(running.registrar("amulet")).pathname}${path} HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\nzz`;
  await statusOf(`${running.registrar("amulet")}${INFO}`);
  await running.gateway.reload(configured({ upstreams, limits: { requestBody: "6KiB" } }));
  amulet.calls.clear();

  for (const path of [INSTRUMENTS, "/registry/drafts/v1/x"]) {
    const lines = running.lines.length;
    expect((await sendRaw(running.url, broken(path))).statuses).toEqual([400]);
    expect(running.lines.length).toBe(lines);
  }
  // The gateway asks for the info by itself.
  expect(amulet.calls.recent.filter(({ operation }) => operation !== "info")).toEqual([]);
});

test("keys that cannot be used are said while a reload keeps their file, and no longer", async () => {
  const keysFile = join(folder(), "clients.jsonl");
  writeFileSync(keysFile, `${JSON.stringify(newClient("wallet-a", "wallet").entry)}\n`);
  const upstreams = [upstream("amulet", await registry())];
  const keys = { upstreams, clients: { keysFile, tiers: { wallet: {} } } };
  const [running, same] = [await gateway(keys), configured(keys)];
  const unusable = async () => {
    const text = await (await fetch(`${running.operations}/metrics`)).text();
    return /_client_keys_unusable\{source="file"\} (\d)/.exec(text)?.[1];
  };
  const said = () => running.lines.filter(({ msg }) => String(msg).startsWith("client keys ca")).map(({ msg }) => msg);
  expect(await unusable()).toBe("0");
  writeFileSync(keysFile, "nothing\n");
  for (let reloads = 0; reloads < 2; reloads += 1) {
    await running.gateway.reload(same);
    expect(await unusable()).toBe("1");
  }
  await running.gateway.reload(configured({ upstreams }));
  expect(await unusable()).toBe("0");
  expect(said()).toEqual(["client keys cannot be used"]);
});
