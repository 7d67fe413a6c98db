/** What `--help` prints. */
export const USAGE = `registry-gateway: a caching reverse proxy and gateway for token registries

Usage:
  registry-gateway [start] [--config FILE]
      Serve. FILE defaults to $GATEWAY_CONFIG, then config/gateway.yaml.
  registry-gateway [start] --upstream URL [--upstream URL …] [--redis URL] [--port N]
      Serve with no file at all: admins are learned from the registries and printed.
  registry-gateway check [--config FILE] [--live] [--print] [--diff OLD]
      Report every problem of a config file. --live asks each node, --print shows the effective
      config without secrets, --diff says what a reload from OLD would change.
  registry-gateway demo [--port N] [--operations-port N]
      Three sample registries on loopback with the gateway before them, and commands to try.
  registry-gateway explain URL [--operations URL] [--token-file FILE]
      Why an answer of a running gateway was or was not cached.
  registry-gateway import FILE [--network NAME] [--verify] [--allow-private]
      Published registry lists into a config fragment. --verify asks each registry who it is, at
      public addresses only unless --allow-private.
  registry-gateway --help | --version

Exit codes: 0 stopped cleanly, 78 bad config, 1 anything else.
`;
