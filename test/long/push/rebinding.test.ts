import dns, { type LookupAddress, type LookupOptions } from "node:dns";
import { readFileSync, writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { isIP } from "node:net";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { listOf, partyOf, untilState, useSearches } from "../../support/discovery.ts";
import { useGateways } from "../../support/gateways.ts";
import { useSampleRegistries } from "../../support/sample-registries.ts";
import { useTemporaryFolder } from "../../support/temporary-folder.ts";

const startRegistry = useSampleRegistries();
const startGateway = useGateways();
const search = useSearches();
const folder = useTemporaryFolder();

const ONE = partyOf("one");
const NAME = "rebinding.example";
/** Of the public internet by its form, and given out to nobody: the 6bone gave it back (RFC 3701). */
const PUBLIC = "3ffe::1";
const TLS = join(import.meta.dirname, "../../fixtures/tls");

type Done = (error: Error | null, address: string | LookupAddress[], family?: number) => void;

/** The system's resolver, which a test may have answer as an attacker's name server would. */
const resolver: { lookup: (name: string, options: LookupOptions, done: Done) => void } = dns;
const resolve = resolver.lookup;
let lookups = 0;

/** Has {@link NAME}, and a name that not every resolver knows, lead to what `answer` gives for the look-up of this number, from 0. */
function answerBy(answer: (lookup: number) => readonly string[]): void {
  const lookup = (name: string, options: LookupOptions, done: Done): void => {
    if (![NAME, "localhost."].includes(name)) return resolve(name, options, done);
    const found = answer(lookups++).map((address) => ({ address, family: isIP(address) }));
    setImmediate(() => {
      if (options.all === true) done(null, found);
      else done(null, found[0]!.address, found[0]!.family);
    });
  };
  resolver.lookup = lookup;
  syncBuiltinESMExports();
}

afterEach(() => {
  resolver.lookup = resolve;
  syncBuiltinESMExports();
  lookups = 0;
});

const keysOf = (file: string, url: string) => ({
  sources: [{ url: `${url}/assets.json` }, { file, network: "MainNet" }],
  pinFile: join(folder(), "pins.json"),
  defaults: { timeout: "1s", tls: { caFile: join(TLS, "ca.pem") } },
});

/** A registry on loopback, with TLS, and the list that names it by this host. */
async function startAt(host: string) {
  const tls = {
    cert: readFileSync(join(TLS, "server.pem"), "utf8"),
    key: readFileSync(join(TLS, "server-key.pem"), "utf8"),
  };
  const registry = await startRegistry({ admin: ONE, tls });
  const url = `https://${host}:${new URL(registry.url).port}`;
  const file = join(folder(), "assets.json");
  writeFileSync(file, listOf({ [ONE]: url }));
  return { registry, url, keys: keysOf(file, url) };
}

/** Which addresses are public is tried in test/upstream/public-address.test.ts. */
const ANSWERS: [string, (lookup: number) => readonly string[]][] = [
  [
    "to a public address when it is looked up first, and to this machine then",
    (at) => [at % 2 === 0 ? PUBLIC : "127.0.0.1"],
  ],
  ["to this machine first, and to a public address then", (at) => [at % 2 === 0 ? "127.0.0.1" : PUBLIC]],
  ["to a public address and to this machine at once", () => [PUBLIC, "127.0.0.1"]],
  ["to this machine and to a public address at once", () => ["127.0.0.1", PUBLIC]],
  ...[
    "127.0.0.1",
    "0.0.0.0",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "169.254.169.254",
    "100.64.0.1",
    "fd00::1",
  ].map((address): [string, () => readonly string[]] => [`to ${address}`, () => [address]]),
  ["nowhere", () => []],
];

test.each(ANSWERS)(
  "a name that leads %s is not connected to: as a source, as a listed registry, or as a pinned one",
  async (_where, answer) => {
    const { registry, url, keys } = await startAt(NAME);
    answerBy(answer);
    const { used, ...scene } = await search({ ...keys, allowPrivate: false });
    for (let run = 0; run < 3; run += 1) await scene.search.run();
    expect(used()).toEqual({});
    expect(scene.search.report().sources[0]!.lastError).not.toBeNull();
    expect(lookups).toBeGreaterThanOrEqual(6);

    const pin = {
      admin: ONE,
      name: "one",
      version: 1,
      published: [url],
      urls: [url],
      mended: [],
      refused: [],
      source: "a",
    };
    const pins = [{ ...pin, since: "2026-01-01T00:00:00Z" }];
    writeFileSync(keys.pinFile, JSON.stringify({ format: 1, pins }));
    const gateway = await startGateway({ discovery: { ...keys, every: "1s", allowPrivate: false } });
    await untilState(gateway, ONE, "pinned");
    const before = lookups;
    for (let call = 0; call < 3; call += 1) {
      const answered = await fetch(`${gateway.registrar(ONE)}/registry/metadata/v1/info`);
      expect(answered.status).toBeGreaterThanOrEqual(502);
      expect(await answered.text()).not.toContain(NAME);
    }
    expect(lookups).toBeGreaterThan(before);
    expect(registry.connections.accepted).toBe(0);
  },
);

test("the same name is connected to where that is allowed", async () => {
  const { registry, keys } = await startAt(NAME);
  answerBy(() => ["127.0.0.1"]);
  const scene = await search({ ...keys, allowPrivate: true });
  await scene.search.run();
  expect(registry.connections.accepted).toBeGreaterThanOrEqual(2);
});

test.each([
  "localhost",
  "localhost.",
  "LOCALHOST",
  "127.0.0.1",
  "127.0.0.1.",
  "127.1",
  "2130706433",
  "017700000001",
  "0x7f000001",
  "0x7f.0.0.1",
  "0",
  "0.0.0.0",
  "%31%32%37.0.0.1",
  "\uff11\uff12\uff17.0.0.1",
  "127\u30020.0.1",
  "[::1]",
  "[::]",
  "[::ffff:127.0.0.1]",
  "[::ffff:7f00:1]",
  "[0:0:0:0:0:0:0:1]",
  "[64:ff9b::127.0.0.1]",
])("the host %s is this machine, and is not connected to", async (host) => {
  const { registry, keys } = await startAt(host);
  answerBy(() => ["127.0.0.1"]);
  const { used, ...scene } = await search({ ...keys, allowPrivate: false });
  await scene.search.run();
  expect([used(), registry.connections.accepted]).toEqual([{}, 0]);
  const { sources, registries } = scene.search.report();
  expect(sources[0]!.lastError).toBe("it is at an address that is not public");
  expect(registries[0]!.problem).toContain("at an address that is not public");
});

test("a registry that redirects to another one, of the same admin, is not followed there", async () => {
  const [inner, outer] = [await startRegistry({ admin: ONE }), await startRegistry({ admin: ONE })];
  const file = join(folder(), "assets.json");
  writeFileSync(file, listOf({ [ONE]: outer.url }));
  for (const status of [301, 302, 303, 307, 308]) {
    outer.script(({ url }) => ({ status, headers: ["location", inner.url + url], body: "" }));
    const { used, ...scene } = await search({
      sources: [{ file, network: "MainNet" }],
      pinFile: join(folder(), "pins.json"),
    });
    await scene.search.run();
    expect(used()).toEqual({});
  }
  expect([inner.connections.accepted, outer.calls.total]).toEqual([0, 5]);
});
