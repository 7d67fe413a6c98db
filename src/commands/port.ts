import { UsageError } from "./usage-error.ts";

/** The port in an option. @throws UsageError for anything but an integer from 0 to 65535 */
export function parsePort(option: string, value: unknown): number | undefined {
  if (value === undefined) return undefined;
  const port = typeof value === "string" && /^[0-9]{1,5}$/.test(value) ? Number(value) : Number.NaN;
  if (!(port <= 65_535)) throw new UsageError(`${option} takes a port from 0 to 65535`);
  return port;
}
