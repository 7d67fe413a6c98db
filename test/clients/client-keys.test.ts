import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { FileWatcher } from "../../src/config/watched-files.ts";
import { createKey, digestOfKey } from "../../src/clients/api-key.ts";
import { ClientKeys, type KeyChanges } from "../../src/clients/client-keys.ts";
import type { Client, Tier } from "../../src/clients/client.ts";
import { withoutDescriptors } from "../support/failing-reads.ts";
import { passWithLooks } from "../support/looks.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { useTemporaryFolder } from "../support/temporary-folder.ts";

const folder = useTemporaryFolder();
const started: ClientKeys[] = [];
afterEach(() => started.splice(0).forEach((keys) => keys.stop()));

function tierOf(name: string): Tier {
  return { name, config: { per: 60_000, upstreams: ["*"], enforce: true }, seesAll: true, allows: () => true };
}

const TIERS = new Map(["wallet", "exchange"].map((name) => [name, tierOf(name)]));

interface Entry {
  readonly key: string;
  readonly name?: string;
  readonly tier?: string;
  readonly expires?: string;
}

function list(entries: readonly Entry[]): string {
  if (entries.length === 0) return "\n";
  return entries
    .map(({ key, name = "wallet-a", tier = "wallet", expires }) => {
      return `${JSON.stringify({ name, tier, digest: digestOfKey(key), expires })}\n`;
    })
    .join("");
}

interface OpenOptions {
  readonly tiers?: ReadonlyMap<string, Tier>;
  readonly previous?: ClientKeys;
  readonly file?: string;
  readonly clock?: ManualClock;
}

function open(entries: readonly Entry[], options: OpenOptions = {}) {
  const { file = join(folder(), "clients.jsonl"), clock = new ManualClock() } = options;
  const write = (text: string) => writeFileSync(file, text);
  if (entries.length > 0) write(list(entries));
  const files = new FileWatcher(clock);
  const changes: KeyChanges[] = [];
  const faults: (string | undefined)[] = [];
  const readings: (string | undefined)[] = [];
  const observer = {
    keysChanged: (each: KeyChanges) => void changes.push(each),
    // A file that is no good is read again and again.
    keysRead: (fault: string | undefined) => {
      readings.push(fault);
      if (fault === undefined || fault !== faults.at(-1)) faults.push(fault);
    },
    keysLeft: () => undefined,
  };
  const keys = new ClientKeys({
    file,
    tiers: options.tiers ?? TIERS,
    files,
    observer,
    previous: options.previous,
  });
  started.push(keys);
  const now = clock.wallNow();
  const find = (key: string) => keys.find(key, now);
  const nameOf = (key: string) => (find(key) as Client).name ?? find(key);
  /** Lets `seconds` pass, with the looks at the file that fall due. */
  const pass = (seconds: number) => passWithLooks(files, clock, seconds);
  return { keys, file, clock, changes, faults, readings, find, nameOf, pass, write };
}

test("a key names its client, and a client has one object for all of its keys", () => {
  const [a, b, c] = [createKey(), createKey(), createKey()];
  const { find } = open([{ key: a }, { key: b }, { key: c, name: "exchange", tier: "exchange" }]);
  expect(find(a)).toEqual({ kind: "key", name: "wallet-a", tier: TIERS.get("wallet"), id: "key:wallet-a" });
  expect(find(b)).toBe(find(a));
  expect(find(c)).toMatchObject({ name: "exchange", tier: { name: "exchange" } });
});

test("a mistyped key is told apart from one that is not known", () => {
  const key = createKey();
  const { find } = open([{ key }]);
  expect(find(createKey())).toBe("unknown");
  expect(find(`${key.slice(0, -1)}${key.endsWith("0") ? "1" : "0"}`)).toBe("invalid");
  expect(find("")).toBe("invalid");
  expect(find(digestOfKey(key))).toBe("invalid");
});

test("a key is refused from the instant on at which it expires, by the wall clock", () => {
  const [a, b] = [createKey(), createKey()];
  const { keys } = open([{ key: a, expires: "2027-01-31T00:00:00Z" }, { key: b }]);
  const end = Date.UTC(2027, 0, 31);
  expect(keys.find(a, end - 1)).toMatchObject({ name: "wallet-a" });
  expect(keys.find(a, end)).toBe("expired");
  expect(keys.find(b, end)).toMatchObject({ name: "wallet-a" });
});

