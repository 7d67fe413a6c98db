// Runs three sample registries of different behaviour, for trying out deployments: `node dist/commands/sample-registries.js`.
// They listen on HOST (127.0.0.1) and on three ports from PORT (7001) on.
import { systemClock } from "../clock.ts";
import { SampleRegistry, type SampleRegistryOptions } from "../sandbox/registry.ts";

const { HOST = "127.0.0.1", PORT = "7001" } = process.env;

const REGISTRIES: readonly Omit<SampleRegistryOptions, "clock" | "host" | "port">[] = [
  { admin: `DSO::1220${"13f1b3a8".repeat(8)}`, instruments: 3, etags: true },
  { admin: `bond-registry::1220${"2194ab45".repeat(8)}`, instruments: 500, errorStyle: "utility" },
  { admin: `fund-registry::1220${"d7dcf089".repeat(8)}`, instruments: 60, pageStyle: "index", latency: 400 },
];

const registries = REGISTRIES.map(
  (options, index) => new SampleRegistry({ ...options, clock: systemClock(), host: HOST, port: Number(PORT) + index }),
);
await Promise.all(registries.map((registry) => registry.start()));
for (const { admin, url } of registries) process.stdout.write(`${JSON.stringify({ msg: "listening", admin, url })}\n`);

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => {
    void Promise.all(registries.map((registry) => registry.stop()));
  });
}
