import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { startSandbox } from "../../src/sandbox/sandbox.ts";
import { newFolder, optionsOfParent, startModule, stop, tellParent } from "../support/forks.ts";
import { startGateway } from "../support/servers.ts";
import { cpuOf, memoryOf } from "../support/usage.ts";
import { describeMachine, loadNow, table, writeSection } from "./report.ts";

/** `node test/bench/scale.ts [--write]`: one process of the gateway before 1,000 registries with 100,000 instruments in all. */

const REGISTRIES = 1_000;
const INSTRUMENTS = 100;

/** In a process of its own: the registries. */
async function serveRegistries(): Promise<void> {
  optionsOfParent();
  const names = Array.from({ length: REGISTRIES }, (_none, at) => `registry-${at}`);
  const all = await Promise.all(names.map((name) => startSandbox({ name, instruments: INSTRUMENTS })));
  tellParent(all.map(({ url, admin }, at) => ({ name: names[at], admin, urls: [url] })));
}

/** What is read of the gateway's answers. */
interface Answers {
  readonly page: { readonly instruments: readonly object[]; readonly nextPageToken?: string };
  readonly status: { readonly upstreams: { readonly state: string }[]; readonly reload: { readonly takenAt: number } };
}

async function measure(): Promise<void> {
  const loadBefore = loadNow();
  const work = newFolder("scale");
  await using ending = new AsyncDisposableStack();
  ending.defer(() => work.remove());
  const { child, told } = await startModule(new URL(import.meta.url), {});
  ending.defer(() => stop(child));
  const config = { cache: { ttl: { instruments: "10m" }, memory: "256MiB" }, upstreams: told };

  const began = performance.now();
  const gateway = await startGateway({ config, folder: join(work.folder, "gateway") });
  ending.defer(() => gateway.stop());
  const rows = [["what", "took", "CPU", "memory after it"]];
  const note = (what: string, since: number, used = 0): void => {
    const seconds = [performance.now() - since, (cpuOf(gateway.pid) - used) / 1e6].map((ms) => (ms / 1e3).toFixed(2));
    rows.push([what, ...seconds.map((each) => `${each} s`), `${(memoryOf(gateway.pid) / 2 ** 20).toFixed(0)} MiB`]);
  };
  const step = async (what: string, run: () => Promise<unknown>): Promise<void> => {
    const [since, used] = [performance.now(), cpuOf(gateway.pid)];
    await run();
    note(what, since, used);
  };
  const ask = async (port: number, path: string, options: RequestInit = {}): Promise<string> => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, options);
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return answer.text();
  };
  const operate = (path: string, options?: RequestInit) => ask(gateway.operationsPort, path, options);
  const purge = { method: "POST", headers: { "content-type": "application/json" }, body: "{}" };
  const until = async (isSo: (status: Answers["status"]) => boolean): Promise<void> => {
    for (let looks = 0; !isSo(JSON.parse(await operate("/status")) as Answers["status"]); looks += 1) {
      if (looks === 1_000) throw new Error("the gateway does not come into the state that is waited for");
      await sleep(50);
    }
  };
  const list = async (): Promise<void> => {
    let [listed, token] = [0, ""];
    do {
      const text = await ask(gateway.port, `/registry/metadata/v1/instruments?pageSize=1000${token}`);
      const { instruments, nextPageToken: next } = JSON.parse(text) as Answers["page"];
      listed += instruments.length;
      token = next === undefined ? "" : `&pageToken=${encodeURIComponent(next)}`;
    } while (token !== "");
    if (listed !== REGISTRIES * INSTRUMENTS) throw new Error(`${listed} instruments are listed`);
  };

  await until(({ upstreams }) => upstreams.every(({ state }) => state === "up"));
  note("start, until each registry has named its admin", began);
  await sleep(3_000); // What a start holds up may have calls shed for two seconds.
  await step("listing of all, out of the registries", list);
  await step("listing of all, out of memory", list);
  await step("purge of all", () => operate("/purge", purge));
  await step("listing of all after it", list);
  await step("reload of the configuration", () => {
    const now = Date.now();
    process.kill(gateway.pid, "SIGHUP");
    return until(({ reload }) => reload.takenAt > now);
  });
  await step("scrape of `/metrics`", () => operate("/metrics"));
  const how = `${describeMachine()}, the machine's load ${loadBefore} before and ${loadNow()} at the end.`;
  const report = [...table(rows), "", `One process, ${how}`, "", ...table(onPaper())].join("\n");
  console.log(report);
  if (process.argv.includes("--write")) writeSection("scale", report);
}

/** What the costs in the bench's table carry, with half of each core left free. */
function onPaper(): string[][] {
  const page = readFileSync(new URL("../../docs/performance.md", import.meta.url), "utf8");
  const rows = ["memory hit", "Redis hit", "POST factory"].map((what) => {
    const cost = Number(new RegExp(`\\| ${what},[^|]*\\|[^|]*\\| ([0-9.]+) :`).exec(page)?.[1]);
    return [what, ...[1, 10].map((cores) => `${((cores * 500) / cost).toFixed(1)} thousand`)];
  });
  return [["a second, on paper", "one process", "ten replicas"], ...rows];
}

await (process.send === undefined ? measure() : serveRegistries());