test("a changed file is in use within a second, and says who came and who changed", async () => {
  const [a, b, c] = [createKey(), createKey(), createKey()];
  const { keys, find, changes, faults, pass, write } = open([{ key: a }]);
  keys.start();
  const before = find(a);
  await pass(5);
  expect(faults).toEqual([undefined]);
  write(list([{ key: a }, { key: b }, { key: c, name: "exchange", tier: "exchange" }]));
  await pass(1);
  expect(find(b)).toBe(before);
  expect(find(c)).toMatchObject({ name: "exchange" });
  expect(changes).toEqual([{ added: ["exchange"], removed: [], changed: ["wallet-a"] }]);
  expect(faults).toEqual([undefined, undefined]);
});

test("a key that is taken out is refused within three seconds, for the file may be half written", async () => {
  const [a, b] = [createKey(), createKey()];
  const { keys, find, nameOf, changes, pass, write } = open([{ key: a }, { key: b, name: "old" }]);
  keys.start();
  write(list([{ key: a }]));
  await pass(2);
  expect(nameOf(b)).toBe("old");
  await pass(1);
  expect(find(b)).toBe("unknown");
  expect(nameOf(a)).toBe("wallet-a");
  expect(changes).toEqual([{ added: [], removed: ["old"], changed: [] }]);
});

test("a file that is replaced all the time is in use within three seconds all the same", async () => {
  const [a, b, c] = [createKey(), createKey(), createKey()];
  const { keys, file, find, nameOf, pass } = open([{ key: a }, { key: b, name: "old" }]);
  keys.start();
  for (let i = 0; i < 6; i += 1) {
    // Each is another version: its size is.
    writeFileSync(`${file}.new`, `${list([{ key: a }, { key: c, name: "new" }])}${" ".repeat(i + 1)}\n`);
    renameSync(`${file}.new`, file);
    await pass(0.5);
  }
  expect([find(b), nameOf(c)]).toEqual(["unknown", "new"]);
});

test("a reload of the configuration takes no half of a file that is being written", async () => {
  const [a, b] = [createKey(), createKey()];
  const before = open([{ key: a }, { key: b, name: "other" }]);
  before.write(list([{ key: a }]));
  const after = open([], { file: before.file, previous: before.keys });
  after.keys.start();
  expect(after.nameOf(b)).toBe("other");
  before.write(list([{ key: a }, { key: b, name: "other" }]));
  await after.pass(5);
  expect(after.nameOf(b)).toBe("other");
  before.write(list([{ key: a }]));
  await after.pass(3);
  expect(after.find(b)).toBe("unknown");
});

test.each([100, 400, 500, 1_500])(
  "a removed key is good for 2 s and no longer, with a reload every %i ms",
  async (every) => {
    const [a, b] = [createKey(), createKey()];
    const first = open([{ key: a }, { key: b, name: "other" }]);
    first.keys.start();
    first.write(list([{ key: a }]));
    let last = first;
    for (let passed = 0; passed < 2_500; passed += every) {
      last.keys.stop();
      last = open([], { file: first.file, previous: last.keys, clock: first.clock });
      last.keys.start();
      if (every < 500) last.clock.advance(every);
      else await last.pass(every / 1_000);
    }
    expect([last.nameOf(a), last.find(b)]).toEqual(["wallet-a", "unknown"]);
  },
);

test("a broken file is refused once with all of its mistakes, and the last good one stays", async () => {
  const a = createKey();
  const { keys, file, nameOf, faults, readings, pass, write } = open([{ key: a }]);
  keys.start();
  write('{"name":"b","tier":"gold"}\n');
  await pass(5);
  expect(readings.length).toBeGreaterThan(2);
  expect(faults).toEqual([undefined, `line 1: digest: must be sha256: and 64 hex digits`]);
  expect(nameOf(a)).toBe("wallet-a");
  rmSync(file);
  await pass(5);
  expect(faults.slice(2)).toEqual(["there is no such file"]);
  expect(nameOf(a)).toBe("wallet-a");
  write(list([{ key: a, name: "again" }]));
  await pass(1);
  expect(nameOf(a)).toBe("again");
  expect(faults.slice(3)).toEqual([undefined]);
});

test("a file that is written slowly is used when all of it is there", async () => {
  const all = Array.from({ length: 6 }, () => createKey());
  const entries = all.map((key, i) => ({ key, name: `client-${i}` }));
  const { keys, find, faults, changes, pass, write } = open(entries);
  keys.start();
  const text = list([...entries, { key: createKey(), name: "new" }]);
  for (let part = 1; part <= 6; part++) {
    write(text.slice(0, Math.floor((text.length * part) / 6)));
    await pass(1);
    for (const key of all) expect(find(key)).toMatchObject({ kind: "key" });
  }
  expect(changes).toEqual([{ added: ["new"], removed: [], changed: [] }]);
  expect(faults).toEqual([undefined, undefined]);
});

