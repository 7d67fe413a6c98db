import { execFileSync } from "node:child_process";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Agent, request } from "undici";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { ActAnswer, PurgeAnswer, StatusAnswer } from "../../../src/operations/answers.ts";
import { runHere } from "../../support/command.ts";
import { GatewayProcess } from "../../support/gateway-process.ts";
import { ROOT } from "../../support/installed-package.ts";
import { startRedis } from "../../support/redis.ts";
import { useSampleRegistries } from "../../support/sample-registries.ts";
import { DSO } from "../../support/sample.ts";
import { SteadyLoad } from "../../support/steady-load.ts";
import { until } from "../../support/until.ts";

/** The last commit of 0.1: the next one is the first that breaks with it. */
const LAST_OF_0_1 = "afe00a4528da3054401acb1eedb75fb9b5f814e4";

const startRegistry = useSampleRegistries();

let folder: string;
let old: readonly string[];

/** 0.1 is run from its sources, by packages that are today's: it names the same ones, in the same ranges. */
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "upgrade-"));
  const archive = join(folder, "0.1.tar");
  try {
    execFileSync("git", ["archive", "--output", archive, LAST_OF_0_1, "src", "package.json"], {
      cwd: ROOT,
      stdio: "pipe",
    });
  } catch (cause) {
    const text = `0.1 is built from its commit ${LAST_OF_0_1}, which this clone lacks: git fetch --unshallow, then run the test again`;
    throw new Error(text, { cause });
  }
  execFileSync("tar", ["-xf", archive, "-C", folder]);
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  old = [process.execPath, join(folder, "src/main.ts")];
  return () => rmSync(folder, { recursive: true, force: true });
});

/** What an operator of 0.1 wrote, with each key that 0.2 has otherwise. */
function configurationOf01(redis: string, urls: readonly string[]): Record<string, unknown> {
  return {
    redis: { url: redis },
    workers: 1,
    shutdown: { grace: "2s" },
    clients: {
      keysFile: join(folder, "clients.yaml"),
      tiers: { anonymous: { requests: 1_000_000, burst: 100_000 }, wallet: { requests: 1_000_000 } },
    },
    cache: { prefetch: true },
    upstreams: [{ name: "amulet", admin: DSO, urls, agree: 2, compare: 0.1, publicOnly: false }],
  };
}

/** The same after the steps of the CHANGELOG, "What you must do". */
function configurationOf02(before: Record<string, unknown>): Record<string, unknown> {
  const { workers: _workers, cache: _prefetch, upstreams, ...kept } = before;
  const [{ agree, compare: _compare, publicOnly: _publicOnly, ...upstream }] = upstreams as [Record<string, unknown>];
  const tiers = {
    anonymous: { requests: 1_000_000, burst: { requests: 100_000, per: "5s" } },
    wallet: { requests: 1_000_000 },
  };
  return {
    ...kept,
    clients: { keysFile: join(folder, "clients.jsonl"), tiers },
    upstreams: [{ ...upstream, agreement: { admin: agree } }],
  };
}

/** Makes a key at 0.1, and both forms of the file. */
async function makeKeys(): Promise<string> {
  const [command, main] = old as [string, string];
  const printed = execFileSync(command, [main, "clients", "new", "wallet-one", "--tier", "wallet"], {
    encoding: "utf8",
  });
  writeFileSync(join(folder, "clients.yaml"), printed.slice(printed.indexOf("- name")));
  const { code, stdout } = await runHere(["clients", "convert", join(folder, "clients.yaml")]);
  expect(code).toBe(0);
  writeFileSync(join(folder, "clients.jsonl"), stdout);
  return /rgk_\S+/.exec(printed)![0];
}

/** Sends each request to a replica that is ready, in turn, and tries none again: as a load balancer that reads /readyz. */
class Balancer {
  url = "";
  private readonly members = new Map<GatewayProcess, boolean>();
  private readonly agent = new Agent({ connections: 40 });
  private readonly server: Server;
  private readonly timer: NodeJS.Timeout;
  private readonly key: string;
  private turn = 0;

  private constructor(key: string) {
    this.key = key;
    this.server = createServer((incoming, answer) => void this.pass(incoming, answer));
    this.timer = setInterval(() => void this.look(), 100);
  }

  static async start(key: string): Promise<Balancer> {
    const balancer = new Balancer(key);
    await new Promise<void>((resolve) => balancer.server.listen(0, "127.0.0.1", resolve));
    balancer.url = `http://127.0.0.1:${(balancer.server.address() as AddressInfo).port}`;
    return balancer;
  }

  async stop(): Promise<void> {
    clearInterval(this.timer);
    this.server.closeAllConnections();
    this.server.close();
    await this.agent.destroy();
  }

  add(member: GatewayProcess): void {
    this.members.set(member, true);
  }

  remove(member: GatewayProcess): void {
    this.members.delete(member);
  }

  private async look(): Promise<void> {
    await Promise.all(
      [...this.members.keys()].map(async (member) => {
        const isReady = await fetch(`${member.operations}/readyz`).then(
          ({ ok }) => ok,
          () => false,
        );
        if (this.members.has(member)) this.members.set(member, isReady);
      }),
    );
  }

  private async pass(incoming: IncomingMessage, answer: ServerResponse): Promise<void> {
    const ready = [...this.members].filter(([, isReady]) => isReady).map(([member]) => member);
    this.turn += 1;
    try {
      const { statusCode, headers, body } = await request(`${ready[this.turn % ready.length]!.url}${incoming.url}`, {
        method: incoming.method as "GET" | "POST",
        headers: { "content-type": "application/json", "x-api-key": this.key },
        body: incoming.method === "POST" ? incoming : null,
        dispatcher: this.agent,
      });
      answer.writeHead(statusCode, { "content-type": String(headers["content-type"]) }).end(await body.text());
    } catch (error) {
      answer.writeHead(599).end(String(error));
    }
  }
}

