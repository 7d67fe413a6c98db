import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { notesOf } from "../../tools/release-artefacts.ts";

const ROOT = join(import.meta.dirname, "../..");
const read = (file: string) => readFileSync(join(ROOT, file), "utf8");
const { version } = JSON.parse(read("package.json")) as { version: string };

describe("the notes of a version", () => {
  test("are its section of the changelog, with what operators must do", () => {
    const notes = notesOf(version, read("CHANGELOG.md"));
    expect(notes).toMatch(new RegExp(`^## (Unreleased: )?${version.replaceAll(".", "\\.")}`));
    expect(notes).toContain("### What you must do");
    expect(notes.match(/^## /gm)).toHaveLength(1);
  });

  test.each([
    ["## 1.2.0 - 2026-11-24\n\nnew\n\n## 1.1.0\n\nold\n", "1.2.0", "## 1.2.0 - 2026-11-24\n\nnew\n"],
    ["# Changelog\n\n## Unreleased: 1.2.0\n\n- a\n\n### b\n", "1.2.0", "## Unreleased: 1.2.0\n\n- a\n\n### b\n"],
    ["## 1.2.01\n\nanother\n\n## 1.2.0\n\nit\n", "1.2.0", "## 1.2.0\n\nit\n"],
  ])("are found among others: %j", (changelog, wanted, notes) => {
    expect(notesOf(wanted, changelog)).toBe(notes);
  });

  test("that nobody wrote are an error", () => {
    expect(() => notesOf("9.9.9", read("CHANGELOG.md"))).toThrow('no section "## 9.9.9"');
  });
});

describe("the workflow that releases", () => {
  const { permissions, jobs } = parse(read(".github/workflows/release.yml")) as {
    permissions: object;
    jobs: Record<string, { permissions: object; steps: { uses?: string; run?: string }[] }>;
  };
  const commands = jobs["release"]!.steps.map(({ run = "" }) => run);

  test("may do nothing but publish and sign, and runs the checks of each push before", () => {
    expect(permissions).toEqual({});
    expect(jobs["release"]!.permissions).toEqual({ contents: "write", packages: "write", "id-token": "write" });
    const [checks, builds] = [".ci/run", "npm run release"].map((text) =>
      commands.findIndex((command) => command.startsWith(text)),
    );
    expect(checks).toBeGreaterThan(-1);
    expect(builds).toBeGreaterThan(checks!);
  });

  test("gives the release options that it has", () => {
    const given = [...commands.join("\n").matchAll(/npm run release -- (.*)/g)].flatMap(([, options]) =>
      [...options!.matchAll(/--([a-z-]+)/g)].map(([, name]) => name!),
    );
    expect(given).toEqual(["out", "source", "builder"]);
    for (const name of given) expect(read("tools/release.ts")).toMatch(new RegExp(`^ {4}${name}: `, "m"));
  });
});
