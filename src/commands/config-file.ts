import { existsSync } from "node:fs";

/** Places of a configuration, after `$GATEWAY_CONFIG`. */
const USUAL = ["config/gateway.yaml", "/etc/registry-gateway/gateway.yaml"];

/** The configuration file: the option, else `$GATEWAY_CONFIG`, else the first of the usual ones that is there. */
export function configFileOf(option: string | undefined): string {
  const { GATEWAY_CONFIG: named } = process.env;
  if (option !== undefined) return option;
  if (named !== undefined && named !== "") return named;
  return USUAL.find((file) => existsSync(file)) ?? USUAL[0]!;
}
