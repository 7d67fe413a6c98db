import { once } from "node:events";
import { connect } from "node:net";
import { expect, test } from "vitest";
import { startGateway } from "../support/gateway.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { useSampleRegistries } from "../support/sample-registries.ts";
import { until } from "../support/until.ts";

const registry = useSampleRegistries();

// What runs in the background had 5 s of its own after that.
test("a stop ends soon after shutdown.timeout, though a registry hangs that is asked in the background", async () => {
  const clock = new ManualClock();
  const amulet = await registry();
  const running = await startGateway(
    {
      upstreams: [{ name: "amulet", admin: amulet.admin, urls: [amulet.url] }],
      cache: { ttl: { instruments: "30s" }, staleWhileRevalidate: "1m" },
      shutdown: { grace: "2s", timeout: "1s" },
    },
    { clock },
  );
  const list = async () => {
    const answer = await fetch(`${running.registrar("amulet")}/registry/metadata/v1/instruments`);
    await answer.arrayBuffer();
    return answer.headers.get("cache-status");
  };
  await list();
  clock.advance(31_000);
  await amulet.faults.set({ kind: "hang", operations: ["instruments"] });
  expect(await list()).toContain("detail=stale-while-revalidate");
  await until(() => amulet.calls.open === 1);

  const begun = clock.now();
  let isStopped = false;
  void running.gateway.stop({ grace: true }).then(() => (isStopped = true));
  await until(() => {
    clock.advance(100);
    return isStopped;
  });
  // Grace, timeout, and a moment for each part that is left then.
  expect(clock.now() - begun).toBeLessThan(5_000);
});

const MIB = 2 ** 20;

// New connections were accepted until shutdown.timeout was over.
test("a client that reads slowly has a stop accept nobody else, and gets its answer whole", async () => {
  const amulet = await registry();
  const running = await startGateway({
    upstreams: [{ name: "amulet", admin: amulet.admin, urls: [amulet.url] }],
    limits: { responseBody: "64MiB" },
    shutdown: { grace: "0s", timeout: "1m" },
  });
  const body = "x".repeat(40 * MIB);
  amulet.script(({ operation }) =>
    operation === "pass_through"
      ? { raw: `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}` }
      : undefined,
  );
  const port = Number(new URL(running.url).port);
  const slow = connect(port, "127.0.0.1");
  let received = 0;
  slow.on("data", (chunk: Buffer) => (received += chunk.length));
  slow.write("GET /registry/drafts/v1/x HTTP/1.1\r\nHost: g\r\n\r\n");
  await once(slow, "data");
  slow.pause();
  // Until the kernel takes no more of it.
  for (let turn = 0; turn < 1_000; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  const ended = once(slow, "close");

  const stopped = running.gateway.stop({ grace: true });
  await expect
    .poll(async () => {
      const other = connect(port, "127.0.0.1");
      const [error] = await once(other, "connect").then(
        () => [undefined],
        (reason: unknown) => [(reason as NodeJS.ErrnoException).code],
      );
      other.destroy();
      return error;
    })
    .toBe("ECONNREFUSED");
  expect(slow.destroyed).toBe(false);
  slow.resume();
  await ended;
  expect(received).toBeGreaterThan(body.length);
  await stopped;
});

const ACCEPT = "/registry/transfer-instruction/v1/00aa/choice-contexts/accept";

// They were carried out all the same, and their clients sent them again as they were told.
test.for([
  ["call", "POST", ACCEPT],
  ["stream", "GET", "/registry/drafts/v1/x"],
] as const)("calls behind a %s that are refused for want of time reach no registry", async ([, method, path]) => {
  const clock = new ManualClock();
  const amulet = await registry();
  const running = await startGateway(
    {
      upstreams: [{ name: "amulet", admin: amulet.admin, urls: [amulet.url], concurrency: { max: 1, queue: 8 } }],
      shutdown: { grace: "0s", timeout: "1s" },
    },
    { clock },
  );
  await (await fetch(`${running.url}/registry/metadata/v1/info`)).arrayBuffer();
  const held = Promise.withResolvers<undefined>();
  amulet.script(() => held.promise);
  amulet.calls.clear();
  const statusOf = async (url: string, init: RequestInit) => (await fetch(url, init)).status;
  const first = statusOf(`${running.url}${path}`, { method });
  await until(() => amulet.calls.open === 1);
  const calls = [first, ...[1, 2].map(() => statusOf(`${running.url}${ACCEPT}`, { method: "POST" }))];
  const metrics = async () => (await fetch(`${running.operations}/metrics`)).text();
  await until(async () => /requests_in_flight 3\b/.test(await metrics()));

  let isStopped = false;
  const stopped = running.gateway.stop({ grace: true }).then(() => (isStopped = true));
  const answered = Promise.all(calls);
  let isAnswered = false;
  void answered.then(() => (isAnswered = true));
  await until(() => {
    clock.advance(100);
    return isAnswered;
  });
  held.resolve(undefined);
  await until(() => {
    clock.advance(100);
    return isStopped;
  });
  await stopped;
  expect(await answered).toEqual([503, 503, 503]);
  expect(amulet.calls.total).toBe(1);
  const ends = running.lines.filter(({ status }) => status === 503).map(({ code, outcome }) => [code, outcome]);
  expect(ends).toEqual(Array.from({ length: 3 }, () => ["stopping", "refused"]));
});

// It was carried out all the same, and its client sent it again as it was told.
test("a request that is refused for want of time reaches no registry, though the rest of it comes", async () => {
  const clock = new ManualClock();
  const amulet = await registry();
  const running = await startGateway(
    {
      upstreams: [{ name: "amulet", admin: amulet.admin, urls: [amulet.url] }],
      shutdown: { grace: "0s", timeout: "1s" },
    },
    { clock },
  );
  await (await fetch(`${running.url}/registry/metadata/v1/info`)).arrayBuffer();
  const client = connect(Number(new URL(running.url).port), "127.0.0.1");
  let received = "";
  client.setEncoding("utf8").on("data", (text: string) => (received += text));
  // Its own end may come as a reset.
  client.on("error", () => undefined);
  const ended = once(client, "close");
  const fields = "Host: g\r\nContent-Type: application/json\r\nContent-Length: 11";
  client.write(`POST ${ACCEPT} HTTP/1.1\r\n${fields}\r\n\r\n{`);
  await until(async () => /requests_in_flight 1\b/.test(await (await fetch(`${running.operations}/metrics`)).text()));
  const stopped = running.gateway.stop({ grace: true });
  await until(() => {
    clock.advance(100);
    return received !== "";
  });
  client.write('"meta":{}}');
  let isStopped = false;
  void stopped.then(() => (isStopped = true));
  await until(() => {
    clock.advance(100);
    return isStopped;
  });
  await ended;
  expect(received).toMatch(/^HTTP\/1\.1 503 /);
  expect(received).toContain('"code":"stopping"');
  expect(amulet.calls.count("transfer_accept")).toBe(0);
});
