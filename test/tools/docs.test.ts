import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { describe, expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");

const PAGES = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "*.md"], {
  cwd: ROOT,
  encoding: "utf8",
})
  .split("\n")
  .filter((file) => file !== "" && existsSync(join(ROOT, file)));

/** The text of a page without its code blocks. */
function proseOf(page: string): string {
  return readFileSync(join(ROOT, page), "utf8").replaceAll(/^```[\s\S]*?^```$/gm, "");
}

/** The anchors that a forge makes of a page's headings. */
function anchorsOf(page: string): Set<string> {
  const headings = [...proseOf(page).matchAll(/^#+ (.+)$/gm)];
  return new Set(
    headings.map(([, heading]) =>
      heading!
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
        .replaceAll(" ", "-"),
    ),
  );
}

describe.each(PAGES)("%s", (page) => {
  test("links only to pages, files and headings that exist", () => {
    for (const [, link] of proseOf(page).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(link!)) continue;
      const [path, anchor] = link!.split("#");
      const target = path === "" ? page : normalize(join(dirname(page), path!));
      expect(existsSync(join(ROOT, target)), link).toBe(true);
      if (anchor !== undefined && anchor !== "") expect(anchorsOf(target), link).toContain(anchor);
    }
  });

  test("names only files of the source that exist", () => {
    for (const [, file] of readFileSync(join(ROOT, page), "utf8").matchAll(
      /`((?:src|console|tools|test|config|docs)\/[A-Za-z0-9_./-]+\.[a-z]+)`/g,
    )) {
      expect(existsSync(join(ROOT, file!)), file).toBe(true);
    }
  });
});

// Its last rows were shown as text.
test.each(PAGES)("%s has no table with an empty line in it", (page) => {
  expect(proseOf(page)).not.toMatch(/^\|.*\n\n+\|.*\n(?!\|[ :|-]+$)/m);
});

test("the README stays within twelve kilobytes", () => {
  expect(statSync(join(ROOT, "README.md")).size).toBeLessThanOrEqual(12 * 1024);
});
