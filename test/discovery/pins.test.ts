import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { FileWatcher } from "../../src/config/watched-files.ts";
import type { Pin } from "../../src/discovery/pin.ts";
import { Pins } from "../../src/discovery/pins.ts";
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

test("while another pin file is broken, what was pinned stays; once it is mended, it wins", async () => {
  const file = join(folder(), "other.json");
  writeFileSync(file, "{");
  const clock = systemClock();
  const pins = new Pins({
    clock,
    files: new FileWatcher(clock),
    file,
    known: { file: join(folder(), "first.json"), pins: [pinOf("https://first.example", 2)] },
    shared: undefined,
    onChange: () => undefined,
    onKept: () => undefined,
    onBegunAnew: () => undefined,
  });
  await pins.open();
  expect([pins.get(ADMIN)?.urls, pins.isWhole]).toEqual([["https://first.example"], false]);
  expect(readFileSync(file, "utf8")).toBe("{");
  const text = JSON.stringify({ format: 1, pins: [pinOf("https://other.example", 1)] });
  writeFileSync(file, text);
  await pins.recheck();
  expect([pins.get(ADMIN)?.urls, pins.isWhole]).toEqual([["https://other.example"], true]);
  expect(readFileSync(file, "utf8")).toBe(text);
  await pins.close();
});
