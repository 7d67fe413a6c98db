import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import config from "../../vitest.long.config.ts";

const ROOT = join(import.meta.dirname, "../..");

interface Project {
  readonly test: {
    readonly name: string;
    readonly include: readonly string[];
    readonly env?: Record<string, string>;
  };
}

// Two of them were left out, and what they leave to the night was run by none.
test("every file that leaves cases to the night is run at night, with all of them", () => {
  const projects = (config.test?.projects ?? []) as unknown as readonly Project[];
  const { include, env } = projects.find(({ test: { name } }) => name === "nightly")!.test;
  expect(env).toEqual({ TEST_THOROUGH: "yes" });
  const leaving = globSync("test/**/*.test.ts", { cwd: ROOT }).filter((file) =>
    /from "[^"]*support\/thorough\.ts"/.test(readFileSync(join(ROOT, file), "utf8")),
  );
  expect(leaving.length).toBeGreaterThan(10);
  const named = include.filter((file) => !file.includes("*"));
  expect(named.filter((file) => !leaving.includes(file))).toEqual([]);
  const isRun = (file: string) => named.includes(file) || file.startsWith("test/long/nightly/");
  expect(leaving.filter((file) => !isRun(file))).toEqual([]);
});
