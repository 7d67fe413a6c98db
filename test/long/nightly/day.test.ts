import { once } from "node:events";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import type { Contestant } from "../../day/contestant.ts";
import { planDay } from "../../day/plan.ts";
import { playDay } from "../../day/play.ts";

/** It asks one registry in the place of all. */
const confused: Contestant = {
  name: "confused",
  async start({ registries }) {
    const server = createServer((incoming, outgoing) => {
      const { method, url: path, headers } = incoming;
      const asked = request({ port: registries[0]!.ports[0]!, host: "127.0.0.1", method, path, headers });
      asked.once("response", (answer) => answer.pipe(outgoing.writeHead(answer.statusCode!, answer.headers)));
      asked.once("error", () => outgoing.destroy());
      incoming.pipe(asked);
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    return {
      bases: () => [`http://127.0.0.1:${(server.address() as AddressInfo).port}`],
      pids: () => [],
      async stop() {
        server.closeAllConnections();
        server.close();
        await once(server, "close");
      },
    };
  },
};

test("a day of five seconds is counted wrong for a proxy that takes one registry for another", async () => {
  const { wallets } = await playDay(confused, planDay(5 / 60, 3));
  const { right, wrong } = wallets.outcomes["reads"]!;
  expect(right).toBeGreaterThan(0);
  expect(wrong).toBeGreaterThan(20);
});
