import { type Clock, type Duration, type Instant, sleep, systemClock } from "../clock.ts";
import { changesOf } from "../config/effective.ts";
import { watchFiles } from "../config/files.ts";
import { type ConfigSource, loadConfig } from "../config/load.ts";
import type { LoadedConfig } from "../config/loaded.ts";
import { ConfigError } from "../config/problem.ts";
import { createGateway, type Gateway } from "../gateway/gateway.ts";
import { flushLog } from "../observe/log.ts";
import { configFileOf } from "./config-file.ts";
import { nameFor } from "./names.ts";
import { CommandError, complain, EXIT, sayFailure } from "./terminal.ts";

interface StartOptions {
  readonly config?: string;
  readonly upstream?: readonly string[];
  readonly redis?: string;
  readonly port?: number;
}

/** `start`: serves until a signal ends it. */
export async function start(options: StartOptions): Promise<number> {
  const clock = systemClock();
  const signals = listenForSignals(clock);
  const source = sourceOf(options);
  let loaded: LoadedConfig;
  try {
    loaded = loadConfig(source, process.env);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    complain(error.message);
    return EXIT.badConfig;
  }
  let gateway: Gateway;
  try {
    gateway = await createGateway(loaded, { clock });
  } catch (error) {
    // Of the two listeners, the one whose port it is.
    const { address, port } = error as { readonly address?: string; readonly port?: number };
    complain(`registry-gateway cannot start: ${sayFailure(error)}${port === undefined ? "" : ` (${address}:${port})`}`);
    return EXIT.failure;
  }
  const { log } = gateway;
  const fail = async (error: Error): Promise<void> => {
    // Nobody knows what was left half done: the process is started anew.
    log.fatal({ err: error }, "unexpected error");
    await flushLog(log, clock);
    process.exit(EXIT.failure);
  };
  process.on("uncaughtException", (error) => void fail(error));
  process.on("unhandledRejection", (reason) => log.error({ err: reason }, "unexpected rejection"));
  for (const warning of loaded.warnings) log.warn({ warning }, "the configuration has a warning");
  const unfollow = "file" in source ? follow(source, loaded, { gateway, signals }) : undefined;
  if ("values" in source) for (const name of namesOf(loaded)) void sayAdmin(name, gateway, clock);
  const signal = await signals.stop;
  unfollow?.();
  log.info({ signal }, "stopping");
  await gateway.stop({ grace: signal === "SIGTERM" });
  return EXIT.ok;
}

/** The configuration that options of the command line stand for: a file, or upstreams without one. @throws CommandError */
function sourceOf({ config, upstream = [], redis, port }: StartOptions): ConfigSource {
  if (upstream.length === 0) {
    if (redis !== undefined || port !== undefined) {
      throw new CommandError("--port and --redis go with --upstream: a file has keys for them");
    }
    return { file: configFileOf(config) };
  }
  const names = new Set<string>();
  const upstreams = upstream.map((url) => {
    const name = nameFor(URL.parse(url)?.hostname ?? "", names);
    names.add(name);
    return { name, urls: [url] };
  });
  const listen = port === undefined ? {} : { listen: { port } };
  return {
    values: { upstreams, ...listen, ...(redis !== undefined && { redis: { url: redis } }) },
    folder: process.cwd(),
  };
}

interface Signals {
  /** The first that asks to stop. */
  readonly stop: Promise<NodeJS.Signals>;
  /** Called at SIGHUP; from before the configuration is read, since the signal would end the process otherwise. */
  onHangUp: () => void;
}

/** Time in which two signals of a kind are one: a group that is signalled has npm in it, which passes its own on. */
const ONE_SIGNAL: Duration = 1_000;

/** From now on the first SIGTERM or SIGINT asks to stop, a second one ends the process at once; SIGUSR2 does nothing. */
function listenForSignals(clock: Clock): Signals {
  process.on("SIGUSR2", () => undefined);
  const { promise: stop, resolve } = Promise.withResolvers<NodeJS.Signals>();
  let first: { readonly signal: NodeJS.Signals; readonly at: Instant } | undefined;
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    process.on(signal, () => {
      const at = clock.now();
      if (first !== undefined && (signal !== first.signal || at - first.at >= ONE_SIGNAL)) process.exit(EXIT.failure);
      first ??= { signal, at };
      resolve(signal);
    });
  }
  const signals: Signals = { stop, onHangUp: () => undefined };
  process.on("SIGHUP", () => signals.onHangUp());
  return signals;
}

/**
 * Reads the configuration again at SIGHUP, and when it or a file changes that it, or a refused one, names.
 *
 * @returns what ends that
 */
function follow(
  source: ConfigSource,
  first: LoadedConfig,
  { gateway, signals }: { readonly gateway: Gateway; readonly signals: Signals },
): () => void {
  const { log } = gateway;
  let running = first;
  let unwatch = watchFiles(first.files, () => reload("file"));
  const watch = (files: readonly string[]): void => {
    const end = unwatch;
    unwatch = watchFiles(files, () => reload("file"));
    end();
  };
  function reload(cause: "file" | "signal"): void {
    try {
      const next = loadConfig(source, process.env);
      const changed = atMost(changesOf(running, next).map(({ path }) => path));
      gateway.reload(next);
      running = next;
      watch(next.files);
      log.info({ cause, changed, digest: gateway.snapshot().loaded.digest }, "configuration reloaded");
      for (const warning of next.warnings) log.warn({ warning }, "the configuration has a warning");
    } catch (error) {
      const problems = atMost(error instanceof ConfigError ? error.message.split("\n") : [sayFailure(error)]);
      if (error instanceof ConfigError) watch([...new Set([...running.files, ...error.files])]);
      gateway.reloadRefused(problems[0]!);
      log.error({ cause, problems }, "configuration refused: what runs stays");
    }
  }
  signals.onHangUp = () => reload("signal");
  // What was written while the gateway came up, no watch has seen.
  if (differs(first, source)) reload("file");
  return () => unwatch();
}

/** Keys or problems that one log line has. */
const MOST_SAID = 50;

function atMost(texts: readonly string[]): readonly string[] {
  const more = texts.length - MOST_SAID;
  return more > 0 ? [...texts.slice(0, MOST_SAID), `and ${more} more`] : texts;
}

function differs(loaded: LoadedConfig, source: ConfigSource): boolean {
  try {
    return changesOf(loaded, loadConfig(source, process.env)).length > 0;
  } catch {
    return true;
  }
}

function namesOf({ config }: LoadedConfig): string[] {
  return config.upstreams.map(({ name }) => name);
}

const BETWEEN_LOOKS: Duration = 1_000;

/** Says on stderr whose registry an upstream is, once that is known. */
async function sayAdmin(name: string, gateway: Gateway, clock: Clock): Promise<void> {
  for (;;) {
    const { upstreams, loaded } = gateway.snapshot();
    const admin = upstreams.byName(name)?.admin;
    if (admin !== undefined) {
      const base = gateway.url.replace(/\/\/(0\.0\.0\.0|\[::\])/, "//localhost") + loaded.config.routing.prefix;
      return complain(`${name}: admin ${admin}\n  base URL ${base}/${encodeURIComponent(admin)}`);
    }
    await sleep(BETWEEN_LOOKS, clock);
  }
}
