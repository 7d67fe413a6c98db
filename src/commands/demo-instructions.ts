import type { DemoRegistry } from "./demo.ts";

/** What the demo prints: what runs, and commands to copy that show what the gateway does. */
export function demoInstructions(
  registries: readonly DemoRegistry[],
  { publicPort, operationsPort }: { readonly publicPort: number; readonly operationsPort: number },
): string {
  const base = `http://127.0.0.1:${publicPort}`;
  const operations = `http://127.0.0.1:${operationsPort}`;
  const running = registries.map(
    ({ name, about, registry }) => `  ${name.padEnd(8)} ${registry.url}  ${about}\n           admin ${registry.admin}`,
  );
  return `Registry Gateway is running before three sample registries, memory only.

  console  ${operations}/console/
  gateway  ${base}    operations ${operations}
${running.join("\n")}

Open the console in a browser. A client of the demo asks all three a few times a second, so that there is something to see.

  Type here        and see in the console
  kill funds       Overview: what is wrong. Transfers fail, and its cached answers are served all the same
  revive funds     it is proved anew, and well again
  slow bonds       Overview: the latency of its calls; clients of cached answers notice nothing
  In the console   put amulet into cache-only mode (Registries, amulet), and undo it on the Overview;
                   paste a URL from below on the page Cache: why is it answered as it is?

Or copy and paste in another terminal:

${demoCommands(registries, base, operations)}
Stop with Ctrl-C.
`;
}

/** Commands to copy, each with what it shows. */
function demoCommands(registries: readonly DemoRegistry[], base: string, operations: string): string {
  const registrars = `${base}/api/token-standard/v0/registrars`;
  const [amulet, bonds] = registries;
  const factory = `${base}/registry/transfer-instruction/v1/transfer-factory`;
  const bond = bonds!.registry.catalogue.list().find(({ id }) => id.startsWith("BOND-"));
  const instrumentId = { admin: bonds!.registry.admin, id: bond!.id };
  const body = transfer(instrumentId.admin, instrumentId);
  const contradiction = transfer(amulet!.registry.admin, instrumentId);
  return `  # 1. A miss: the slow registry is asked (about 400 ms). Look at cache-status.
  curl -si '${registrars}/funds/registry/metadata/v1/instruments?pageSize=5' | head -20

  # 2. The same again: a hit from memory, with its age.
  curl -si '${registrars}/funds/registry/metadata/v1/instruments?pageSize=5' | head -20

  # 3. A factory call to the plain base URL, routed by the admin in its body to "bonds".
  curl -s ${factory} -H 'content-type: application/json' \\
    -d '${body}' | head -c 300; echo

  # 4. The same with two admins that disagree: 400 here …
  curl -s ${factory} -H 'content-type: application/json' \\
    -d '${contradiction}'; echo

  # … and a plausible answer from the wrong registry behind a plain proxy, which fails on the ledger.
  curl -s ${bonds!.registry.url}/registry/transfer-instruction/v1/transfer-factory -H 'content-type: application/json' \\
    -d '${contradiction}' | head -c 300; echo

  # 5. A settlement of version 2, which names no registry: the path does.
  curl -s '${registrars}/amulet/registry/allocation/v2/settlement-factory' -H 'content-type: application/json' \\
    -d '{"choiceArguments":{"settlement":{},"transferLegs":[],"allocations":[]}}' | head -c 300; echo

  # … and at a registry without version 2: 404 whatever its web server says, so that clients fall back to version 1.
  curl -s '${registrars}/funds/registry/allocation/v2/settlement-factory' -H 'content-type: application/json' \\
    -d '{"choiceArguments":{"settlement":{},"transferLegs":[],"allocations":[]}}'; echo

  # 6. Metrics, state, and why an answer was cached.
  curl -s ${operations}/metrics | grep registry_gateway_requests_total
  curl -s ${operations}/status
  curl -s '${operations}/explain?path=/api/token-standard/v0/registrars/funds/registry/metadata/v1/instruments?pageSize=5'
`;
}

/** The body of a call for a transfer factory. */
export function transfer(expectedAdmin: string, instrumentId: { readonly admin: string; readonly id: string }): string {
  return JSON.stringify({
    choiceArguments: {
      expectedAdmin,
      transfer: {
        sender: "alice::1220aa",
        receiver: "bob::1220bb",
        amount: "1.0",
        instrumentId,
        requestedAt: "2026-01-01T00:00:00Z",
        executeBefore: "2099-01-01T00:00:00Z",
        inputHoldingCids: [],
        meta: { values: {} },
      },
      extraArgs: { context: { values: {} }, meta: { values: {} } },
    },
    excludeDebugFields: true,
  });
}
