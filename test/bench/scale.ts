import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { startSandbox } from "../../src/sandbox/sandbox.ts";
import { newFolder, optionsOfParent, startModule, stop, tellParent } from "../support/forks.ts";
import { type GatewayServer, startGateway } from "../support/servers.ts";
import { cpuOf, memoryOf } from "../support/usage.ts";
import { describeMachine, loadNow, table, writeSection } from "./report.ts";

/** `node test/bench/scale.ts [--write]`: one process of the gateway before 1,000 registries with 100,000 instruments in all. */

const REGISTRIES = 1_000;
const INSTRUMENTS = 100;
const PLAIN = "/registry/metadata/v1/instruments";
const PATIENCE = 300_000;

/** In a process of its own: the registries. */
async function serveRegistries(): Promise<void> {
  optionsOfParent();
  const names = Array.from({ length: REGISTRIES }, (_none, at) => `registry-${at}`);
  const all = await Promise.all(names.map((name) => startSandbox({ name, instruments: INSTRUMENTS })));
  tellParent(all.map(({ url, admin }, at) => ({ name: `r${at}`, admin, urls: [url] })));
}

async function measure(): Promise<void> {
  const rows = [["what", "took", "memory of the gateway after it"]];
  const loadBefore = loadNow();
  const work = newFolder("scale");
  await using ending = new AsyncDisposableStack();
  ending.defer(() => work.remove());
  const { child, told } = await startModule(new URL(import.meta.url), {});
  ending.defer(() => stop(child));
  let gateway: GatewayServer | undefined;
  const step = async (what: string, run: () => Promise<string | void>): Promise<void> => {
    const [began, used] = [performance.now(), gateway === undefined ? 0 : cpuOf(gateway.pid)];
    const more = await run();
    const cpu = ((cpuOf(gateway!.pid) - used) / 1e9).toFixed(2);
    const took = `${((performance.now() - began) / 1_000).toFixed(2)} s, ${cpu} s of CPU`;
    rows.push([`${what}${more ?? ""}`, took, `${(memoryOf(gateway!.pid) / 2 ** 20).toFixed(0)} MiB`]);
  };
  const get = async (path: string): Promise<Record<string, unknown[]> & { readonly nextPageToken?: string }> => {
    const answer = await fetch(`http://127.0.0.1:${gateway!.port}${path}`);
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as Record<string, unknown[]>;
  };

  const config = { cache: { ttl: { instruments: "10m" }, memory: "256MiB" }, upstreams: told };
  await step("start, until it is ready", async () => {
    gateway = await startGateway({ config, folder: join(work.folder, "gateway") });
    ending.defer(() => gateway!.stop());
  });
  await step("until each registry has named its admin", () => untilProved(gateway!));
  const walk = async (): Promise<string> => {
    let [listed, token] = [0, undefined as string | undefined];
    do {
      const page = await get(
        `${PLAIN}?pageSize=1000${token === undefined ? "" : `&pageToken=${encodeURIComponent(token)}`}`,
      );
      listed += page["instruments"]!.length;
      token = page.nextPageToken;
    } while (token !== undefined);
    return `: ${listed.toLocaleString("en")} instruments`;
  };
  await step("first page of the merged listing, cold", async () => void (await get(PLAIN)));
  await step("the merged listing to its end, cold", walk);
  await step("the same out of the cache", walk);
  await step("catalogue, one symbol searched", async () => {
    const { instruments } = await get("/catalog/v1/instruments?symbol=TEST");
    return `: ${instruments!.length} found`;
  });
  await step("purge of everything", async () => {
    const url = `http://127.0.0.1:${gateway!.operationsPort}/purge`;
    const headers = { "content-type": "application/json" };
    const { status } = await fetch(url, { method: "POST", headers, body: "{}" });
    if (status !== 200) throw new Error(`purge: ${status}`);
  });
  await step("the merged listing after it", walk);
  const report = [
    ...table(rows),
    "",
    `One process, ${describeMachine()}, the machine's load ${loadBefore} before and ${loadNow()} at the end.`,
  ].join("\n");
  console.log(report);
  if (process.argv.includes("--write")) writeSection("scale", report);
}

async function untilProved({ operationsPort }: GatewayServer): Promise<void> {
  for (const end = performance.now() + PATIENCE; performance.now() < end; await sleep(200)) {
    const answer = await fetch(`http://127.0.0.1:${operationsPort}/status`);
    const { upstreams } = (await answer.json()) as { readonly upstreams: readonly { readonly state: string }[] };
    if (upstreams.every(({ state }) => state === "up")) return;
  }
  throw new Error("some registry does not name its admin");
}

await (process.send === undefined ? measure() : serveRegistries());