const REGISTRY = "/api/token-standard/v0/registrars/amulet/registry";

describe("from 0.1 to 0.2 and back, at one Redis", () => {
  test(
    "no request fails, purges reach both releases, and actions name whom they did not reach",
    { timeout: 300_000 },
    async () => {
      const key = await makeKeys();
      const nodes = [await startRegistry(), await startRegistry()];
      const redis = await startRedis();
      onTestFinished(() => redis.stop());
      const before = configurationOf01(
        redis.url,
        nodes.map(({ url }) => url),
      );
      const after = configurationOf02(before);
      const running = new Set<GatewayProcess>();
      onTestFinished(async () => void (await Promise.all([...running].map((each) => each.stop()))));
      const balancer = await Balancer.start(key);
      onTestFinished(() => balancer.stop());

      const start = async (release: "0.1" | "0.2") => {
        const gateway = await GatewayProcess.start(
          release === "0.1" ? before : after,
          release === "0.1" ? { command: old } : {},
        );
        running.add(gateway);
        expect((await gateway.status<StatusAnswer>()).version).toMatch(release);
        balancer.add(gateway);
        return gateway;
      };
      const replace = async (gateway: GatewayProcess, release: "0.1" | "0.2") => {
        const next = await start(release);
        gateway.signal("SIGTERM");
        expect(await gateway.ended).toBe(0);
        balancer.remove(gateway);
        running.delete(gateway);
        await gateway.stop();
        return next;
      };
      const post = async <Answer>(gateway: GatewayProcess, path: string, body: object): Promise<Answer> => {
        const headers = { "content-type": "application/json" };
        const answer = await fetch(`${gateway.operations}${path}`, {
          method: "POST",
          headers,
          body: JSON.stringify(body),
        });
        expect(answer.status).toBe(200);
        return (await answer.json()) as Answer;
      };
      // The load asks for others: who asks for this one is the test alone.
      const probe = `/metadata/v1/instruments/${encodeURIComponent(nodes[0]!.catalogue.list()[7]!.id)}`;
      const asked = () => nodes.reduce((sum, { calls }) => sum + calls.count("instrument"), 0);
      const get = async (gateway: GatewayProcess) => {
        const answer = await fetch(`${gateway.url}${REGISTRY}${probe}`, { headers: { "x-api-key": key } });
        expect(answer.status).toBe(200);
        return answer.headers.get("cache-status") ?? "";
      };
      const checkPurge = async (from: GatewayProcess, to: GatewayProcess): Promise<PurgeAnswer> => {
        for (const each of [from, to]) await until(async () => /; ?hit/.test(await get(each)));
        const count = asked();
        const answer = await post<PurgeAnswer>(from, "/purge", { upstream: "amulet" });
        expect(answer.scope).toBe("fleet");
        await until(async () => {
          await get(to);
          return asked() > count;
        });
        return answer;
      };

      const checked = (text: object) => {
        const file = join(folder, "check.yaml");
        writeFileSync(file, JSON.stringify(text));
        return runHere(["check", "--config", file]);
      };
      const refused = await checked(before);
      expect(refused.code).toBe(78);
      for (const what of ["workers", "burst", "prefetch", "agree", "compare", "publicOnly", "clients.yaml"]) {
        expect(refused.stdout + refused.stderr).toContain(what);
      }
      expect((await checked(after)).code).toBe(0);

      let [a, b] = [await start("0.1"), await start("0.1")];
      const load = new SteadyLoad({
        url: balancer.url,
        rate: 40,
        request: (index) =>
          index % 4 === 0
            ? { method: "POST", path: `${REGISTRY}/transfer-instruction/v1/00aa/choice-contexts/accept`, body: "{}" }
            : { method: "GET", path: `${REGISTRY}/metadata/v1/instruments?pageSize=${5 + (index % 3)}` },
      });
      await checkPurge(a, b);

      a = await replace(a, "0.2");
      const unknown = [{ name: "unknown", version: "-", revision: "-" }];
      expect((await checkPurge(a, b)).replicas).toMatchObject({
        of: 2,
        took: [{ version: expect.stringMatching(/^0\.2/) }],
        missing: unknown,
      });
      await checkPurge(b, a);
      // What is done at one release is not done at the other, and 0.2 says so.
      const cordon = { upstream: "amulet", node: 1, state: "cordoned", for: "10m" };
      expect((await post<ActAnswer>(a, "/nodes", cordon)).replicas).toMatchObject({ of: 2, missing: unknown });
      const cordoned = async (gateway: GatewayProcess) => (await gateway.status<StatusAnswer>()).inForce.length;
      expect([await cordoned(a), await cordoned(b)]).toEqual([1, 0]);

      b = await replace(b, "0.2");
      expect(await cordoned(b)).toBe(1);
      await until(async () => {
        const { replicas } = await post<ActAnswer>(b, "/nodes", { upstream: "amulet", node: 1, state: "active" });
        return replicas.of === 2 && replicas.missing.length === 0;
      });
      expect((await checkPurge(b, a)).replicas).toMatchObject({ of: 2, missing: [] });
      await post(a, "/nodes", cordon);

      a = await replace(a, "0.1");
      await checkPurge(a, b);
      expect((await checkPurge(b, a)).replicas.missing).toMatchObject(unknown);
      expect([await cordoned(a), await cordoned(b)]).toEqual([0, 1]);
      b = await replace(b, "0.1");
      await checkPurge(a, b);
      await checkPurge(b, a);

      const { sent, failures } = await load.stop();
      expect(failures).toEqual({});
      expect(sent).toBeGreaterThan(300);
    },
  );
});
