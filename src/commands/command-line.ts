import { CACHED_OPERATIONS } from "../spec/operations.ts";

/** What the process exits with: 0 stopped cleanly or all is well, 78 (EX_CONFIG) bad config, 1 anything else. */
export const EXIT = { ok: 0, failure: 1, badConfig: 78 } as const;

/** What `--help` prints. */
export const USAGE = `registry-gateway: a caching reverse proxy and gateway for token registries

Usage:
  registry-gateway [start] [--config FILE]
      Serve. FILE defaults to $GATEWAY_CONFIG, then config/gateway.yaml.
  registry-gateway [start] --upstream URL [--upstream URL …] [--redis URL] [--port N]
      Serve with no file at all: admins are learned from the registries and printed.
  registry-gateway check [--config FILE] [--live] [--print] [--diff OLD] [--json]
      Report every problem of a config file. --live asks each node, --print shows the effective
      config without secrets, --diff says what a reload from OLD would change. --json: as JSON.
  registry-gateway demo [--port N] [--operations-port N]
      Three sample registries on loopback with the gateway before them, and commands to try.
  registry-gateway sandbox [--port N] [--host HOST] [--admin PARTY]
                           [--instruments N|FILE] [--contract ID …]
                           [--paging keyset|index|ignored] [--latency 400ms]
                           [--style splice|utility] [--versions v1,v2] [--unknown-paths own|html]
                           [--strict] [--fault 429:0.1] [--fault 503*3@info …]
                           [--nodes N] [--lie blob:3 …] [--roll-over 10s]
      A sample registry for those who integrate and have none, with faults on demand, and on nodes
      some of which lie.
  registry-gateway inspect URL [--json]
      What the registry at a base URL is like, for those who build wallets or registries: admin,
      versions, pages, errors, freshness, CORS, TLS, limits, and what differs from the standard.
      Exit code 1: something breaks the standard; 2: some clients stumble.
  registry-gateway status
      How a running gateway is: cache, Redis, upstreams, what operators did.
  registry-gateway replicas
      The replicas at the same Redis: build, load, and in what they differ.
  registry-gateway audit [--limit N] [--before TIME]
      What operators did, the latest first: 50, or N, of what was done before TIME (RFC 3339).
  registry-gateway explain URL
      Why an answer of a running gateway was or was not cached, and what the next request gets.
  registry-gateway purge UPSTREAM [--endpoint ${CACHED_OPERATIONS.join("|")}] [--instrument ID] [--soft]
  registry-gateway purge UPSTREAM --contract ID
  registry-gateway purge --all [URL …] [--soft]
      Take answers out of the cache, on all replicas. --soft: they become stale.
  registry-gateway nodes [UPSTREAM]
  registry-gateway nodes cordon|activate UPSTREAM NODE [URL] [--weight N] [--for 30m] [--reason TEXT] [--force]
      List the nodes; or send no new calls to one (NODE: its place in urls, from 0), or send them
      again, with a weight from 0 to 100. With URL only if it is there. --force cordons the last
      node, too.
  registry-gateway upstreams [UPSTREAM]
  registry-gateway upstreams cache-only|normal UPSTREAM [--for 30m] [--reason TEXT]
      List the upstreams; or ask nothing of one and answer from the cache, or ask it again.
  registry-gateway discovery
  registry-gateway discovery approve|refuse ADMIN [URL …]
      What was found in lists and where it is pinned; or let what waits be used, or not. With URLs
      only if they are what waits.

      These nine ask the operations listener. Its address and token are those of the config file
      (--config FILE, with the same default as start); or --url URL and --token-file FILE name
      them. --json prints the answer as JSON.
  registry-gateway clients new NAME [--tier TIER] [--expires 90d]
      An API key for a client, printed once, with the line for clients.keysFile that holds only
      its digest. TIER defaults to anonymous; a key without --expires is good until it is taken out.
  registry-gateway clients convert FILE
      A keys file of releases before 0.2 (YAML), as one JSON object a line.
  registry-gateway clients check FILE [--config FILE]
      Report every problem of a keys file; with --config also tiers that are not there.
  registry-gateway import FILE [--network NAME] [--verify] [--allow-private]
      Published registry lists into a config fragment. --verify asks each registry who it is, at
      public addresses only unless --allow-private.
  registry-gateway --help | --version

Exit codes: 0 stopped cleanly, 78 bad config, 1 anything else; of inspect see there.
`;

/** A command line that cannot be understood; `message` says why. */
export class UsageError extends Error {}

/** The port in an option. @throws UsageError for anything but an integer from 0 to 65535 */
export function parsePort(option: string, value: unknown): number | undefined {
  if (value === undefined) return undefined;
  const port = typeof value === "string" && /^[0-9]{1,5}$/.test(value) ? Number(value) : Number.NaN;
  if (!(port <= 65_535)) throw new UsageError(`${option} takes a port from 0 to 65535`);
  return port;
}

/** The config file of a command: its option, else `$GATEWAY_CONFIG`, else `config/gateway.yaml`. */
export function configFileOf(option: unknown): string {
  if (typeof option === "string") return option;
  const fromEnvironment = process.env.GATEWAY_CONFIG;
  return fromEnvironment === undefined || fromEnvironment === "" ? "config/gateway.yaml" : fromEnvironment;
}
