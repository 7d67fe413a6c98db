import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { findProgram, VARNISH } from "../support/programs.ts";
import { findFreePort } from "../support/ports.ts";
import { startProgram, stop } from "./child.ts";
import { type BenchServer, untilListening } from "./server.ts";

export const findVarnish = () => findProgram(VARNISH);

/** Varnish with its default settings, in memory, before the server on port `upstream`. */
export async function startVarnish(upstream: number, folder: string): Promise<BenchServer> {
  const port = await findFreePort();
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "bench.vcl");
  const logFile = join(folder, "varnishd.log");
  writeFileSync(file, configuration(upstream));
  const args = ["-F", "-j", "none", "-n", join(folder, "work"), "-a", `127.0.0.1:${port}`];
  const child = startProgram(findVarnish()!, [...args, "-f", file, "-s", "malloc,256m", "-T", "none"], logFile);
  await untilListening(child, port, logFile);
  return { name: "Varnish", pid: child.pid!, port, stop: () => stop(child) };
}

function configuration(upstream: number): string {
  return `
vcl 4.1;
backend default { .host = "127.0.0.1"; .port = "${upstream}"; }
sub vcl_backend_response {
  set beresp.ttl = 1h;
  return (deliver);
}
`;
}
