import { createInterface } from "node:readline";
import { createGateway } from "../gateway/gateway.ts";
import { type CancelTimer, type Clock, type Duration, systemClock } from "../clock.ts";
import { parseConfig } from "../config/parse.ts";
import type { Config } from "../config/schema.ts";
import { createLogger } from "../observe/log.ts";
import { SampleRegistry } from "../sandbox/registry.ts";
import { measureLoop } from "../gateway/overload.ts";
import { version } from "../version.ts";
import { demoInstructions, transfer } from "./demo-instructions.ts";
import { residentBytes } from "./process-memory.ts";
import { EXIT, parsePort, UsageError } from "./command-line.ts";
import { printLine, printLines, untilInterrupted } from "./terminal.ts";

const PORTS = { public: 8080, operations: 9090 };

/** A sample registry of the demo, by the alias that it has in the gateway. */
export interface DemoRegistry {
  readonly name: string;
  readonly about: string;
  readonly registry: SampleRegistry;
}

interface DemoOptions {
  readonly port: unknown;
  readonly operationsPort: unknown;
}

/** `demo`: three sample registries of different behaviour on loopback with the gateway before them, memory only. */
export async function demo(options: DemoOptions): Promise<number> {
  // Before anything listens, which would keep the process.
  const wanted = portsOf(options);
  const clock = systemClock();
  const registries = demoRegistries(clock);
  await Promise.all(registries.map(({ registry }) => registry.start()));
  const gateway = await createGateway({
    config: demoConfig(registries, wanted),
    log: createLogger("silent"),
    clock,
    random: Math.random,
    version,
    // For the console's charts.
    loop: measureLoop(),
    residentBytes,
  });
  try {
    const ports = await gateway.start();
    printLines(demoInstructions(registries, ports));
    const traffic = startDemoTraffic({ registries, clock, origin: `http://127.0.0.1:${ports.publicPort}` });
    await untilStopped(registries);
    traffic.stop();
    return EXIT.ok;
  } catch (error) {
    const { message, port } = error as { message: string; port?: number };
    if (port === undefined) throw error;
    printLine(`${message}: choose others with --port and --operations-port (0: any free one)`, process.stderr);
    return EXIT.failure;
  } finally {
    await gateway.stop({ grace: false });
    await Promise.all(registries.map(({ registry }) => registry.stop()));
  }
}

/** @throws UsageError */
function portsOf(options: DemoOptions): { port: number; operationsPort: number } {
  const port = parsePort("--port", options.port) ?? PORTS.public;
  const operationsPort = parsePort("--operations-port", options.operationsPort) ?? PORTS.operations;
  if (port === operationsPort && port !== 0) {
    throw new UsageError(`--port and --operations-port are both ${port}: take different ones`);
  }
  return { port, operationsPort };
}

function demoRegistries(clock: Clock): readonly DemoRegistry[] {
  return [
    {
      name: "amulet",
      about: "fast, few instruments",
      registry: new SampleRegistry({ admin: `DSO::1220${"13f1b3a8".repeat(8)}`, clock, instruments: 3 }),
    },
    {
      name: "bonds",
      about: "500 instruments in pages; ignores the admin in a body, as one big registry does",
      registry: new SampleRegistry({
        admin: `bond-registry::1220${"2194ab45".repeat(8)}`,
        clock,
        instruments: 500,
        checksBodyAdmin: false,
        style: "utility",
      }),
    },
    {
      name: "funds",
      about: "slow: 400 ms an answer; tokens are indexes; has no version 2",
      registry: new SampleRegistry({
        admin: `fund-registry::1220${"d7dcf089".repeat(8)}`,
        clock,
        instruments: 60,
        paging: "index",
        latency: 400,
        version: "v1",
        unknownPaths: "html",
      }),
    },
  ];
}

