import { type ClientRequest, get } from "node:http";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import type { Instrument } from "../../../src/sandbox/instrument.ts";
import { instrumentsOf, useAggregates } from "../../support/aggregate-registries.ts";
import { subscribe } from "../../support/event-stream.ts";
import { startGateway } from "../../support/gateway.ts";
import { GatewayProcess } from "../../support/gateway-process.ts";
import { startRedis } from "../../support/redis.ts";
import { ShiftedClock } from "../../support/shifted-clock.ts";
import { until } from "../../support/until.ts";

const { startRegistries } = useAggregates();

const SUBSCRIBERS = 1_000;
const CHANGES = 10_000;
const MIB = 1024 * 1024;

/** A client over all of its connections: it counts what it is told, and holds it against what the others were told. */
class Client {
  told = 0;
  resets = 0;
  connections = 0;
  /** Places at which another client was told something else. */
  differences = 0;
  private lastId: string | undefined;
  private request: ClientRequest | undefined;
  private isClosed = false;
  private readonly urls: readonly string[];
  private readonly history: string[];

  constructor(urls: readonly string[], history: string[]) {
    this.urls = urls;
    this.history = history;
  }

  /** Follows changes until it is closed, at the next replica when one refuses or ends. */
  async run(first: number): Promise<void> {
    for (let at = first; !this.isClosed; at += 1) {
      await this.follow(this.urls[at % this.urls.length]!);
      // As `retry` says, or nearly.
      if (!this.isClosed) await sleep(200 + 500 * Math.random());
    }
  }

  close(): void {
    this.isClosed = true;
    this.request?.destroy();
  }

  private follow(url: string): Promise<void> {
    const headers = this.lastId === undefined ? {} : { "last-event-id": this.lastId };
    return new Promise((resolve) => {
      this.request = get(`${url}/catalog/v1/changes`, { headers, agent: false }, (answer) => {
        this.connections += 1;
        let rest = "";
        answer.setEncoding("utf8").on("data", (chunk: string) => {
          const frames = (rest + chunk).split("\n\n");
          rest = frames.pop()!;
          for (const frame of frames) this.take(frame);
        });
        answer.on("error", () => undefined);
        answer.on("close", resolve);
      });
      this.request.on("error", () => resolve());
    });
  }

  private take(frame: string): void {
    const [, id] = /^(?::\n)?id: (\S+)/.exec(frame) ?? [];
    if (id === undefined) return;
    this.lastId = id;
    if (frame.includes("\nevent: reset")) this.resets += 1;
    if (!frame.includes("\nevent: change")) return;
    this.history[this.told] ??= frame;
    if (this.history[this.told] !== frame) this.differences += 1;
    this.told += 1;
  }
}

test("a thousand subscribers are told ten thousand changes once each, though a replica is restarted midway", async () => {
  const redis = await startRedis();
  onTestFinished(() => redis.stop());
  const [amulet, bonds] = [instrumentsOf("AMULET", 1_000), instrumentsOf("BONDS", 20)];
  let listed: Instrument[] = amulet;
  const registries = await startRegistries({ amulet: { instruments: amulet }, bonds: { instruments: bonds } });
  registries.amulet!.script(({ operation }) => {
    if (operation !== "instruments") return undefined;
    const headers = ["content-type", "application/json", "cache-control", "max-age=2"];
    return { status: 200, headers, body: JSON.stringify({ instruments: listed }) };
  });
  const upstreams = Object.entries(registries).map(([name, { admin, url }]) => ({
    name,
    admin,
    urls: [url],
    cache: { warmUp: true },
  }));
  const keys = {
    redis: { url: redis.url },
    upstreams,
    // All come from one address.
    listen: { maxConnections: 10_000 },
    log: { level: "warn" },
    shutdown: { grace: "0s" },
  };
  const replicas = [await GatewayProcess.start(keys)];
  onTestFinished(async () => void (await Promise.all(replicas.map((each) => each.stop()))));
  // Both registries came before anybody follows.
  await until(async () => (await metric(replicas[0]!, "catalogue_changes_total")) === 2);
  replicas.push(await GatewayProcess.start(keys));
  const urls = replicas.map(({ url }) => url);
  const history: string[] = [];
  const clients = Array.from({ length: SUBSCRIBERS }, () => new Client(urls, history));
  const running = clients.map((client, at) => client.run(at));
  await until(() => clients.every(({ resets }) => resets === 1));
  const before = await residentBytes(replicas[0]!);
  // Each symbol has to be seen before the next.
  for (let round = 1; round <= CHANGES / amulet.length; round += 1) {
    listed = amulet.map((each) => ({ ...each, symbol: `S${round}` }));
    if (round === 5) {
      await replicas[1]!.stop();
      replicas[1] = await GatewayProcess.start(keys, { predecessor: replicas[1]! });
    }
    await until(() => clients.every(({ told }) => told >= round * amulet.length), 240_000);
  }
  const after = await residentBytes(replicas[0]!);
  for (const { told, resets, differences } of clients) expect([told, resets, differences]).toEqual([CHANGES, 1, 0]);
  const ids = history.map((frame) => /"id":"(AMULET-\d+)"/.exec(frame)?.[1]);
  const once = amulet.map(({ id }) => id);
  expect(ids).toEqual(Array.from({ length: CHANGES / amulet.length }, () => once).flat());
  const again = clients.filter(({ connections }) => connections > 1).length;
  console.log(`resident: ${mebibytes(before)} before, ${mebibytes(after)} after; ${again} clients came back`);
  expect(again).toBeGreaterThanOrEqual(SUBSCRIBERS / 2);
  expect(after - before).toBeLessThan(256 * MIB);
  for (const client of clients) client.close();
  await Promise.all(running);
  for (const replica of replicas) await until(async () => (await metric(replica, "catalogue_subscribers")) === 0);
}, 1_200_000);

