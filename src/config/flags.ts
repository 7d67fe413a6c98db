import { stringify } from "yaml";
import { aliasFrom } from "./upstream-names.ts";
import { escapeReferences } from "./environment.ts";
import { parseConfig } from "./parse.ts";
import { ConfigError } from "./problem.ts";
import type { Problem } from "./problem.ts";
import type { Config } from "./schema.ts";

export interface Flags {
  /** URLs of registries, one upstream each. */
  readonly upstreams: readonly string[];
  readonly redis?: string;
  readonly port?: number;
}

/** Aliases made from the hosts, with the port where a host occurs more than once, numbered where that is not enough. */
function nameUpstreams(urls: readonly string[]): string[] {
  const parsed = urls.map((url) => (URL.canParse(url) ? new URL(url) : undefined));
  const taken = new Set<string>();
  return parsed.map((url, index) => {
    const isAlone = parsed.filter((other) => other?.hostname === url?.hostname).length === 1;
    const port = isAlone || url === undefined || url.port === "" ? "" : `-${url.port}`;
    const name = aliasFrom(
      `${url?.hostname.replaceAll(/:+/g, "-") ?? ""}${port}`,
      (each) => taken.has(each),
      `upstream-${index + 1}`,
    );
    taken.add(name);
    return name;
  });
}

/** The problem in terms of the flags, which have no lines. */
function placeProblem({ path, message }: Problem, flags: Flags): Problem {
  const index = /^upstreams\[(\d+)\]/.exec(path)?.[1];
  const flag = index !== undefined ? `--upstream ${Number(index) + 1}` : path.startsWith("redis") ? "--redis" : path;
  const none = path === "upstreams" && flags.upstreams.length === 0;
  return { line: 0, column: 0, path: none ? "--upstream" : path === "listen.port" ? "--port" : flag, message };
}

/**
 * The configuration of a gateway that is started with flags alone: everything by default, admins learned.
 * @throws {ConfigError} when a flag has a bad value; problems name the flag.
 */
export function configFromFlags(flags: Flags): Config {
  const names = nameUpstreams(flags.upstreams);
  const keys = {
    ...(flags.port === undefined ? {} : { listen: { port: flags.port } }),
    ...(flags.redis === undefined ? {} : { redis: { url: escapeReferences(flags.redis) } }),
    upstreams: flags.upstreams.map((url, index) => ({ name: names[index], urls: [escapeReferences(url)] })),
  };
  const { config, problems } = parseConfig({ text: stringify(keys), file: "flags", env: {} });
  if (config !== undefined) return config;
  throw new ConfigError(
    "registry-gateway",
    problems.map((problem) => placeProblem(problem, flags)),
  );
}
