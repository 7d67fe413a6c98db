import { readdirSync, renameSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import { stringify } from "yaml";
import { ACCEPT, CANCEL, DRAFT, FACTORY, INFO, LIST, PREFIX } from "../../support/endpoints.ts";
import { type Values, withDefaults } from "../../support/gateway.ts";
import { PROGRAM, startProcess } from "../../support/process.ts";
import { sendAndReset, sendRaw } from "../../support/raw.ts";
import { startRedis } from "../../support/redis.ts";
import { instruments, type Registry, type Script, startRegistry } from "../../support/registry.ts";
import { memoryOf } from "../../support/usage.ts";

/**
 * Everything at once: load, faults, reloads, purges, attacks and a Redis that goes. `EVERYTHING_MINUTES` says how long: three at
 * the least, since in the first the heap grows to its usual size.
 */
const MINUTES = Math.max(3, Number(process.env["EVERYTHING_MINUTES"] ?? 30));
const LENGTH = MINUTES * 60_000;
const MIB = 2 ** 20;

const FAULTS: readonly (Script | undefined)[] = [
  undefined,
  { status: 503, body: { error: "closed" } },
  "reset",
  undefined,
  { body: `{"instruments":[],"x":${"[".repeat(100_000)}${"]".repeat(100_000)}}` },
  { status: 429, fields: ["Retry-After", "1"], body: { error: "later" } },
  undefined,
  "hang",
  { status: 500, fields: ["Content-Type", "text/plain"], body: "a:/. ".repeat(50_000) },
];

const post = (path: string, length: number, sent: string): string =>
  `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n${sent}`;

/** What strangers do; each takes a second at most. */
const ATTACKS: readonly ((url: string) => Promise<unknown>)[] = [
  (url) => sendAndReset(url, post(`${PREFIX}/amulet${FACTORY}`, 100_000, "x".repeat(50_000))),
  (url) => sendRaw(url, "GET / HTTP/1.1\r\nHost: a\r\nX: ", { patience: 500 }),
  (url) => sendRaw(url, "no HTTP\r\n\r\n", { patience: 500 }),
  (url) =>
    sendRaw(url, post(`${PREFIX}/amulet${CANCEL}`, 600_000, `{"meta":{"x":${"[".repeat(599_980)}`), { patience: 500 }),
  (url) => sendRaw(url, `GET ${PREFIX}/bonds${INFO} HTTP/1.1\r\nHost: a\r\n\r\n`.repeat(50), { patience: 300 }),
  async (url) => {
    const { hostname, port } = new URL(url);
    const sockets = Array.from({ length: 50 }, () => connect(Number(port), hostname));
    for (const socket of sockets) {
      socket.on("error", () => undefined).pause();
      socket.write(`GET ${PREFIX}/bonds${LIST} HTTP/1.1\r\nHost: a\r\n\r\n`.repeat(3));
    }
    await pause(500);
    for (const socket of sockets) socket.destroy();
  },
];

/** A file that is written in its place is read half written now and then, and refused. */
function replace(file: string, values: Values): void {
  writeFileSync(`${file}.new`, stringify(withDefaults(values)));
  renameSync(`${file}.new`, file);
}

test(
  "everything at once: no answer is another's, no error is ours, and memory and descriptors stay flat",
  async () => {
    const redis = await startRedis();
    const amulet = await startRegistry("amulet", { nodes: 3, instruments: instruments("A", 500) });
    const bonds = await startRegistry("bonds", { instruments: instruments("B", 20) });
    const registries: Record<string, Registry> = { amulet, bonds };
    const values = (round: number): Values => ({
      redis: { url: redis.url },
      log: { level: "warn" },
      cache: { memory: "16MiB", ttl: { info: "2s", instruments: "1s", instrument: "1s" }, staleIfError: "5s" },
      upstreams: [
        amulet.upstream({
          urls: amulet.urls.slice(0, 2 + (round % 2)),
          timeout: "2s",
          attemptTimeout: "1s",
          proofEvery: "10s",
        }),
        bonds.upstream({ timeout: `${2 + (round % 2)}s`, rateLimit: { requests: "100000/1m" } }),
      ],
    });
    const [node = "", ...others] = PROGRAM;
    const program = [node, "--max-old-space-size=384", ...others];
    // Later than "warn" nobody would see that it listens.
    const gateway = await startProcess({ ...values(0), log: { level: "info" } }, { program });
    const { site, operations, child } = gateway;

    const end = performance.now() + LENGTH;
    const isOver = (): boolean => performance.now() > end || !child.isRunning;
    const outcomes = new Map<string, number>();
    const wrong = new Set<string>();
    const every = async (wait: number, work: (round: number) => Promise<unknown>): Promise<void> => {
      for (let round = 0; !isOver(); round += 1) {
        await work(round);
        await pause(wait);
      }
    };
    const client = (at: number) =>
      every(10, async (round) => {
        const name = ["amulet", "bonds"][round % 2]!;
        const asked = [
          INFO,
          LIST,
          CANCEL,
          `${LIST}?pageToken=${name[0]!.toUpperCase()}-0000${round % 10}`,
          ACCEPT,
          DRAFT,
        ];
        const path = asked[(round + at) % asked.length]!;
        const isCall = path === CANCEL || path === ACCEPT;
        const url = `${PREFIX}/${name}${path}`;
        const answer = await (isCall ? site.post(url) : site.get(url));
        outcomes.set(answer.outcome, (outcomes.get(answer.outcome) ?? 0) + 1);
        if (answer.status !== 200) return;
        const { adminId, instruments: listed, choiceContextData, registry } = answer.json;
        const said = String(adminId ?? listed?.[0]?.id ?? choiceContextData?.registry ?? registry ?? name);
        const right = [registries[name]!.admin, `${name[0]!.toUpperCase()}-`, name];
        if (!right.some((each) => said.startsWith(each))) wrong.add(`${url}: ${said}`);
      });
    const used: { memory: number; files: number }[] = [];
    await Promise.all([
      ...[0, 1, 2, 3, 4, 5].map(client),
      every(100, (round) => ATTACKS[round % ATTACKS.length]!([site, operations][round % 7 === 0 ? 1 : 0]!.url)),
      every(3_000, async (round) => amulet.on("*", FAULTS[round % FAULTS.length], round % 3)),
      every(4_000, async (round) => bonds.on("*", FAULTS[(round + 3) % FAULTS.length])),
      every(5_000, async () => amulet.reset()),
      every(2_000, async (round) => replace(gateway.file, values(round))),
      every(1_500, (round) => operations.purge(round % 2 === 0 ? undefined : "amulet")),
      every(300, async (round) => operations.get(["/status", "/metrics", "/requests", "/clients"][round % 4]!)),
      every(20_000, async (round) => (round % 2 === 0 ? redis.kill() : redis.start())),
      every(1_000, async () => {
        amulet.calls.length = bonds.calls.length = 0;
        used.push({ memory: memoryOf(child.pid), files: readdirSync(`/proc/${child.pid}/fd`).length });
      }),
    ]);

    if (!child.isRunning) throw new Error(`the gateway ended:\n${child.stderr.slice(0, 4_000)}`);
    expect([...wrong]).toEqual([]);
    expect(outcomes.get("500 internal_error")).toBeUndefined();
    expect(outcomes.get("200")).toBeGreaterThan(100);
    expect(child.stdout.split("\n").filter((line) => /"level":"(error|fatal)"/.test(line))).toEqual([]);
    // The least of a stretch: what is left when nothing runs.
    const least = (from: number, to: number) => {
      const some = used.slice(Math.floor(from * used.length), Math.ceil(to * used.length));
      return {
        memory: Math.min(...some.map(({ memory }) => memory)),
        files: Math.min(...some.map(({ files }) => files)),
      };
    };
    used.splice(0, 60);
    const stretches = [0, 0.2, 0.4, 0.6, 0.8].map((from) => least(from, from + 0.2));
    const text = JSON.stringify(stretches.map(({ memory, files }) => [Math.round(memory / MIB), files]));
    process.stdout.write(`everything: ${JSON.stringify([...outcomes])}; MiB and files of each fifth: ${text}\n`);
    expect(stretches[4]!.memory - stretches[0]!.memory, text).toBeLessThan(48 * MIB);
    expect(stretches[4]!.files - stretches[0]!.files, text).toBeLessThan(20);
  },
  LENGTH + 120_000,
);
