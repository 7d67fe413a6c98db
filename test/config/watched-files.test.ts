import promises from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { closeSync, openSync, renameSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { FileWatcher, WatchedFiles } from "../../src/config/watched-files.ts";
import { readTextFile } from "../../src/config/text-file.ts";
import { passWithLooks } from "../support/looks.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { useTemporaryFolder } from "../support/temporary-folder.ts";

const folder = useTemporaryFolder();

function open() {
  const clock = new ManualClock();
  const lost: string[] = [];
  const files = new FileWatcher(clock, (file) => lost.push(file));
  const file = join(folder(), "watched");
  writeFileSync(file, "1\n");
  const offers: number[] = [];
  let answer = true;
  const watch = (names: readonly string[] = [file], known?: string) =>
    files.watch({
      files: names,
      ...(known === undefined ? {} : { known }),
      take(steadyFor) {
        offers.push(steadyFor);
        return answer;
      },
    });
  return {
    file,
    files,
    clock,
    lost,
    offers,
    watch,
    refuse: () => (answer = false),
    pass: (seconds: number) => passWithLooks(files, clock, seconds),
  };
}

function watchNumber({ file, files }: ReturnType<typeof open>, previous?: WatchedFiles<number>) {
  const faults: (string | undefined)[] = [];
  const watched = new WatchedFiles<number>({
    watcher: files,
    files: [file],
    read() {
      const value = Number(readTextFile(file));
      if (!(value > 0)) throw new Error("not a number");
      return value;
    },
    previous,
    onRead: (fault) => faults.push(fault),
  });
  return { watched, faults };
}

test("files are offered when they are others and stay the same for two looks", async () => {
  const { file, offers, watch, pass } = open();
  watch();
  await pass(1);
  expect(offers).toEqual([500]);
  await pass(5);
  expect(offers).toHaveLength(1);
  writeFileSync(file, "22\n");
  await pass(0.5);
  expect(offers).toHaveLength(1);
  await pass(0.5);
  expect(offers).toHaveLength(2);
});

test.for<readonly [what: string, change: (file: string) => void]>([
  ["written in place with as many bytes", (file) => writeFileSync(file, "2\n")],
  [
    "renamed over, with the time of the one before",
    (file) => {
      writeFileSync(`${file}.new`, "2\n");
      utimesSync(`${file}.new`, 1, 1);
      renameSync(`${file}.new`, file);
    },
  ],
  ["removed", (file) => rmSync(file)],
])("a file that is %s is another one", async ([, change]) => {
  const { file, offers, watch, pass } = open();
  watch();
  await pass(5);
  change(file);
  await pass(1);
  expect(offers).toHaveLength(2);
});

test("files that are refused are offered again, with how long they have been the same", async () => {
  const { offers, watch, refuse, pass } = open();
  refuse();
  watch();
  await pass(2);
  expect(offers).toEqual([500, 1_000, 1_500]);
});

test("files that change all the time are offered after two seconds all the same", async () => {
  const { file, offers, watch, pass } = open();
  watch();
  await pass(5);
  for (let size = 1; size <= 5; size += 1) {
    writeFileSync(file, "x".repeat(size));
    await pass(0.5);
  }
  expect(offers).toEqual([500, 0]);
});

test("a file whose version is known is offered only when it is another one", async () => {
  const { file, offers, watch, pass, files } = open();
  const { versionOf } = await import("../../src/config/watched-files.ts");
  const end = watch([file], versionOf(file));
  await pass(3);
  expect(offers).toEqual([]);
  writeFileSync(file, "2\n");
  end();
  await pass(3);
  await files.look();
  expect(offers).toEqual([]);
});

// As a single file that Docker mounts: after a rename outside, the path in the container leads to what has no name.
test("a file without a name any more is said once, however many watch it", async () => {
  const { file, lost, watch, pass } = open();
  const descriptor = openSync(file, "r");
  onTestFinished(() => closeSync(descriptor));
  const mounted = `/proc/self/fd/${descriptor}`;
  watch([mounted]);
  watch([file, mounted]);
  await pass(3);
  expect(lost).toEqual([]);
  writeFileSync(`${file}.new`, "2\n");
  renameSync(`${file}.new`, file);
  await pass(5);
  expect(lost).toEqual([mounted]);
});

test("a value follows its file, and the last good one stays while there is nothing better", async () => {
  const scene = open();
  const { watched, faults } = watchNumber(scene);
  expect([watched.current, faults]).toEqual([1, [undefined]]);
  writeFileSync(scene.file, "2\n");
  await scene.pass(1);
  expect(watched.current).toBe(2);
  writeFileSync(scene.file, "two\n");
  await scene.pass(1.5);
  // It may be half written.
  expect(faults.every((fault) => fault === undefined)).toBe(true);
  await scene.pass(2);
  expect([watched.current, faults.at(-1)]).toEqual([2, "cannot be read (unknown error)"]);
  rmSync(scene.file);
  await scene.pass(4);
  expect([watched.current, faults.at(-1)]).toEqual([2, "is not there"]);
  writeFileSync(scene.file, "3\n");
  await scene.pass(1);
  expect([watched.current, faults.at(-1)]).toEqual([3, undefined]);
});

test("what is found out of date is read at once, but not in every call", () => {
  const scene = open();
  const { watched } = watchNumber(scene);
  writeFileSync(scene.file, "2\n");
  watched.readNow();
  expect(watched.current).toBe(1);
  scene.clock.advance(500);
  watched.readNow();
  expect(watched.current).toBe(2);
});

test("a watch that takes the place of another begins with its value, and one that is closed follows nothing", async () => {
  const scene = open();
  const first = watchNumber(scene);
  writeFileSync(scene.file, "two\n");
  const second = watchNumber(scene, first.watched);
  first.watched.close();
  expect([second.watched.current, second.faults]).toEqual([1, ["cannot be read (unknown error)"]]);
  writeFileSync(scene.file, "3\n");
  await scene.pass(1);
  expect([first.watched.current, second.watched.current]).toEqual([1, 3]);
});

/** Has no `stat` of a file end while the test runs, until it is let go; how many wait. */
function hangStats() {
  const { stat } = promises;
  const waiting: (() => void)[] = [];
  const restore = (): void => {
    promises.stat = stat;
    syncBuiltinESMExports();
  };
  promises.stat = ((file: string) =>
    new Promise<void>((resolve) => waiting.push(resolve)).then(() => stat(file))) as typeof stat;
  syncBuiltinESMExports();
  onTestFinished(restore);
  const letGo = (): void => {
    restore();
    for (const resolve of waiting.splice(0)) resolve();
  };
  return { waiting, letGo };
}

// Each took one of Node's four threads: names were not looked up any more, and nothing was read.
test("of files on a file system that hangs two are asked for, and all when it answers", async () => {
  const { file, offers, watch, files, clock, pass } = open();
  const names = Array.from({ length: 6 }, (_none, i) => `${file}-${i}`);
  for (const name of names) {
    writeFileSync(name, "1");
    watch([name]);
  }
  const { waiting, letGo } = hangStats();
  clock.advance(5_000);
  expect(waiting).toHaveLength(2);
  letGo();
  await files.look();
  await pass(1);
  expect(offers).toHaveLength(6);
});
