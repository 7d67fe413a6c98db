import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, expect, onTestFinished, test, vi } from "vitest";
import { readTextFile, watchFiles } from "../../../src/config/files.ts";
import { loadConfig } from "../../../src/config/load.ts";
import { ConfigError } from "../../../src/config/problem.ts";

const folder = mkdtempSync(join(tmpdir(), "gateway-config-"));
afterAll(() => rmSync(folder, { recursive: true }));
const TLS = resolve(import.meta.dirname, "../../fixtures/tls");
const at = (name: string): string => join(folder, name);

/** Between two looks, in ms: tests wait for what is seen, not for the second of production. */
const OFTEN = 20;

/** What changes a file that is watched. */
const CHANGES: Record<string, [before: (file: string) => void, change: (file: string) => void]> = {
  "written in place": [(file) => writeFileSync(file, "a"), (file) => writeFileSync(file, "b")],
  "replaced by a rename": [
    (file) => writeFileSync(file, "a"),
    (file) => {
      writeFileSync(`${file}.new`, "a");
      renameSync(`${file}.new`, file);
    },
  ],
  "there only now": [() => {}, (file) => writeFileSync(file, "a")],
  gone: [(file) => writeFileSync(file, "a"), (file) => unlinkSync(file)],
  "behind Kubernetes' ..data, which is swapped": [
    (file) => {
      for (const name of ["one", "two"]) {
        mkdirSync(`${file}-${name}`);
        writeFileSync(join(`${file}-${name}`, "text"), name);
      }
      symlinkSync(`${file}-one`, `${file}..data`);
      symlinkSync(join(`${file}..data`, "text"), file);
    },
    (file) => {
      symlinkSync(`${file}-two`, `${file}..data_tmp`);
      renameSync(`${file}..data_tmp`, `${file}..data`);
    },
  ],
};

test.each(Object.entries(CHANGES))("a file that is %s is seen", async (name, [before, change]) => {
  const file = at(`watched ${name.length}`);
  before(file);
  const onChange = vi.fn<() => void>();
  onTestFinished(watchFiles([file, at("another")], onChange, OFTEN));
  await new Promise((resolve) => setTimeout(resolve, 10 * OFTEN));
  expect(onChange).not.toHaveBeenCalled();
  change(file);
  await expect.poll(() => onChange.mock.calls.length).toBe(1);
});

test("files that change together are one change, and one that changes while the next watch begins is seen", async () => {
  const files = [at("cert"), at("key")];
  for (const file of files) writeFileSync(file, "a");
  const [first, second] = [vi.fn<() => void>(), vi.fn<() => void>()];
  const end = watchFiles(files, first, OFTEN);
  await new Promise((resolve) => setTimeout(resolve, 10 * OFTEN));
  for (const file of files) writeFileSync(file, "bb");
  await expect.poll(() => first.mock.calls.length).toBe(1);

  writeFileSync(files[0]!, "ccc");
  onTestFinished(watchFiles(files, second, OFTEN));
  end();
  await expect.poll(() => second.mock.calls.length).toBe(1);
  expect(first).toHaveBeenCalledTimes(1);
});

test("a text is read from a regular file alone, up to its largest size", () => {
  writeFileSync(at("text"), "é".repeat(8));
  expect(readTextFile(at("text"), 16)).toBe("é".repeat(8));
  expect(() => readTextFile(at("text"), 15)).toThrow(/^is larger than 15B$/);
  expect(() => readTextFile(folder, 15)).toThrow(/^is not a file$/);
  expect(() => readTextFile("/dev/null", 15)).toThrow(/^is not a file$/);
  expect(() => readTextFile(at("nothing"), 15)).toThrow(/^is not there$/);
  expect(() => readTextFile(`${at("text")}/x`, 15)).toThrow(/^cannot be read \(ENOTDIR\)$/);
});

const TEXT = `listen: { tls: { certFile: cert.pem, keyFile: key.pem } }
operations: { tokens: [{ name: ops, token: "\${file:token}" }] }
clients: { keysFile: clients.jsonl }
upstreams:
- { name: a, urls: ["https://a.example"], tls: { caFile: ${TLS}/ca.pem } }
`;

test("a configuration names all its files, and gives the texts of certificates and keys", () => {
  copyFileSync(`${TLS}/server.pem`, at("cert.pem"));
  copyFileSync(`${TLS}/server-key.pem`, at("key.pem"));
  writeFileSync(at("token"), "0123456789abcdef\n");
  writeFileSync(at("clients.jsonl"), "\n");
  writeFileSync(at("gateway.yaml"), TEXT);
  const { config, texts, files, keys } = loadConfig({ file: at("gateway.yaml") }, {});
  const pem = [at("cert.pem"), at("key.pem"), `${TLS}/ca.pem`];
  expect(config.listen.tls).toEqual({ certFile: pem[0], keyFile: pem[1] });
  expect([...texts.keys()].toSorted()).toEqual(pem.toSorted());
  expect(texts.get(pem[2]!)).toContain("BEGIN CERTIFICATE");
  expect(files.toSorted()).toEqual([at("gateway.yaml"), at("token"), at("clients.jsonl"), ...pem].toSorted());
  expect(keys).toEqual([]);
});

test("a refused configuration names its files, too: also those that are not there yet", () => {
  rmSync(at("token"));
  writeFileSync(at("clients.jsonl"), "{}\n");
  const error = errorOf(() => loadConfig({ file: at("gateway.yaml") }, {}));
  expect(error.message).toBe(
    `${at("gateway.yaml")}:2:44: operations.tokens[0].token: the file ${at("token")} is not there`,
  );
  expect(error.files).toContain(at("token"));

  writeFileSync(at("token"), "0123456789abcdef");
  const next = errorOf(() => loadConfig({ file: at("gateway.yaml") }, {}));
  expect(next.message).toContain(`:3:22: clients.keysFile: the file ${at("clients.jsonl")} line 1: name must be`);
});

function errorOf(load: () => unknown): ConfigError {
  try {
    load();
  } catch (error) {
    if (error instanceof ConfigError) return error;
  }
  throw new Error("it loaded");
}
