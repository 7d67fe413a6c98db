import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { digestOfKey, isKey } from "../../src/clients/api-key.ts";
import { parseKeys } from "../../src/config/keys-file.ts";
import { runHere } from "../support/command.ts";
import { useTemporaryFolder } from "../support/temporary-folder.ts";

const folder = useTemporaryFolder();

function file(name: string, text: string): string {
  const path = join(folder(), name);
  writeFileSync(path, text);
  return path;
}

/** The key and the entry that were printed. */
async function makeKey(...args: string[]) {
  const { code, stdout, stderr } = await runHere(["clients", "new", ...args]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  const [, key] = /^ {2}(rgk_\S+)$/m.exec(stdout)!;
  expect(stdout.split(key!)).toHaveLength(2);
  const entry = stdout.slice(stdout.indexOf("\n{") + 1);
  return { key: key!, entry, read: parseKeys(entry) };
}

test("clients new prints a key once, and the line that holds only its digest", async () => {
  const { key, entry, read } = await makeKey("wallet-a", "--tier", "wallet");
  expect(isKey(key)).toBe(true);
  expect(entry).toBe(`{"name":"wallet-a","tier":"wallet","digest":"${digestOfKey(key)}"}\n`);
  expect(read.problems).toEqual([]);
  expect(read.keys).toMatchObject([{ name: "wallet-a", tier: "wallet" }]);
  expect((await makeKey("wallet-a", "--tier", "wallet")).key).not.toBe(key);
});

test("clients new takes the tier anonymous where none is given, and any name", async () => {
  for (const name of ["true", 'a "b"', "0x10", "Bank #1", "é", "\\"]) {
    const { read } = await makeKey(name);
    expect(read.keys).toMatchObject([{ name, tier: "anonymous" }]);
  }
});

test.each([
  ["90d", 90 * 86_400_000],
  ["12h", 12 * 3_600_000],
])("clients new makes a key that ends in %s", async (expires, length) => {
  const before = Date.now();
  const { entry, read } = await makeKey("wallet-a", "--expires", expires);
  expect(entry).toMatch(/,"expires":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"\}\n$/);
  const end = read.keys[0]!.expires!;
  expect(end).toBeGreaterThanOrEqual(before + length);
  expect(end).toBeLessThanOrEqual(Date.now() + length + 1_000);
});

test("clients new makes a key that ends at a point in time", async () => {
  const { entry } = await makeKey("wallet-a", "--expires", "2099-01-31T01:00:00+01:00");
  expect(entry).toContain('"expires":"2099-01-31T00:00:00Z"');
});

test.each<[args: string[], message: string]>([
  [["new"], "expected 2 argument(s), got 1"],
  [["revoke", "a"], "there is no command clients revoke: take new, check or convert"],
  [["new", ""], "name: must be 1 to 128 characters without spaces at its ends"],
  [["new", "anonymous"], 'name: "anonymous" stands for others in logs and metrics: take another name'],
  [["new", "a\nb"], "name: must be 1 to 128 characters"],
  [["new", "a", "--tier", "gold tier"], "tier: must be the name of a tier"],
  [["new", "a", "--expires", "soon"], "--expires takes how long the key is good, such as 90d or 12h"],
  [["new", "a", "--expires", "0d"], "--expires takes how long the key is good, such as 90d or 12h"],
  [["new", "a", "--expires", "2020-01-31T00:00:00Z"], "--expires is in the past"],
  [["new", "a", "--config", "x"], "--config goes with clients check"],
  [["check", "a", "--tier", "x"], "--tier and --expires go with clients new"],
])("clients %j is refused", async (args, message) => {
  const { code, stdout, stderr } = await runHere(["clients", ...args]);
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  expect(stderr).toContain(message);
});

const CONFIG = `
clients: { keysFile: clients.jsonl, tiers: { wallet: {} } }
upstreams: [{ name: amulet, admin: "DSO::1220ab", urls: ["https://a.example"] }]
`;

test("clients check says how many keys a good file has, and which have expired", async () => {
  const [a, b] = [await makeKey("wallet-a", "--tier", "wallet"), await makeKey("wallet-a", "--tier", "wallet")];
  const keys = file("clients.jsonl", a.entry + b.entry.replace("}", ',"expires":"2020-01-31T00:00:00Z"}'));
  expect(await runHere(["clients", "check", keys, "--config", file("gateway.yaml", CONFIG)])).toEqual({
    code: 0,
    stdout: `${keys} is good: 2 keys of 1 client\nwarning: a key of wallet-a has expired: take it out\n`,
    stderr: "",
  });
  const empty = file("empty.jsonl", "\n");
  expect((await runHere(["clients", "check", empty])).stdout).toBe(`${empty} is good: 0 keys of 0 clients\n`);
});

test("clients check names every mistake with its line, and tiers only where it knows them", async () => {
  const { entry, key } = await makeKey("wallet-a", "--tier", "gold");
  const keys = file("clients.jsonl", `${entry}{"name":"b","tier":"wallet","digest":"${key}"}\n`);
  const config = file("gateway.yaml", CONFIG);
  const digest = `${keys}:2:1 digest: is a key: the file holds digests alone. Take the entry that clients new printed, and a new key\n`;
  const tier = `${keys}:1:1 tier: "gold" is no tier: clients.tiers has anonymous, wallet\n`;
  expect(await runHere(["clients", "check", keys])).toEqual({ code: 78, stdout: "", stderr: digest });
  // The keys file that the configuration names is no good: its tiers are known all the same.
  const both = await runHere(["clients", "check", keys, "--config", config]);
  expect(both).toEqual({ code: 78, stdout: "", stderr: tier + digest });
  expect(JSON.stringify(both)).not.toContain(key);
});

test("clients check says where the keys file or the configuration is not there or bad", async () => {
  const keys = file("clients.jsonl", "\n");
  const nowhere = join(folder(), "nowhere.yaml");
  expect(await runHere(["clients", "check", nowhere])).toMatchObject({
    code: 78,
    stderr: `${nowhere}: there is no such file\n`,
  });
  expect(await runHere(["clients", "check", keys, "--config", nowhere])).toMatchObject({
    code: 78,
    stderr: `${nowhere}: there is no such file\n`,
  });
  const config = file("gateway.yaml", CONFIG.replace("wallet", "wal.let"));
  const bad = await runHere(["clients", "check", keys, "--config", config]);
  expect(bad.code).toBe(78);
  expect(bad.stderr).toContain(`${config}:2:`);
});

test("check and start refuse a configuration whose keys file is no good, with its line", async () => {
  const { entry } = await makeKey("wallet-a", "--tier", "wallet");
  const keys = file("clients.jsonl", entry);
  const config = file("gateway.yaml", CONFIG);
  expect(await runHere(["check", "--config", config])).toMatchObject({ code: 0, stderr: "" });
  writeFileSync(keys, readFileSync(keys, "utf8").replace('"tier":"wallet"', '"tier":"walet"'));
  const message = `clients.keysFile: ${keys} line 1: tier: "walet" is no tier: clients.tiers has anonymous, wallet; did you mean "wallet"?\n`;
  for (const command of ["check", "start"]) {
    const { code, stderr } = await runHere([command, "--config", config]);
    expect(code).toBe(78);
    expect(stderr).toBe(`${config}:2:22 ${message}`);
  }
  writeFileSync(keys, "");
  expect((await runHere(["check", "--config", config])).stderr).toContain(`clients.keysFile: ${keys} is empty`);
});

test("clients convert prints a keys file of releases before 0.2 as clients check takes it", async () => {
  const [a, b] = [await makeKey("wallet-a"), await makeKey("wallet-b")];
  const yaml = `# keys\n- name: wallet-a\n  tier: anonymous\n  digest: ${digestOfKey(a.key)}\n  expires: 2099-01-31T00:00:00Z\n- { name: wallet-b, tier: anonymous, digest: "${digestOfKey(b.key)}" }\n`;
  const { code, stdout } = await runHere(["clients", "convert", file("clients.yaml", yaml)]);
  expect(code).toBe(0);
  expect(stdout).toBe(a.entry.replace("}", ',"expires":"2099-01-31T00:00:00Z"}') + b.entry);
  const converted = file("clients.jsonl", stdout);
  expect((await runHere(["clients", "check", converted])).stdout).toBe(`${converted} is good: 2 keys of 2 clients\n`);
  const other = await runHere(["clients", "convert", file("other.yaml", "a: b\n")]);
  expect([other.code, other.stderr]).toEqual([1, expect.stringContaining("is not a list of keys")]);
});
