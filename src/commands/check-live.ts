import { setTimeout } from "node:timers/promises";
import { pino } from "pino";
import { Agent, type Dispatcher, ProxyAgent } from "undici";
import { systemClock } from "../clock.ts";
import type { LoadedConfig } from "../config/loaded.ts";
import type { UpstreamConfig } from "../config/schema.ts";
import { printable } from "../json.ts";
import { createSharing } from "../sharing/sharing.ts";
import { Credentials } from "../upstream/credentials.ts";
import { askTls } from "./certificates.ts";
import { askInfo, askPageSize, RegistryClient } from "./questions.ts";
import { print, sayFailure } from "./terminal.ts";

/** `check --live`: asks every node of every upstream, and Redis. Prints a line for each, and says whether all are well. */
export async function checkLive({ config, texts }: LoadedConfig): Promise<boolean> {
  let isWell = config.redis === undefined || (await checkRedis(config.redis, texts));
  const admins = new Map<string, string>();
  for (const upstream of config.upstreams.filter(({ enabled }) => enabled)) {
    const reports = await Promise.all(upstream.urls.map((url) => checkNode(upstream, url, texts)));
    for (const { line } of reports) print(line);
    const named = new Set(reports.flatMap(({ admin }) => admin ?? []));
    const [admin = ""] = named;
    const problems = [
      ...(named.size > 1 ? ["its nodes name different admins: they are not of one registry"] : []),
      ...(admins.has(admin) ? [`names the admin of ${admins.get(admin)}: make them one upstream`] : []),
    ];
    for (const problem of problems) print(`${upstream.name}: ${problem}`);
    if (named.size === 1) admins.set(admin, upstream.name);
    if (upstream.admin === undefined && named.size === 1) {
      print(`${upstream.name}: to pin its admin, add this line to its entry: admin: ${JSON.stringify(admin)}`);
    }
    isWell = isWell && problems.length === 0 && reports.every((report) => report.isWell);
  }
  return isWell;
}

interface NodeReport {
  readonly isWell: boolean;
  readonly line: string;
  readonly admin?: string;
}

async function checkNode(upstream: UpstreamConfig, url: string, texts: LoadedConfig["texts"]): Promise<NodeReport> {
  const report = (isWell: boolean, text: string, admin?: string): NodeReport => {
    return { isWell, line: `${upstream.name} ${url}: ${text}`, ...(admin !== undefined && { admin }) };
  };
  const headers = await credentialOf(upstream);
  if (typeof headers === "string") return report(false, headers);
  const dispatcher = dispatcherFor(upstream, texts);
  const client = new RegistryClient(url, { dispatcher, headers });
  try {
    const info = await askInfo(client);
    if (typeof info === "string") return report(false, info);
    const admin = info.adminId;
    const isRight = upstream.admin === undefined || upstream.admin === admin;
    const page = await askPageSize(client, upstream.pageSize);
    // Through a proxy, nothing can be asked directly.
    const tls = upstream.httpProxy === undefined ? await askTls(url) : undefined;
    const said = [
      `admin ${printable(admin)}${isRight ? "" : ", which is another than the configured one"}`,
      `${Math.round(client.times[0]!)} ms`,
      page.text,
      ...(tls === undefined ? [] : [`TLS: ${tls.text}`]),
      ...(client.isGateway ? ["a registry-gateway answers"] : []),
    ];
    return report(isRight && page.severity !== "error", said.join(", "), admin);
  } catch (error) {
    return report(false, sayFailure(error));
  } finally {
    await dispatcher.close();
  }
}

function dispatcherFor({ tls = {}, httpProxy }: UpstreamConfig, texts: LoadedConfig["texts"]): Dispatcher {
  const textOf = (file: string | undefined): string | undefined => (file === undefined ? file : texts.get(file));
  const [ca, cert, key] = [textOf(tls.caFile), textOf(tls.certFile), textOf(tls.keyFile)];
  const connect = {
    ...(ca !== undefined && { ca }),
    ...(cert !== undefined && { cert }),
    ...(key !== undefined && { key }),
  };
  return httpProxy === undefined ? new Agent({ connect }) : new ProxyAgent({ uri: httpProxy, requestTls: connect });
}

const TOKEN_PATIENCE = 15_000;

/** The upstream's credential, as the gateway has it; a text says why it cannot be had. */
async function credentialOf({ auth }: UpstreamConfig): Promise<Readonly<Record<string, string>> | string> {
  const clock = systemClock();
  const credentials = Credentials.create(auth, { clock, log: pino({ enabled: false }) });
  try {
    const [name, value] = await credentials.fields({ deadline: clock.now() + TOKEN_PATIENCE });
    return name === undefined ? {} : { [name]: value! };
  } catch (error) {
    return credentials.status() ?? sayFailure(error);
  }
}

const REDIS_PATIENCE = 3_000;
const BETWEEN_LOOKS = 50;

/** Connects as the gateway does, and looks whether it gets there. */
async function checkRedis(
  redis: NonNullable<LoadedConfig["config"]["redis"]>,
  texts: LoadedConfig["texts"],
): Promise<boolean> {
  const observer = { commandEnded: () => undefined };
  const sharing = createSharing(redis, texts, { clock: systemClock(), log: pino({ enabled: false }), observer });
  const begin = performance.now();
  while (sharing.status().redis !== "up" && performance.now() - begin < REDIS_PATIENCE) await setTimeout(BETWEEN_LOOKS);
  const { redis: state, cause } = sharing.status();
  print(`redis: ${state === "up" ? `up, after ${Math.round(performance.now() - begin)} ms` : (cause ?? state)}`);
  await sharing.close();
  return state === "up";
}
