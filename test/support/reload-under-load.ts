import type { SampleRegistry } from "./sample-registry.ts";
import { until } from "./until.ts";
import type { GatewayProcess } from "./gateway-process.ts";
import { type LoadReport, SteadyLoad } from "./steady-load.ts";

const INFO = "/registry/metadata/v1/info";
const INSTRUMENTS = "/registry/metadata/v1/instruments";
const ACCEPT = "/registry/transfer-instruction/v1/00aa/choice-contexts/accept";

export interface ReloadStory {
  readonly gateway: GatewayProcess;
  /** Stays the same in all configurations. */
  readonly stable: SampleRegistry;
  /** Its upstream's configuration changes with every reload. */
  readonly changing: SampleRegistry;
  readonly reloads: number;
  /** Requests a second. */
  readonly rate: number;
}

/** The configuration of one reload; one in ten is bad. */
export function keysOf({ stable, changing }: Pick<ReloadStory, "stable" | "changing">, reload: number) {
  return {
    cache: { ttl: { info: "1h", instruments: "10m" } },
    log: { level: reload % 2 === 0 ? "warn" : "error" },
    ...(reload % 10 === 5 ? { limits: { uri: "nonsense" } } : {}),
    upstreams: [
      { name: "stable", admin: stable.admin, urls: [stable.url] },
      { name: "changing", admin: changing.admin, urls: [changing.url], timeout: `${10 + (reload % 5)}s` },
    ],
  };
}

export interface ReloadReport extends LoadReport {
  readonly applied: number;
  readonly refused: number;
  /** What the stable registry was asked for its metadata while all this went on, but for checks. */
  readonly metadataCalls: number;
}

/** Reloads again and again while clients ask for hits and send calls through both upstreams. */
export async function reloadUnderLoad(story: ReloadStory): Promise<ReloadReport> {
  const { gateway, stable, changing, reloads, rate } = story;
  const base = (admin: string) => `/api/token-standard/v0/registrars/${encodeURIComponent(admin)}`;
  const load = new SteadyLoad({
    url: gateway.url,
    rate,
    connections: 50,
    request: (index) => {
      const at = base(index % 3 === 0 ? changing.admin : stable.admin);
      if (index % 4 === 0) return { method: "POST", path: at + ACCEPT, body: "{}" };
      return { method: "GET", path: at + (index % 4 === 1 ? INFO : INSTRUMENTS) };
    },
  });
  await until(() => load.answered > rate / 5);
  const metadataBefore = stable.calls.count("instruments");
  for (let reload = 1; reload <= reloads; reload += 1) {
    const count = () => gateway.metric("registry_gateway_config_reloads_total");
    const before = await count();
    gateway.write(keysOf(story, reload));
    gateway.signal("SIGHUP");
    await until(async () => (await count()) > before);
  }
  const report = await load.stop();
  const result = (label: string) => gateway.metric("registry_gateway_config_reloads_total", `result="${label}"`);
  return {
    ...report,
    applied: await result("applied"),
    refused: await result("refused"),
    metadataCalls: stable.calls.count("instruments") - metadataBefore,
  };
}