test("ten thousand that come and go leave nothing behind", async () => {
  const registries = await startRegistries({ amulet: {}, bonds: {} });
  const upstreams = Object.entries(registries).map(([name, { admin, url }]) => ({
    name,
    admin,
    urls: [url],
    cache: { warmUp: true },
  }));
  const gateway = await GatewayProcess.start({ upstreams, log: { level: "warn" } });
  onTestFinished(async () => void (await gateway.stop()));
  const comeAndGo = async (count: number) => {
    for (let begun = 0; begun < count; begun += 100) {
      const open = await Promise.all(Array.from({ length: 100 }, () => subscribe(gateway.url)));
      for (const each of open) each.close();
    }
    await until(async () => (await metric(gateway, "catalogue_subscribers")) === 0);
  };
  await comeAndGo(2_000);
  const before = await residentBytes(gateway);
  await comeAndGo(10_000);
  const after = await residentBytes(gateway);
  console.log(`resident: ${mebibytes(before)} before, ${mebibytes(after)} after`);
  expect(after - before).toBeLessThan(128 * MIB);
}, 600_000);

test("a subscriber that reads nothing is closed, and holds nothing up", async () => {
  const clock = new ShiftedClock();
  const instruments = instrumentsOf("AMULET", 5_000);
  const registries = await startRegistries({ amulet: {}, bonds: {} });
  let symbol = 0;
  registries.amulet!.script(({ operation }) => {
    if (operation !== "instruments") return undefined;
    const headers = ["content-type", "application/json", "cache-control", "max-age=5"];
    const listed = instruments.map((each) => ({ ...each, symbol: `S${symbol}` }));
    return { status: 200, headers, body: JSON.stringify({ instruments: listed }) };
  });
  const upstreams = Object.entries(registries).map(([name, { admin, url }]) => ({
    name,
    admin,
    urls: [url],
    cache: { warmUp: true },
  }));
  const gateway = await startGateway({ upstreams, log: { level: "warn" } }, { clock });
  onTestFinished(() => gateway.stop());
  const { hostname, port } = new URL(gateway.url);
  const deaf = connect(Number(port), hostname).pause();
  onTestFinished(() => void deaf.destroy());
  deaf.on("error", () => undefined);
  deaf.write("GET /catalog/v1/changes HTTP/1.1\r\nHost: g\r\n\r\n");
  const reader = await subscribe(gateway.url, { keepsText: false });
  await reader.next("change", 2);
  // More than a kernel keeps for a client that does not read.
  for (symbol = 1; symbol <= 20; symbol += 1) {
    clock.advance(6_000);
    await reader.next("change", instruments.length);
  }
  await until(async () => (await metric(gateway, "catalogue_subscribers")) === 1, 90_000);
  expect(await metric(gateway, "closed_connections_total")).toBe(1);
  expect(reader.hasEnded).toBe(false);
  reader.close();
}, 300_000);

/** The sum of a metric's series. */
async function metric(gateway: { readonly operations: string }, name: string): Promise<number> {
  const text = await (await fetch(`${gateway.operations}/metrics`)).text();
  const found = [...text.matchAll(new RegExp(`^registry_gateway_${name}(?:\\{[^}]*\\})? (\\S+)$`, "gm"))];
  return found.reduce((sum, [, value]) => sum + Number(value), 0);
}

async function residentBytes(gateway: GatewayProcess): Promise<number> {
  const text = await (await fetch(`${gateway.operations}/metrics`)).text();
  return Number(/^process_resident_memory_bytes (\S+)$/m.exec(text)![1]);
}

function mebibytes(bytes: number): string {
  return `${Math.round(bytes / MIB)} MiB`;
}
