import { globSync } from "node:fs";
import { expect, test } from "vitest";
import { readText, ROOT } from "../support/project.ts";

/** What stands before the first part that varies. */
function beginOf(text: string): string {
  return text.split(/\$\{|…/)[0]!;
}

/** The messages of all lines that the source writes: the last text of each call. */
function written(): string[] {
  return globSync("src/**/*.ts", { cwd: ROOT }).flatMap((file) => {
    const calls = readText(file).matchAll(/\blog\.(?:info|warn|error|fatal)\(([^]*?)\);\n/g);
    return [...calls].map(([, args = ""]) =>
      beginOf([...args.matchAll(/"([^"]*)"|`([^`]*)`/g)].at(-1)!.slice(1).join("")),
    );
  });
}

test("the page of operations has every log line, and no other", () => {
  const [, section = ""] = readText("docs/operations.md").split("## Log lines to act on\n");
  const rows = section.split("\n## ")[0]!.matchAll(/^\| (.*?) \| (?:info|warn|error|fatal) \|/gm);
  const told = [...rows].flatMap(([, cell = ""]) =>
    [...cell.matchAll(/`([^`]+)`/g)].map(([, text = ""]) => beginOf(text)),
  );
  const lines = written();
  expect(lines.length).toBeGreaterThan(15);
  expect(lines.filter((line) => !told.some((each) => each.startsWith(line) || line.startsWith(each)))).toEqual([]);
  // `code` is a field of one of them.
  const others = told.filter((each) => each !== "code");
  expect(others.filter((each) => !lines.some((line) => each.startsWith(line) || line.startsWith(each)))).toEqual([]);
  expect([...section.split("\n## ")[0]!.matchAll(/^\| `/gm)].length).toBeLessThanOrEqual(25);
});
