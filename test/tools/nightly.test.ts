import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import config from "../../vitest.long.config.ts";

const ROOT = join(import.meta.dirname, "../..");

interface Project {
  readonly test: { readonly name: string; readonly include: readonly string[]; readonly env?: Record<string, string> };
}

// Two of them were left out, and what they leave to the night was run by none.
test("every file that leaves cases to the night is run at night, with all of them", () => {
  const projects = (config.test?.projects ?? []) as unknown as readonly Project[];
  const nightly = projects.find(({ test: { name } }) => name === "nightly")!.test;
  expect(nightly.env).toEqual({ TEST_THOROUGH: "yes" });
  const files = globSync("test/**/*.test.ts", { cwd: ROOT });
  const leaving = files.filter((file) =>
    /from "[^"]*support\/thorough\.ts"/.test(readFileSync(join(ROOT, file), "utf8")),
  );
  expect(leaving.length).toBeGreaterThan(10);
  const ofDay = leaving.filter((file) => !file.startsWith("test/long/"));
  expect(nightly.include.filter((file) => !file.includes("*")).toSorted()).toEqual(ofDay.toSorted());
});
