import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { describe, expect, test } from "vitest";
import { type Command, runHere, useCommands } from "../../support/command.ts";

const run = useCommands();

/** As the demo proposes to do, and look at it in the console. */
async function killAndRevive(command: Command, operations: string): Promise<void> {
  // Its own client asks.
  const requests = async () => (await fetch(`${operations}/requests?upstream=bonds`)).json();
  await expect
    .poll(requests)
    .toMatchObject({ requests: expect.arrayContaining([expect.objectContaining({ status: 200 })]) });
  const stateOfFunds = async () => {
    const { upstreams } = (await (await fetch(`${operations}/status`)).json()) as {
      upstreams: readonly { readonly name: string; readonly state: string }[];
    };
    return upstreams.find(({ name }) => name === "funds")!.state;
  };
  expect(await stateOfFunds()).toBe("up");
  command.type("kill funds");
  await command.printed(/funds is killed/);
  await expect.poll(stateOfFunds).toBe("failing");
  command.type("revive funds");
  await command.printed(/funds is as it was/);
  await expect.poll(stateOfFunds).toBe("up");
  command.type("kill nothing");
  await command.printed(/type kill, revive or slow and one of amulet, bonds, funds/);
}

describe("demo", () => {
  test("runs three registries behind a gateway, names the console first, and its commands show what it says", async () => {
    const command = run(["demo", "--port", "0", "--operations-port", "0"]);
    await command.printed(/Stop with Ctrl-C/);
    const [, gateway] = await command.printed(/gateway\s+(http:\S+)/);
    const [firstUrl, operations] = await command.printed(/(http:\S+)\/console\//);
    expect(/http:\S+/.exec(command.stdout)![0]).toBe(firstUrl);
    expect(command.stdout).toMatch(new RegExp(`operations ${operations!}`));
    const list = `${gateway}/api/token-standard/v0/registrars/funds/registry/metadata/v1/instruments?pageSize=5`;
    // Quoted: some shells take the question mark for a pattern.
    expect(command.stdout).toContain(`'${list}'`);
    const cacheStatus = async (): Promise<string | null> => (await fetch(list)).headers.get("cache-status");
    expect(await cacheStatus()).toContain("fwd=");
    expect(await cacheStatus()).toContain("hit");

    // The printed commands, as a shell would take them apart.
    const posts = [
      ...command.stdout.matchAll(/curl -s (http\S+) -H 'content-type: application\/json' \\\n\s+-d '([^']+)'/g),
    ];
    const answers = await Promise.all(
      posts.map(async ([, url, body]) => {
        const answer = await fetch(url!, {
          method: "POST",
          body: body!,
          headers: { "content-type": "application/json" },
        });
        return [answer.status, await answer.text()] as const;
      }),
    );
    expect(answers.map(([status]) => status)).toEqual([200, 400, 200]);
    const transferred = posts.map(([, , body]) => {
      const { choiceArguments } = JSON.parse(body!) as {
        choiceArguments: { transfer: { instrumentId: { id: string } } };
      };
      return choiceArguments.transfer.instrumentId.id;
    });
    for (const id of transferred) {
      const instrument = `${gateway}/api/token-standard/v0/registrars/bonds/registry/metadata/v1/instruments/${id}`;
      expect((await fetch(instrument)).status).toBe(200);
    }
    expect(answers[1]![1]).toContain("names two registries");
    expect(answers[2]![1]).toContain("factoryId");

    const metrics = await (await fetch(`${operations}/metrics`)).text();
    expect(metrics).toContain("registry_gateway_requests_total");
    expect((await fetch(`${operations}/status`)).status).toBe(200);
    const [, explain] = await command.printed(/curl -s '(\S+explain\S+)'/);
    expect(await (await fetch(explain!)).json()).toMatchObject({ upstream: "funds", cached: true });

    const explained = await runHere(["explain", list, "--operations", operations!, "--json"]);
    expect(explained.code).toBe(0);
    expect(JSON.parse(explained.stdout)).toMatchObject({ upstream: "funds" });

    await killAndRevive(command, operations!);
    command.signal("SIGINT");
    expect(await command.ended).toBe(0);
    await expect(fetch(list)).rejects.toThrow("fetch failed");
  });

  test("ends with 1 when its port is not a number", async () => {
    const command = run(["demo", "--port", "abc"]);
    expect([await command.ended, command.stdout]).toEqual([1, ""]);
    expect(command.stderr).toContain("--port takes a port");
  });

  test("says how to take other ports when its own are taken", async () => {
    const other = createServer();
    await new Promise<void>((resolve) => {
      other.listen(0, "127.0.0.1", resolve);
    });
    const { port } = other.address() as AddressInfo;
    const command = run(["demo", "--port", String(port), "--operations-port", "0"]);
    const code = await command.ended;
    const { stderr } = command;
    other.close();
    expect(code).toBe(1);
    expect(stderr).toContain(`cannot have port ${port}, another process has it: choose others with --port`);
  });
});
