import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { beforeAll, expect, test } from "vitest";
import type { HealthLine, Status } from "../../../src/operations/types.ts";
import { startBrowser } from "../../support/browser.ts";
import { atEnd } from "../../support/closing.ts";
import { expecting, FACTORY, LIST, PREFIX } from "../../support/endpoints.ts";
import { temporaryFolder, type Values } from "../../support/gateway.ts";
import { Site } from "../../support/http.ts";
import { findFreePort } from "../../support/ports.ts";
import { type GatewayProcess, run, startProcess } from "../../support/process.ts";
import { OPENSSL, provideProgram } from "../../support/programs.ts";
import { ROOT } from "../../support/project.ts";
import { Prometheus } from "../../support/prometheus.ts";
import { type RedisServer, startRedis } from "../../support/redis.ts";
import { type Registry, startRegistry } from "../../support/registry.ts";
import { until } from "../../support/until.ts";

/** A fault is named, and its repair seen, within this time. */
const SOON = 30_000;

const TLS = join(ROOT, "test/fixtures/tls");
const folder = temporaryFolder();
const [certFile, keyFile] = [join(folder, "tls.crt"), join(folder, "tls.key")];

/** Registries of one node and of two, and one that answers 429 now and then. */
let amulet: Registry;
let bonds: Registry;
let funds: Registry;
let redis: RedisServer;
/** The replica that the operator looks at, and the other one. */
let first: GatewayProcess;
let second: GatewayProcess;
let ports: readonly [number, number];
let prometheus: Prometheus;
let page: Page;

beforeAll(async () => {
  [amulet, bonds, funds] = [
    await startRegistry("amulet"),
    await startRegistry("bonds", { nodes: 2 }),
    await startRegistry("funds"),
  ];
  redis = await startRedis();
  usePair("server");
  ports = [await findFreePort(), await findFreePort()];
  [first, second] = (await Promise.all(ports.map((port) => startProcess(values(port))))) as [
    GatewayProcess,
    GatewayProcess,
  ];
  prometheus = await Prometheus.start(ports.map((port) => `127.0.0.1:${port}`));
  page = await (await startBrowser()).newPage();
  await page.goto(`${first.operations.url}/console/`);
  sendTraffic();
  await until(isQuiet, SOON);
  // A node that was asked for its info less than 5 s ago is not doubted yet, and these rules wait 2 s in place of two minutes.
  await new Promise((resolve) => setTimeout(resolve, 6_000));
});

function values(operationsPort: number): Values {
  return {
    listen: { tls: { certFile, keyFile } },
    operations: { port: operationsPort },
    redis: { url: redis.url },
    upstreams: [amulet, bonds, funds],
  };
}

/** The listener's certificate and key are of these names now. */
function usePair(name: "server" | "ending"): void {
  const from = name === "server" ? TLS : folder;
  writeFileSync(keyFile, readFileSync(join(from, `${name}-key.pem`)));
  writeFileSync(certFile, readFileSync(join(from, `${name}.pem`)));
}

/** A certificate that ends in five days. */
function makeEndingPair(): void {
  const what = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "5"];
  const names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"];
  const files = ["-keyout", join(folder, "ending-key.pem"), "-out", join(folder, "ending.pem")];
  execFileSync(provideProgram(OPENSSL), ["req", "-x509", ...what, ...names, ...files], { stdio: "ignore" });
}

/** What wallets ask of both replicas all the time: a listing and a factory of each registry. */
function sendTraffic(): void {
  const over = new AbortController();
  const ask = async ({ site }: GatewayProcess): Promise<void> => {
    const trusting = new Site(site.url, Buffer.concat([readFileSync(certFile), readFileSync(join(TLS, "ca.pem"))]));
    const answers = [amulet, bonds, funds].flatMap(({ name, admin }) => [
      trusting.post(`${PREFIX}/${name}${FACTORY}`, expecting(admin)),
      trusting.get(`${PREFIX}/${name}${LIST}`),
    ]);
    await Promise.allSettled(answers);
  };
  const traffic = (async () => {
    while (!over.signal.aborted)
      await Promise.all([ask(first), ask(second), new Promise((resolve) => setTimeout(resolve, 250))]);
  })();
  atEnd(() => {
    over.abort();
    return traffic;
  });
}

