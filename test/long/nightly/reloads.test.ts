import { readdirSync, renameSync, writeFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import { stringify } from "yaml";
import { ACCEPT, CANCEL, INFO, LIST, PREFIX } from "../../support/endpoints.ts";
import { type Values, withDefaults } from "../../support/gateway.ts";
import { PROGRAM, startProcess } from "../../support/process.ts";
import { instruments, startRegistry } from "../../support/registry.ts";
import { until } from "../../support/until.ts";
import { memoryOf } from "../../support/usage.ts";

const MIB = 2 ** 20;
const RELOADS = 500;

/** A file that is written in its place is read half written now and then, and refused. */
function replace(file: string, values: Values): void {
  writeFileSync(`${file}.new`, stringify(withDefaults(values)));
  renameSync(`${file}.new`, file);
}

test("500 reloads under load cost no client an error, and leave nothing behind", async () => {
  const amulet = await startRegistry("amulet", { nodes: 2 });
  const bonds = await startRegistry("bonds");
  amulet.instruments = instruments("A", 200);
  const tiers = { anonymous: { concurrency: 100 } };
  const oauth2 = { tokenUrl: "http://127.0.0.1:1/token", clientId: "gateway", clientSecret: "secret" };
  /** Nodes, upstreams, credentials, limits, tiers and paths come and go. */
  const values = (round: number): Values => ({
    clients: round % 3 === 0 ? { tiers } : { tiers, jwt: [] },
    log: { level: "info" },
    cache: { ttl: { instruments: "1s" } },
    upstreams: [
      amulet.upstream({
        urls: amulet.urls.slice(0, 1 + (round % 2)),
        timeout: `${5 + (round % 5)}s`,
        ...(round % 4 === 0 && { rateLimit: { requests: "1000000/1m" } }),
        ...(round % 5 === 0 && { extraPaths: ["/api/utilities/v0/operator"] }),
      }),
      bonds.upstream({ auth: { bearer: `token-${round}` } }),
      ...(round % 2 === 0 ? [] : [{ name: "away", urls: ["http://127.0.0.1:1"], auth: { oauth2 } }]),
    ],
  });
  const [node = "", ...others] = PROGRAM;
  // The young generation as in the image and the unit: by itself it grows at some time, by 80 MiB and once.
  const heap = ["--max-old-space-size=128", "--max-semi-space-size=8"];
  const gateway = await startProcess(values(0), { program: [node, ...heap, ...others] });
  const { site, child, operations } = gateway;

  const over = new AbortController();
  const outcomes = new Set<string>();
  const clients = Array.from({ length: 4 }, async (_none, at) => {
    for (let round = at; !over.signal.aborted; round += 1) {
      const base = `${PREFIX}/${["amulet", "bonds"][round % 2]}`;
      const path = [INFO, LIST, CANCEL, ACCEPT][Math.floor(round / 2) % 4]!;
      const isCall = path === CANCEL || path === ACCEPT;
      outcomes.add((await (isCall ? site.post(base + path) : site.get(base + path))).outcome);
      // It stays a load, and no test of how fast one machine is.
      await pause(5);
    }
  });

  const used: { memory: number; files: number }[] = [];
  for (let round = 1; round <= RELOADS; round += 1) {
    const seen = child.stdout.length;
    replace(gateway.file, values(round));
    child.signal("SIGHUP");
    await until(() => child.stdout.includes("configuration reloaded", seen));
    if (round % 50 !== 0) continue;
    await pause(500);
    used.push({ memory: memoryOf(child.pid), files: readdirSync(`/proc/${child.pid}/fd`).length });
  }
  over.abort();
  await Promise.all(clients);
  expect(outcomes).toEqual(new Set(["200"]));
  expect(child.stdout.split("\n").filter((line) => /"level":"(error|fatal)"/.test(line))).toEqual([]);
  const text = JSON.stringify(used.map(({ memory, files }) => [Math.round(memory / MIB), files]));
  const [early, late] = [used.slice(2, 5), used.slice(-3)].map((some) => ({
    memory: Math.min(...some.map(({ memory }) => memory)),
    files: Math.min(...some.map(({ files }) => files)),
  }));
  expect(late!.memory - early!.memory, text).toBeLessThan(16 * MIB);
  expect(late!.files - early!.files, text).toBeLessThan(10);
  process.stdout.write(`reloads: MiB and files after each 50: ${text}\n`);
  expect((await operations.status()).upstreams).toHaveLength(2);
});
