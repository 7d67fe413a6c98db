import { readFileSync, writeFileSync } from "node:fs";
import { afterEach, beforeEach, expect, test } from "vitest";
import { GatewayProcess } from "../../support/gateway-process.ts";
import { until } from "../../support/until.ts";
import { useSampleRegistries } from "../../support/sample-registries.ts";
import { SteadyLoad } from "../../support/steady-load.ts";

const registry = useSampleRegistries();
const processes: GatewayProcess[] = [];

afterEach(async () => {
  await Promise.all(processes.splice(0).map((each) => each.stop()));
});

/** What operators are told to set: the kernel hands connections of a socket that closes to the others of its port. */
const MIGRATION = "/proc/sys/net/ipv4/tcp_migrate_req";

let before: string;
let isMigrating: boolean;
beforeEach(() => {
  before = readFileSync(MIGRATION, "utf8");
  setMigration("1");
  isMigrating = readFileSync(MIGRATION, "utf8").trim() === "1";
});
afterEach(() => setMigration(before));

function setMigration(value: string): void {
  try {
    writeFileSync(MIGRATION, value);
  } catch {
    // Without the right to it, what is in force is tried.
  }
}

const REPLACEMENTS = 5;

const INFO = "/registry/metadata/v1/info";
const ACCEPT = "/registry/transfer-instruction/v1/00aa/choice-contexts/accept";

/** One hit, one call that is passed on, in turns. */
function mixed(index: number) {
  return index % 2 === 0
    ? ({ method: "GET", path: INFO } as const)
    : ({ method: "POST", path: ACCEPT, body: "{}" } as const);
}

test("replicas on one port are replaced one after the other, and no request of old or new connections fails", async () => {
  const amulet = await registry({ latency: 5 });
  const keys = {
    upstreams: [{ name: "amulet", admin: amulet.admin, urls: [amulet.url] }],
    shutdown: { grace: "1s", timeout: "5s" },
  };
  const start = async (port?: number) => {
    const replica = await GatewayProcess.start({
      ...keys,
      listen: { reusePort: true, ...(port === undefined ? {} : { port }) },
    });
    processes.push(replica);
    return replica;
  };
  let replica = await start();
  const { url } = replica;
  const port = Number(new URL(url).port);
  const kept = new SteadyLoad({ url, rate: 100, request: mixed });
  const fresh = new SteadyLoad({ url, rate: 100, request: mixed, isEachNew: true, connections: 100 });
  await until(() => kept.answered > 50 && fresh.answered > 50);
  for (let i = 0; i < REPLACEMENTS; i += 1) {
    const successor = await start(port);
    replica.signal("SIGTERM");
    expect(await replica.ended).toBe(0);
    replica = successor;
  }
  const reports = await Promise.all([kept.stop(), fresh.stop()]);
  const failures = reports.map((report) => report.failures);
  if (isMigrating) return expect(failures).toEqual([{}, {}]);
  // The kernel resets what comes between the last accepting and the closing: less than one in each replacement.
  const { ECONNRESET: resets = 0, ...others } = failures[1]!;
  expect([failures[0], others]).toEqual([{}, {}]);
  expect(resets).toBeLessThanOrEqual(REPLACEMENTS);
});