test("a file that is renamed over, or comes behind another link, is found", async () => {
  const [a, b, c] = [createKey(), createKey(), createKey()];
  const { keys, file, nameOf, pass } = open([{ key: a }]);
  keys.start();
  writeFileSync(`${file}.new`, list([{ key: b, name: "b" }]));
  renameSync(`${file}.new`, file);
  await pass(1);
  expect(nameOf(b)).toBe("b");
  const data = join(folder(), "data");
  mkdirSync(data);
  writeFileSync(join(data, "clients.jsonl"), list([{ key: c, name: "c" }]));
  symlinkSync(join(data, "clients.jsonl"), `${file}.link`);
  renameSync(`${file}.link`, file);
  await pass(1);
  expect(nameOf(c)).toBe("c");
});

test("nothing is looked at any more after the stop", async () => {
  const [a, b] = [createKey(), createKey()];
  const { keys, find, pass, write, faults } = open([{ key: a }]);
  keys.start();
  await pass(1);
  keys.stop();
  write(list([{ key: b }]));
  await pass(5);
  expect(find(b)).toBe("unknown");
  expect(faults).toEqual([undefined]);
});

test("a client stays the same object over reloads of the configuration, as long as its tier does", () => {
  const [a, b] = [createKey(), createKey()];
  const first = open([{ key: a }, { key: b, name: "exchange", tier: "exchange" }]);
  const tiers = new Map([...TIERS, ["exchange", tierOf("exchange")]]);
  const second = open([], { tiers, previous: first.keys });
  expect(second.find(a)).toBe(first.find(a));
  expect(second.find(b)).not.toBe(first.find(b));
  expect((second.find(b) as Client).tier).toBe(tiers.get("exchange"));
  expect(second.changes).toEqual([]);
});

test("a reload of the configuration keeps the keys of a file that is broken meanwhile", () => {
  const a = createKey();
  const first = open([{ key: a }]);
  first.write("nothing\n");
  const second = open([], { previous: first.keys });
  expect(second.nameOf(a)).toBe("wallet-a");
  first.keys.stop();
  second.keys.start();
  expect(second.faults).toEqual(["line 1: must be one JSON object, as clients new prints it"]);
});

// The version that could not be read was taken for the one in use: a key that was replaced stayed good.
test("a file that could not be read at a reload is read again, though it does not change", async () => {
  const [before, after] = [createKey(), createKey()];
  const first = open([{ key: before }]);
  first.write(list([{ key: after }]));
  const second = withoutDescriptors(() => open([], { previous: first.keys }));
  first.keys.stop();
  second.keys.start();
  expect(second.faults).toEqual(["cannot be read (EMFILE)"]);
  await second.pass(1);
  expect([second.nameOf(before), second.nameOf(after)]).toEqual(["unknown", "wallet-a"]);
  expect(second.faults.at(-1)).toBeUndefined();
});

test("a reload that leaves a key without its tier, or a start with a broken file, is refused", () => {
  const first = open([{ key: createKey(), tier: "exchange" }]);
  const tiers = new Map([["wallet", tierOf("wallet")]]);
  expect(() => open([], { tiers, previous: first.keys })).toThrow('tier: "exchange" is no tier');
  first.write("nothing\n");
  expect(() => open([])).toThrow("must be one JSON object");
  expect(() => open([], { tiers, previous: first.keys })).toThrow("must be one JSON object");
});

test("a key is found among others, and no copy of one is kept", () => {
  const key = createKey();
  const others = Array.from({ length: 1_000 }, (_, i) => ({ key: createKey(), name: `client-${i}` }));
  const { keys, nameOf } = open([...others, { key, name: "last" }]);
  expect(nameOf(key)).toBe("last");
  expect(nameOf(others[500]!.key)).toBe("client-500");
  const seen = new Set<unknown>();
  const holds = (value: unknown): boolean => {
    if (typeof value === "string") return value.includes(key);
    if (typeof value !== "object" || value === null || seen.has(value)) return false;
    seen.add(value);
    const below = value instanceof Map ? [...value.keys(), ...value.values()] : Object.values(value);
    return below.some(holds);
  };
  expect(holds(keys)).toBe(false);
});
