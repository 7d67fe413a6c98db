import { execFileSync } from "node:child_process";
import { symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parseConfigFile } from "../../src/config/parse.ts";
import { readSecret } from "../../src/config/secret.ts";
import { faultOfFile, readTextFile } from "../../src/config/text-file.ts";
import { readTls } from "../../src/config/certificates.ts";
import { createSources } from "../../src/discovery/sources.ts";
import { PinFile } from "../../src/discovery/pin-file.ts";
import { systemClock } from "../../src/clock.ts";
import { useTemporaryFolder } from "../support/temporary-folder.ts";

const folder = useTemporaryFolder();

function faultOf(read: () => unknown): string {
  try {
    read();
  } catch (error) {
    return faultOfFile(error);
  }
  throw new Error("was read");
}

const READERS: Readonly<Record<string, (file: string) => unknown>> = {
  configuration: (file) => parseConfigFile(file, {}),
  "pin file": (file) => new PinFile(file).read(),
  secret: readSecret,
  certificate: (certFile) => readTls({ certFile }),
  "list from a file": async (file) => {
    const [source] = createSources([{ file }], { clock: systemClock(), allowPrivate: true });
    await source!.read(new AbortController().signal);
  },
};

describe.each(Object.entries(READERS))("a %s", (_, read) => {
  test.each(["a pipe", "a device", "a folder", "a link to a device"])(
    "that is %s is refused, and not read",
    async (kind) => {
      const file = join(folder(), "file");
      if (kind === "a pipe") execFileSync("mkfifo", [file]);
      if (kind === "a link to a device") symlinkSync("/dev/zero", file);
      const path = kind === "a device" ? "/dev/zero" : kind === "a folder" ? folder() : file;
      await expect((async () => read(path))()).rejects.toThrow("is not a file");
    },
  );

  test("that is larger than may be is refused, and not read", async () => {
    const file = join(folder(), "file");
    writeFileSync(file, "");
    truncateSync(file, 2 ** 40);
    await expect((async () => read(file))()).rejects.toThrow("is larger than");
  });
});

test("a file is read through a link, also where it does not say its size", () => {
  const [file, link] = [join(folder(), "file"), join(folder(), "link")];
  writeFileSync(file, "Grüße\n".repeat(50_000));
  symlinkSync(file, link);
  expect(readTextFile(link)).toBe("Grüße\n".repeat(50_000));
  expect(readTextFile("/proc/self/status")).toContain("VmRSS");
  expect(faultOf(() => readTextFile("/proc/self/status", 10))).toBe("is larger than 10B");
});