function demoConfig(
  registries: readonly DemoRegistry[],
  { port, operationsPort }: { port: number; operationsPort: number },
): Config {
  const text = JSON.stringify({
    listen: { host: "127.0.0.1", port },
    operations: { host: "127.0.0.1", port: operationsPort },
    // For the console's page of requests; the demo prints no log.
    log: { hits: 1 },
    upstreams: registries.map(({ name, registry }) => ({ name, admin: registry.admin, urls: [registry.url] })),
  });
  const { config, problems } = parseConfig({ text, file: "demo", env: {} });
  if (config === undefined) throw new Error(`the demo's configuration is bad: ${JSON.stringify(problems)}`);
  return config;
}

/** Until Ctrl-C; meanwhile does what is typed. */
async function untilStopped(registries: readonly DemoRegistry[]): Promise<void> {
  // Without an output it leaves the terminal as it is: Ctrl-C stays a signal.
  const lines = createInterface({ input: process.stdin });
  lines.on("line", (line) => void obey(line, registries));
  await untilInterrupted();
  lines.close();
}

const SLOWER = 2_000;

/** `kill funds`, `revive funds`, `slow funds`. */
async function obey(line: string, registries: readonly DemoRegistry[]): Promise<void> {
  const [word, name] = line.trim().split(/\s+/);
  if (word === "" || word === undefined) return;
  const registry = registries.find((each) => each.name === name)?.registry;
  if (registry !== undefined && word === "kill" && registry.isListening) {
    await registry.kill();
    printLine(`${name} is killed: its cached answers are still served. revive ${name} brings it back`);
  } else if (registry !== undefined && word === "revive") {
    if (!registry.isListening) await registry.revive();
    registry.slow(0);
    printLine(`${name} is as it was`);
  } else if (registry !== undefined && word === "slow") {
    registry.slow(SLOWER);
    printLine(`${name} takes ${SLOWER / 1_000} s longer for each answer. revive ${name} ends that`);
  } else {
    printLine(`type kill, revive or slow and one of ${registries.map((each) => each.name).join(", ")}`);
  }
}

/** Between two requests. */
const PAUSE: Duration = 150;
const REQUEST_DEADLINE: Duration = 5_000;

interface DemoTrafficOptions {
  readonly registries: readonly DemoRegistry[];
  readonly clock: Clock;
  /** Of the public listener. */
  readonly origin: string;
}

/** A client that asks each registry in turn for what wallets ask for, so that the console has something to show. */
function startDemoTraffic({ registries, clock, origin }: DemoTrafficOptions): { stop(): void } {
  let turn = 0;
  let timer: CancelTimer | undefined;
  function next(): void {
    const demoRegistry = registries[turn % registries.length]!;
    const requests = requestsOf(demoRegistry, turn);
    const { path, body } = requests[Math.floor(turn / registries.length) % requests.length]!;
    void send(`${origin}/api/token-standard/v0/registrars/${demoRegistry.name}/registry/${path}`, body);
    turn += 1;
    timer = clock.after(PAUSE, next);
  }
  next();
  return { stop: () => timer?.() };
}

/** By turns what the cache spares the registry, and a transfer, of which each is a call. */
function requestsOf({ registry }: DemoRegistry, turn: number): readonly { path: string; body?: string }[] {
  const instruments = registry.catalogue.list();
  const { id } = instruments[turn % instruments.length]!;
  const one = `instruments/${encodeURIComponent(id)}`;
  const body = transfer(registry.admin, { admin: registry.admin, id });
  const reads = ["info", "instruments", "instruments?pageSize=20", one, one, "instruments/none"];
  return reads.flatMap((path) => [
    { path: `metadata/v1/${path}` },
    { path: "transfer-instruction/v1/transfer-factory", body },
  ]);
}

async function send(url: string, body: string | undefined): Promise<void> {
  const post = { method: "POST", headers: { "content-type": "application/json" }, body: body ?? "" };
  try {
    const answer = await fetch(url, { ...(body !== undefined && post), signal: AbortSignal.timeout(REQUEST_DEADLINE) });
    await answer.arrayBuffer();
  } catch {
    // The gateway is being stopped, or a registry was killed: the console shows it.
  }
}
