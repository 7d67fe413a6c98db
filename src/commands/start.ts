import { createGateway } from "../app.ts";
import { systemClock } from "../clock.ts";
import { configFromFlags } from "../config/flags.ts";
import { loadConfig } from "../config/parse.ts";
import { ConfigError } from "../config/problem.ts";
import type { Config } from "../config/schema.ts";
import { warnings } from "../config/warnings.ts";
import { createLogger } from "../log.ts";
import { collectProcessMetrics } from "../metrics/process.ts";
import { version } from "../version.ts";
import { configFileOf } from "./config-file.ts";
import { EXIT } from "./exit-code.ts";
import { parsePort } from "./port.ts";
import { UsageError } from "./usage-error.ts";

interface StartOptions {
  readonly config?: unknown;
  readonly upstream?: unknown;
  readonly redis?: unknown;
  readonly port?: unknown;
}

/** `start`: serves until a signal ends it. */
export async function start(options: StartOptions): Promise<number> {
  let config: Config;
  try {
    config = readConfig(options);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    createLogger("info").fatal({ problems: error.problems }, "bad configuration");
    process.stderr.write(`${error.message}\n`);
    return EXIT.badConfig;
  }
  const log = createLogger(config.log.level);
  for (const warning of warnings(config)) log.warn({ warning }, "configuration");
  process.on("uncaughtException", (error) => {
    log.fatal({ err: error }, "unexpected error");
    process.exit(EXIT.failure);
  });
  const gateway = await createGateway({ config, log, clock: systemClock(), random: Math.random, version });
  collectProcessMetrics(gateway.metrics, gateway.registry);
  try {
    await gateway.start();
  } catch (error) {
    log.fatal({ err: error }, "cannot start");
    await gateway.stop({ grace: false });
    return EXIT.failure;
  }
  const signal = await stopSignal();
  log.info({ signal }, "stopping");
  await gateway.stop({ grace: signal === "SIGTERM" });
  log.info("stopped");
  return EXIT.ok;
}

function readConfig({ config, upstream, redis, port }: StartOptions): Config {
  const upstreams = Array.isArray(upstream) ? (upstream as string[]) : [];
  if (upstreams.length === 0) {
    if (redis !== undefined || port !== undefined) throw new UsageError("--redis and --port go with --upstream");
    return loadConfig(configFileOf(config), process.env);
  }
  if (config !== undefined) throw new UsageError("--config and --upstream exclude each other");
  const listen = parsePort("--port", port);
  return configFromFlags({
    upstreams,
    ...(typeof redis === "string" ? { redis } : {}),
    ...(listen === undefined ? {} : { port: listen }),
  });
}

/** Resolves with the first signal that asks to stop; a second one stops at once. */
function stopSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let isStopping = false;
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      process.on(signal, () => {
        if (isStopping) process.exit(EXIT.failure);
        isStopping = true;
        resolve(signal);
      });
    }
  });
}
