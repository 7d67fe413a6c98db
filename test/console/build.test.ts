import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { build } from "vite";

const ROOT = join(import.meta.dirname, "../..");

let folder: string;
let files: readonly (readonly [name: string, content: Buffer])[];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "console-"));
  await build({ configFile: join(ROOT, "vite.config.ts"), logLevel: "silent", build: { outDir: folder } });
  files = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => statSync(join(folder, name)).isFile())
    .map((name) => [name, readFileSync(join(folder, name))]);
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("the console is at most 80 kB gzipped, all files together", () => {
  const sizes = files.map(([, content]) => gzipSync(content, { level: 9 }).length);
  expect(sizes.reduce((total, size) => total + size, 0)).toBeLessThanOrEqual(80_000);
});

test("its page has nothing inline, and names only files of its own", () => {
  const html = files.find(([name]) => name === "index.html")![1].toString();
  expect(html).not.toMatch(/<style|<script[^>]*>[^<]|\son\w+=|\sstyle=|javascript:/i);
  const named = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, url]) => url!);
  expect(named.length).toBeGreaterThanOrEqual(3);
  for (const url of named) expect(files.map(([name]) => `./${name}`)).toContain(url);
});

test("files besides the page are named by their content, and there is no source map", () => {
  for (const [name, content] of files) {
    if (name !== "index.html") expect(name).toMatch(/^assets\/[\w.-]+-[\w-]{8}\.(?:js|css|svg)$/);
    expect(content.includes("sourceMappingURL")).toBe(false);
  }
});

test("nothing in it names the machine it was built on, or is fetched from elsewhere", () => {
  for (const [, content] of files) {
    const text = content.toString();
    expect(text.includes(ROOT)).toBe(false);
    const urls = [...text.matchAll(/https?:\/\/[\w.-]+/g)].map(([url]) => url);
    // Names of XML's vocabularies, which nothing fetches.
    expect(urls.filter((url) => url !== "http://www.w3.org")).toEqual([]);
  }
});
