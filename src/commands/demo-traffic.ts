import type { CancelTimer, Clock, Duration } from "../clock.ts";
import type { DemoRegistry } from "./demo.ts";
import { transfer } from "./demo-instructions.ts";

/** Between two requests. */
const PAUSE: Duration = 150;
const DEADLINE: Duration = 5_000;

export interface DemoTrafficOptions {
  readonly registries: readonly DemoRegistry[];
  readonly clock: Clock;
  /** Of the public listener. */
  readonly origin: string;
}

/** A client that asks each registry in turn for what wallets ask for, so that the console has something to show. */
export function startDemoTraffic({ registries, clock, origin }: DemoTrafficOptions): { stop(): void } {
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
    const answer = await fetch(url, { ...(body !== undefined && post), signal: AbortSignal.timeout(DEADLINE) });
    await answer.arrayBuffer();
  } catch {
    // The gateway is being stopped, or a registry was killed: the console shows it.
  }
}
