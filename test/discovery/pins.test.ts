import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { digestOf } from "../../src/digest.ts";
import { FileWatcher } from "../../src/config/watched-files.ts";
import type { Pin } from "../../src/discovery/pin.ts";
import { type KnownPins, Pins } from "../../src/discovery/pins.ts";
import type { SharedRows } from "../../src/sharing/ports.ts";
import { partyOf } from "../support/discovery.ts";
import { useTemporaryFolder } from "../support/temporary-folder.ts";

const folder = useTemporaryFolder();
const ADMIN = partyOf("one");

const pinOf = (url: string, version: number): Pin => ({
  admin: ADMIN,
  name: "one",
  version,
  published: [url],
  urls: [url],
  mended: [],
  refused: [],
  source: "list",
  since: "2026-11-20T00:00:00.000Z",
});

const FIRST = pinOf("https://first.example", 2);
const OTHER = JSON.stringify({ format: 1, pins: [pinOf("https://other.example", 1)] });

/** Of a process that had pinned something into a first file, and whose second one is broken. */
async function openBroken(shared?: SharedRows): Promise<{ file: string; pins: Pins }> {
  const file = join(folder(), "other.json");
  writeFileSync(file, "{");
  const pins = await open(file, { file: join(folder(), "first.json"), pins: [FIRST], lent: [] }, shared);
  expect([pins.get(ADMIN)?.urls, pins.isWhole]).toEqual([["https://first.example"], false]);
  expect(readFileSync(file, "utf8")).toBe("{");
  return { file, pins };
}

async function open(file: string, known: KnownPins, shared?: SharedRows): Promise<Pins> {
  const clock = systemClock();
  const pins = new Pins({
    clock,
    files: new FileWatcher(clock),
    file,
    known,
    shared,
    onChange: () => undefined,
    onKept: () => undefined,
    onBegunAnew: () => undefined,
  });
  await pins.open();
  return pins;
}

test("while another pin file is broken, what was pinned stays; once it is mended, it wins", async () => {
  const { file, pins } = await openBroken();
  writeFileSync(file, OTHER);
  await pins.recheck();
  expect([pins.get(ADMIN)?.urls, pins.isWhole]).toEqual([["https://other.example"], true]);
  expect(readFileSync(file, "utf8")).toBe(OTHER);
  await pins.close();
});

test("where another pin file is broken and then taken away, what was pinned stays and is written into it", async () => {
  const { file, pins } = await openBroken();
  rmSync(file);
  await pins.recheck();
  expect([pins.get(ADMIN)?.urls, pins.isWhole]).toEqual([["https://first.example"], true]);
  expect(JSON.parse(readFileSync(file, "utf8"))).toMatchObject({ pins: [{ admin: ADMIN, version: 2 }] });
  await pins.close();
});

test("another pin file that is mended after a further reload wins, too", async () => {
  const { file, pins } = await openBroken();
  await pins.close();
  const next = await open(file, pins.known);
  expect(next.get(ADMIN)?.urls).toEqual(["https://first.example"]);
  writeFileSync(file, OTHER);
  await next.recheck();
  expect(next.get(ADMIN)?.urls).toEqual(["https://other.example"]);
  expect(readFileSync(file, "utf8")).toBe(OTHER);
  await next.close();
});

test("what replicas share stays pinned where another pin file that lacks it is mended", async () => {
  const row = { version: FIRST.version, until: undefined, text: JSON.stringify(FIRST) };
  const rows = new Map([[digestOf(ADMIN), row]]);
  const { file, pins } = await openBroken({
    follow: (merge) => void merge(rows, 0),
    synchronise: async () => undefined,
  });
  writeFileSync(file, JSON.stringify({ format: 1, pins: [] }));
  await pins.recheck();
  expect(pins.get(ADMIN)?.urls).toEqual(["https://first.example"]);
  await pins.close();
});
