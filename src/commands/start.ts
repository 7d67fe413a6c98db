import { readTextFile } from "../config/text-file.ts";
import { type Clock, type Duration, type Instant, systemClock } from "../clock.ts";
import { configFromFlags } from "../config/flags.ts";
import { loadConfig } from "../config/parse.ts";
import { ConfigError } from "../config/problem.ts";
import type { Config } from "../config/schema.ts";
import { isLoopback } from "../config/urls.ts";
import { warnings } from "../config/warnings.ts";
import type { Gateway } from "../gateway/gateway.ts";
import { measureLoop } from "../gateway/overload.ts";
import { createLogger, type Logger } from "../observe/log.ts";
import { watchFileDescriptors } from "../observe/file-descriptors.ts";
import { collectProcessMetrics } from "../observe/metrics/process.ts";
import { withoutSecrets } from "../observe/redaction.ts";
import { version } from "../version.ts";
import { configFileOf, EXIT, parsePort, UsageError } from "./command-line.ts";
import { Reloader } from "./reloader.ts";
import { residentBytes } from "./process-memory.ts";
import { printLines } from "./terminal.ts";

interface StartOptions {
  readonly config?: unknown;
  readonly upstream?: unknown;
  readonly redis?: unknown;
  readonly port?: unknown;
}

/** The configuration to start with, and the file that it may be read from again. */
interface Source {
  readonly config: Config;
  readonly file?: { readonly name: string; readonly text: string };
}

/** What SIGHUP asks for. */
interface Reloads {
  by?: Reloader;
  /** It was asked for before there was a reloader. */
  isDue?: boolean;
}

/** `start`: serves until a signal ends it. */
export async function start(options: StartOptions): Promise<number> {
  const clock = systemClock();
  // Before all else: as the first process of a container, one without a handler is not stopped by them.
  const signal = stopSignal(clock);
  const reloads: Reloads = {};
  let source: Source;
  try {
    source = readSource(options, () => reloadBySignal(reloads));
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const problems = error.problems.map((problem) => ({ ...problem, message: withoutSecrets(problem.message) }));
    createLogger("info").fatal({ problems }, "bad configuration");
    printLines(error.message, process.stderr);
    return EXIT.badConfig;
  }
  const { config, file } = source;
  const log = createLogger(config.log.level, { clock });
  for (const warning of warnings(config)) log.warn({ warning }, "configuration");
  handleFaults(log);
  watchFileDescriptors(clock, log);
  const listening = Promise.withResolvers<number>();
  const announce = (upstream: string, admin: string): void =>
    void listening.promise.then((port) => printLines(sayAdmin(config, port, upstream, admin), process.stderr));
  // Not before the configuration is known to be good: it is most of what this program loads.
  const { createGateway } = await import("../gateway/gateway.ts");
  const gateway = await createGateway({
    config,
    log,
    clock,
    version,
    random: Math.random,
    loop: measureLoop(),
    residentBytes,
    lastReload: () => reloads.by?.last,
    ...(file === undefined ? { onAdminProved: announce } : {}),
  });
  collectProcessMetrics(gateway.metrics, gateway.registry, log);
  try {
    const { publicPort } = await gateway.start();
    listening.resolve(publicPort);
  } catch (error) {
    log.fatal({ err: error }, "cannot start");
    await gateway.stop({ grace: false });
    return EXIT.failure;
  }
  if (file !== undefined) {
    reloads.by = createReloader(file, { gateway, log, clock });
    reloads.by.start();
    if (reloads.isDue === true) reloadBySignal(reloads);
  }
  const name = await signal;
  reloads.by?.stop();
  log.info({ signal: name }, "stopping");
  await gateway.stop({ grace: name === "SIGTERM" });
  log.info({}, "stopped");
  await log.end();
  // A connection to a registry that does not end must not keep the process.
  return process.exit(EXIT.ok);
}

function reloadBySignal(reloads: Reloads): void {
  if (reloads.by === undefined) reloads.isDue = true;
  else void reloads.by.reload("signal");
}

/** @param onHangUp called at SIGHUP, from before the file is read */
function readSource({ config, upstream, redis, port }: StartOptions, onHangUp: () => void): Source {
  const upstreams = Array.isArray(upstream) ? (upstream as string[]) : [];
  if (upstreams.length === 0) {
    if (redis !== undefined || port !== undefined) throw new UsageError("--redis and --port go with --upstream");
    // Unhandled, the signal would end a process that starts, and systemd takes that for a clean exit.
    process.on("SIGHUP", onHangUp);
    const name = configFileOf(config);
    // Read first: what changes in between is then found to have changed.
    const text = readTextIfThere(name);
    return { config: loadConfig(name, process.env), file: { name, text } };
  }
  if (config !== undefined) throw new UsageError("--config and --upstream exclude each other");
  const listen = parsePort("--port", port);
  return {
    config: configFromFlags({
      upstreams,
      ...(typeof redis === "string" ? { redis } : {}),
      ...(listen === undefined ? {} : { port: listen }),
    }),
  };
}

/** What the file holds; what is wrong with one that cannot be read, `loadConfig` says. */
function readTextIfThere(file: string): string {
  try {
    return readTextFile(file);
  } catch {
    return "";
  }
}

function createReloader(
  file: { readonly name: string; readonly text: string },
  { gateway, log, clock }: { readonly gateway: Gateway; readonly log: Logger; readonly clock: Clock },
): Reloader {
  return new Reloader({
    file: file.name,
    text: file.text,
    env: process.env,
    target: gateway,
    log,
    metrics: gateway.metrics,
    files: gateway.files,
    clock,
  });
}

/**
 * What becomes of faults that nothing caught. After an exception nobody knows what was left half done, so the process
 * ends and is started anew. A promise that failed unheard left nothing half done but its own work: serving goes on.
 */
function handleFaults(log: Logger): void {
  // Lines wait for others for a moment: however the process ends, they are written first.
  process.on("exit", () => log.flush());
  // What is served does not end because nobody reads this any more.
  process.stderr.on("error", () => undefined);
  process.on("uncaughtException", (error) => {
    log.fatal({ err: error }, "unexpected error");
    process.exit(EXIT.failure);
  });
  process.on("unhandledRejection", (reason) => {
    log.error({ err: reason }, "unexpected rejection");
  });
}

/** Who signals a group of processes signals npm, which passes it on, and its child: two of a kind within this time are one. */
const ONE_SIGNAL: Duration = 1_000;

/** Resolves with the first signal that asks to stop; a second one stops at once. */
function stopSignal(clock: Clock): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let first: { readonly signal: NodeJS.Signals; readonly at: Instant } | undefined;
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      process.on(signal, () => {
        const at = clock.now();
        if (first === undefined) {
          first = { signal, at };
          resolve(signal);
        } else if (signal !== first.signal || at - first.at >= ONE_SIGNAL) {
          process.exit(EXIT.failure);
        }
      });
    }
  });
}

/** Which registry was found at an upstream, and how to address it. */
function sayAdmin({ listen, routing }: Config, port: number, upstream: string, admin: string): string {
  const isLocal = isLoopback(listen.host) || listen.host === "0.0.0.0" || listen.host === "::";
  const base = `http://${isLocal ? "localhost" : listen.host}:${port}${routing.prefix}/${encodeURIComponent(admin)}`;
  return `${upstream}: instrument admin ${admin}\n  base URL ${base}`;
}
