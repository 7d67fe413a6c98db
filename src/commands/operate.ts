import type { ExplainAnswer, PurgeAnswer, Status } from "../operations/types.ts";
import { OperationsClient, type OperationsFlags } from "./operations-client.ts";
import { CommandError, EXIT, print, printJson, tableLines } from "./terminal.ts";

const EXIT_BY_LEVEL = { well: 0, warning: 1, page: 2 } as const;

/** `status`: how a running gateway is. With `--exit-code` 0 well, 1 warning, 2 page. @throws CommandError */
export async function status(flags: OperationsFlags & { readonly exitCode?: true }): Promise<number> {
  const answer = (await new OperationsClient(flags, false).ask("/status")) as Status;
  show(flags, answer, () => statusLines(answer));
  return flags.exitCode === true ? EXIT_BY_LEVEL[answer.health.level] : EXIT.ok;
}

/** `purge`: takes what is stored of one registry, or everything, out of the cache of all replicas. @throws CommandError */
export async function purge(upstream: string | undefined, flags: OperationsFlags): Promise<number> {
  const body = upstream === undefined ? {} : { upstream };
  const answer = (await new OperationsClient(flags, true).ask("/purge", body)) as PurgeAnswer;
  show(flags, answer, () => [answer.purged === null ? "everything is purged" : `${answer.purged} is purged`]);
  return EXIT.ok;
}

/** `explain`: which registry a URL of the gateway means, and what the cache would do with it. @throws CommandError */
export async function explain(url: string, flags: OperationsFlags): Promise<number> {
  const path = url.replace(/^https?:\/\/[^/]*/, "");
  if (!path.startsWith("/")) throw new CommandError("explain takes a URL of the gateway, or its path");
  const answer = await new OperationsClient(flags, false).ask(`/explain?path=${encodeURIComponent(path)}`);
  show(flags, answer, () => explanationLines(answer as ExplainAnswer));
  return EXIT.ok;
}

function show({ json }: OperationsFlags, answer: unknown, linesOf: () => readonly string[]): void {
  if (json === true) return printJson(answer);
  let lines: readonly string[];
  try {
    lines = linesOf();
  } catch (error) {
    if (error instanceof TypeError) throw new CommandError("its answer is of another form: is it of this version?");
    throw error;
  }
  print(lines.join("\n"));
}

function statusLines(answer: Status): string[] {
  const { health, redis, cache, upstreams } = answer;
  const table = tableLines([
    ["UPSTREAM", "STATE", "MODE", "NODES UP", "IN FLIGHT", "WAITING", "LIMIT", "ADMIN"],
    ...upstreams.map(({ name, state, mode, nodes, inFlight, waiting, limit, admin }) => [
      name,
      state,
      mode,
      `${nodes.filter((node) => node.state === "up").length} of ${nodes.length}`,
      String(inFlight),
      String(waiting),
      limit === undefined ? "-" : [limit.requests, limit.burst].filter((each) => each !== undefined).join(" "),
      admin ?? "not known yet",
    ]),
  ]);
  const replicas = redis.redis === "up" ? `, replicas: ${redis.replicas}` : "";
  const state = answer.isDraining ? "drains" : answer.isReady ? "is ready" : "is not ready";
  return [
    health.sentence,
    ...health.lines
      .filter(({ runbook }) => runbook !== undefined)
      .map(({ level, text }) => `  ${level === "well" ? "note" : level}: ${text}`),
    "",
    ...table,
    "",
    `redis  ${redis.redis}${replicas}${redis.cause === undefined ? "" : `: ${redis.cause}`}`,
    `cache  ${cache.entries} ${cache.entries === 1 ? "entry" : "entries"}, ${sayMiB(cache.bytes)} of ${sayMiB(cache.maxBytes)}`,
    `${answer.replica} ${state}, version ${answer.version}, configuration ${answer.digest}, since ${sayTime(answer.since)}`,
  ];
}

function explanationLines({ upstream, admin, operation, text }: ExplainAnswer): string[] {
  return [`${operation} of ${upstream}${admin === undefined ? "" : ` (${admin})`}`, ...text];
}

function sayMiB(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(1)} MiB`;
}

function sayTime(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}
