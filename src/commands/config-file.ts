/** The config file of a command: its option, else `$GATEWAY_CONFIG`, else `config/gateway.yaml`. */
export function configFileOf(option: unknown): string {
  if (typeof option === "string") return option;
  const fromEnvironment = process.env.GATEWAY_CONFIG;
  return fromEnvironment === undefined || fromEnvironment === "" ? "config/gateway.yaml" : fromEnvironment;
}