const SCENES: readonly {
  readonly what: string;
  readonly begin: () => unknown;
  readonly repair: () => unknown;
  /** The one line, cause first. */
  readonly line: RegExp;
  /** The one message: how urgent, and which alert. */
  readonly message: string;
}[] = [
  {
    what: "a registry is dead",
    begin: () => amulet.close(),
    repair: () => amulet.restart(),
    line: /^amulet is down since \d\d:\d\d: its only node refused the connection$/,
    message: "page AllNodesDown",
  },
  {
    what: "a registry answers one call in twenty with 429",
    begin() {
      let calls = 0;
      const busy = { status: 429, fields: ["content-type", "text/plain"], body: "Too Many Requests: Server is busy" };
      funds.on("*", () => ((calls += 1) % 20 === 0 ? busy : undefined));
    },
    repair: () => funds.on("*", undefined),
    line: /^funds answered 429, (was )?paused until \d\d:\d\d:\d\d \(1 node\)$/,
    message: "warning RegistryPauses",
  },
  {
    what: "one of two nodes is dead",
    begin: () => bonds.nodes[1]!.close(),
    repair: () => bonds.nodes[1]!.listen(),
    line: /^bonds: node 127\.0\.0\.1:\d+ out since \d\d:\d\d: refused the connection$/,
    message: "warning NodeDown",
  },
  {
    what: "Redis is dead",
    begin: () => redis.kill(),
    repair: () => redis.start(),
    line: /^Redis is away since \d\d:\d\d: it refuses the connection$/,
    message: "warning RedisAway",
  },
  {
    what: "the listener's certificate is about to end",
    begin() {
      makeEndingPair();
      usePair("ending");
    },
    repair: () => usePair("server"),
    line: /^the certificate of listen\.tls\.certFile ends on \d+ \w+ \d{4}$/,
    message: "warning CertificateEnds",
  },
  {
    what: "a changed configuration is refused",
    begin: () => first.write({ ...values(ports[0]), cache: { ttl: { infos: "1m" } } }),
    repair: () => first.write(values(ports[0])),
    line: /^the configuration was refused at \d\d:\d\d: .*gateway\.yaml:\d+:\d+: cache\.ttl\.infos: unknown key; did you mean "info"\?$/,
    message: "warning ReloadFailed",
  },
  {
    what: "a replica is gone",
    begin: () => second.child.signal("SIGKILL"),
    repair: async () => (second = await startProcess(values(ports[1]))),
    line: /^1 of 2 replicas is gone since \d\d:\d\d: it ended without a farewell, or does not reach Redis$/,
    message: "warning ReplicaGone",
  },
];

const WELL = "All is well: 3 registries.";

test.each(SCENES)(
  "$what: one line and one message, the same words everywhere, and gone after the repair",
  async (scene) => {
    const seen = new Night();
    await scene.begin();
    const line = await until(async () => (await tellingLines()).find(({ text }) => scene.line.test(text)), SOON);
    await until(() => isSaidAlike(scene.line), SOON);
    await until(async () => (await prometheus.messages()).length > 0, SOON);
    await scene.repair();
    await until(isQuiet, SOON);
    await seen.end();
    expect([...seen.messages]).toEqual([scene.message]);
    expect([...seen.subjects]).toEqual([`${line.subject} ${line.name}`]);
  },
);

async function status(): Promise<Status> {
  return (await first.operations.status()) as Status;
}

/** The lines that an operator reads. */
async function tellingLines(): Promise<HealthLine[]> {
  const { health } = await status();
  return health.lines.filter(({ runbook }) => runbook !== undefined);
}

async function commandSays(): Promise<string> {
  return (await run(["status", "--url", first.operations.url])).stdout;
}

/** `/status`, the command and the console have the same line; what changes with each moment is its time. */
async function isSaidAlike(line: RegExp): Promise<boolean> {
  const [text = ""] = (await tellingLines()).map((each) => each.text);
  const [command, shown] = [await commandSays(), await page.locator("main").innerText()];
  const timeless = (said: string): string => said.replace(/\d\d:\d\d(:\d\d)?/g, "");
  return line.test(text) && [command, shown].every((said) => timeless(said).includes(timeless(text)));
}

/** Everything says that all is well, and Prometheus sends nothing. */
async function isQuiet(): Promise<boolean> {
  if (!(await status()).health.sentence.startsWith(WELL) || (await prometheus.messages()).length > 0) return false;
  const said = await Promise.all([page.locator("h1").innerText(), commandSays()]);
  return said.every((each) => each.startsWith(WELL));
}

/** Everything that a scene had lines and messages of, from begin to end. */
class Night {
  readonly messages = new Set<string>();
  readonly subjects = new Set<string>();
  private isOver = false;
  private readonly watching = this.watch();

  async end(): Promise<void> {
    this.isOver = true;
    await this.watching;
  }

  private async watch(): Promise<void> {
    while (!this.isOver) {
      for (const { labels } of await prometheus.messages()) {
        this.messages.add(`${labels.severity} ${labels.alertname.replace("RegistryGateway", "")}`);
      }
      for (const { subject, name } of await tellingLines()) this.subjects.add(`${subject} ${name}`);
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
  }
}
