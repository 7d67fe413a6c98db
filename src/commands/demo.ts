import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { digestOf, newKey } from "../clients/credential.ts";
import { loadConfig } from "../config/load.ts";
import { createGateway, type Gateway } from "../gateway/gateway.ts";
import { type Sandbox, startSandbox } from "../sandbox/sandbox.ts";
import { endpointPath } from "../spec/operations.ts";
import { consoleFolder } from "../version.ts";
import { CommandError, EXIT, print, sayFailure, untilInterrupted } from "./terminal.ts";

interface DemoOptions {
  readonly port: number;
  readonly operationsPort: number;
}

interface DemoRegistry {
  readonly name: string;
  readonly about: string;
  readonly sandbox: Sandbox;
}

/** `demo`: three sample registries and the gateway before them, memory only, until Ctrl-C. @throws CommandError */
export async function demo(options: DemoOptions): Promise<number> {
  await using running = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), "registry-gateway-demo-"));
  running.defer(() => rmSync(folder, { recursive: true, force: true }));
  const key = newKey();
  const line = { name: "demo", tier: "partner", digest: digestOf(key) };
  writeFileSync(join(folder, "clients.jsonl"), `${JSON.stringify(line)}\n`);
  const registries = await startRegistries();
  for (const { sandbox } of registries) running.use(sandbox);
  const gateway = await startGateway(options, registries, folder);
  running.defer(() => gateway.stop({ grace: false }));
  print(instructions(registries, gateway, key));
  await untilInterrupted();
  return EXIT.ok;
}

async function startRegistries(): Promise<DemoRegistry[]> {
  const fast = await startSandbox({ name: "amulet-issuer", instruments: 3 });
  const paged = await startSandbox({ name: "bond-issuer", instruments: 500 });
  const slow = await startSandbox({
    name: "fund-issuer",
    paging: "token-index",
    latency: 400,
    jitter: 100,
    apis: "v1",
  });
  return [
    { name: "amulet", about: "fast, three instruments", sandbox: fast },
    { name: "bonds", about: "500 instruments in pages of 25", sandbox: paged },
    { name: "funds", about: "slow: 400 ms an answer; version 1 alone", sandbox: slow },
  ];
}

async function startGateway(
  { port, operationsPort }: DemoOptions,
  registries: readonly DemoRegistry[],
  folder: string,
): Promise<Gateway> {
  const values = {
    listen: { host: "127.0.0.1", port },
    operations: { host: "127.0.0.1", port: operationsPort },
    clients: {
      keysFile: "clients.jsonl",
      tiers: { anonymous: { requests: "600/1m", concurrency: 16 }, partner: { requests: "6000/1m" } },
    },
    upstreams: registries.map(({ name, sandbox }) => ({ name, admin: sandbox.admin, urls: [sandbox.url] })),
  };
  try {
    // It prints for people: no log lines.
    return await createGateway(loadConfig({ values, folder }, {}), { logTo: { write: () => undefined } });
  } catch (error) {
    const advice = "Choose others with --port and --operations-port (0: any free one)";
    throw new CommandError(`the gateway cannot listen: ${sayFailure(error)}. ${advice}`);
  }
}

function instructions(registries: readonly DemoRegistry[], gateway: Gateway, key: string): string {
  const [amulet, bonds] = registries;
  const running = registries.map(
    ({ name, about, sandbox }) => `  ${name.padEnd(7)} ${sandbox.url}  ${about}\n          admin ${sandbox.admin}`,
  );
  const registrars = `${gateway.url}/api/token-standard/v0/registrars`;
  const listing = `${registrars}/funds${endpointPath("instruments")}?pageSize=5`;
  const factory = `${gateway.url}${endpointPath("transfer_factory")}`;
  const post = "-H 'content-type: application/json' -d";
  const settlement = `${endpointPath("settlement_factory_v2")}' ${post} '{"choiceArguments":{}}'`;
  return `Registry Gateway is running before three sample registries, memory only.

  gateway  ${gateway.url}
  console  ${gateway.operationsUrl}/console/${existsSync(consoleFolder) ? "" : " (after npm run build)"}
${running.join("\n")}

Copy and paste in another terminal:

  # 1. A miss: the slow registry is asked. Look at cache-status and the time.
  curl -s -o /dev/null -D - -w '%{time_total} s\\n' '${listing}'

  # 2. The same again: a hit from memory, with its age.
  curl -s -o /dev/null -D - -w '%{time_total} s\\n' '${listing}'

  # 3. A factory request to the plain base URL: the admin in its body names the registry, "bonds".
  curl -s ${factory} ${post} '${transfer(bonds!.sandbox.admin, bonds!.sandbox.admin)}' | head -c 300; echo

  # 4. The same with two admins that disagree: 400.
  curl -s ${factory} ${post} '${transfer(amulet!.sandbox.admin, bonds!.sandbox.admin)}'; echo

  # 5. A settlement of version 2. "funds" has no version 2: 404, so that clients fall back to version 1.
  curl -s '${registrars}/amulet${settlement} | head -c 300; echo
  curl -s '${registrars}/funds${settlement}; echo

  # 6. All registries as one.
  curl -s '${gateway.url}/catalog/v1/registries'; echo
  curl -s '${gateway.url}${endpointPath("instruments")}?pageSize=2'; echo

  # 7. With an API key the limit is ten times that of the others. Look at ratelimit-policy.
  curl -si '${registrars}/amulet${endpointPath("info")}' -H 'x-api-key: ${key}'

  # 8. Why it was answered as it was, how the gateway is, and a purge.
  registry-gateway explain '${listing}' --url ${gateway.operationsUrl}
  registry-gateway status --url ${gateway.operationsUrl}
  registry-gateway purge funds --url ${gateway.operationsUrl}

In a checkout, registry-gateway is: npm start --silent --

Stop with Ctrl-C.`;
}

/** The body of a transfer factory request. */
function transfer(expectedAdmin: string, admin: string): string {
  const transfer = {
    sender: "alice::1220aa",
    receiver: "bob::1220bb",
    amount: "1.0",
    instrumentId: { admin, id: "Amulet" },
  };
  return JSON.stringify({ choiceArguments: { expectedAdmin, transfer }, excludeDebugFields: true });
}
