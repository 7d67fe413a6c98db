import { clearLine, cursorTo, emitKeypressEvents, moveCursor } from "node:readline";
import type { Gateway } from "../gateway.ts";
import type { DemoRegistry } from "./demo.ts";

const REFRESH_MS = 500;
const SLOW_MS = 2_000;

interface ScoreboardOptions {
  readonly gateway: Gateway;
  readonly registries: readonly DemoRegistry[];
  readonly stopped: Promise<void>;
}

/** The live scoreboard of the demo in a terminal, with keys to break registries. Ends on `q`, Ctrl-C or `stopped`. */
export async function runScoreboard({ gateway, registries, stopped }: ScoreboardOptions): Promise<void> {
  const { stdin, stdout } = process;
  let drawnLines = 0;
  let note = "";

  async function draw(): Promise<void> {
    const lines = [...(await scoreboardLines(gateway, registries)), note];
    if (drawnLines > 0) moveCursor(stdout, 0, -drawnLines);
    for (const line of lines) {
      cursorTo(stdout, 0);
      clearLine(stdout, 0);
      // A terminal that does not know its width says 0.
      stdout.write(`${stdout.columns > 0 ? line.slice(0, stdout.columns) : line}\n`);
    }
    drawnLines = lines.length;
  }

  let end: () => void = () => undefined;
  const quit = new Promise<void>((resolve) => {
    end = resolve;
  });
  function onKey(_text: string | undefined, key: { name?: string; ctrl?: boolean; sequence?: string }): void {
    if (key.name === "q" || (key.ctrl === true && key.name === "c")) end();
    else void act(key.sequence ?? "", registries).then((done) => (note = done ?? note));
  }

  emitKeypressEvents(stdin);
  stdin.setRawMode(true);
  stdin.on("keypress", onKey);
  const timer = setInterval(() => void draw(), REFRESH_MS);
  try {
    await draw();
    await Promise.race([quit, stopped]);
  } finally {
    clearInterval(timer);
    stdin.off("keypress", onKey);
    stdin.setRawMode(false);
    stdin.pause();
  }
}

/** The scoreboard as text, a line each. */
async function scoreboardLines(gateway: Gateway, registries: readonly DemoRegistry[]): Promise<string[]> {
  const requests = await gateway.metrics.requests.get();
  const answers = await gateway.metrics.cacheAnswers.get();
  const sum = (values: readonly { readonly value: number }[]) => values.reduce((total, { value }) => total + value, 0);
  const all = sum(requests.values);
  const hits = sum(answers.values.filter(({ labels }) => labels.outcome === "hit" || labels.outcome === "stale"));
  const cached = sum(answers.values.filter(({ labels }) => labels.outcome !== "bypass"));
  const ratio = cached === 0 ? "–" : `${Math.round((100 * hits) / cached)} %`;
  const calls = registries.reduce((sum, { registry }) => sum + registry.calls.total, 0);
  return [
    "",
    `requests ${all}   hit ratio ${ratio}   upstream calls ${calls}`,
    ...registries.map(({ name, registry }, at) => {
      const state = gateway.upstreams().byName(name)?.status().state ?? "gone";
      const running = registry.isListening ? "listening" : "killed";
      return `  ${at + 1} ${name.padEnd(8)} ${running.padEnd(10)} gateway says ${state.padEnd(12)} calls ${registry.calls.total}`;
    }),
    "keys: 1 2 3 kill or revive a registry   ! @ # (shift 1 2 3) slow it or back   q quit",
  ];
}

const slowed = new Set<DemoRegistry>();

async function act(key: string, registries: readonly DemoRegistry[]): Promise<string | undefined> {
  const killed = registries["123".indexOf(key)];
  if (killed !== undefined && key !== "") {
    const { registry, name } = killed;
    if (registry.isListening) await registry.kill();
    else await registry.revive();
    return `${name} ${registry.isListening ? "is back" : "was killed: cached metadata is still served"}`;
  }
  const target = registries["!@#".indexOf(key)];
  if (target === undefined || key === "") return undefined;
  if (slowed.delete(target)) {
    target.registry.slow(0);
    return `${target.name} is as fast as before`;
  }
  slowed.add(target);
  target.registry.slow(SLOW_MS);
  return `${target.name} takes ${SLOW_MS} ms longer`;
}
