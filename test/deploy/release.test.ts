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

interface Job {
  readonly permissions: object;
  readonly needs?: string;
  readonly steps: readonly { readonly uses?: string; readonly run?: string }[];
}

describe("the workflow that releases", () => {
  const text = read(".github/workflows/release.yml");
  const { permissions, jobs } = parse(text) as { permissions: object; jobs: Record<"check" | "release", Job> };
  const commandsOf = ({ steps }: Job) => steps.map(({ run = "" }) => run).join("\n");
  const commands = commandsOf(jobs.release);

  test("may do nothing but publish and sign, and only once what each push runs has passed", () => {
    expect(permissions).toEqual({});
    expect(jobs.check.permissions).toEqual({ contents: "read" });
    expect(commandsOf(jobs.check)).toContain(".ci/run");
    expect(jobs.release.needs).toBe("check");
    expect(jobs.release.permissions).toEqual({ contents: "write", packages: "write", "id-token": "write" });
  });

  test("takes the code of others by commit", () => {
    const used = Object.values(jobs).flatMap(({ steps }) => steps.flatMap(({ uses }) => uses ?? []));
    expect(used).toHaveLength(4);
    for (const each of used) expect(each).toMatch(/^[\w-]+\/[\w-]+@[0-9a-f]{40}$/);
  });

  test("gives the release options that it has", () => {
    const given = [...commands.matchAll(/npm run release -- (.*)/g)].flatMap(([, options]) =>
      [...options!.matchAll(/--([a-z-]+)/g)].map(([, name]) => name!),
    );
    expect(given).toEqual(["out", "source", "builder"]);
    for (const name of given) expect(read("tools/release.ts")).toMatch(new RegExp(`^ {4}${name}: `, "m"));
  });

  test("signs every file and the image, and attests the image's provenance in the form that it has", () => {
    expect(commands).toMatch(/for file in \*; do\n +cosign sign-blob --yes --bundle "\$file\.sigstore\.json" "\$file"/);
    expect(commands).toContain('cosign sign --yes "$IMAGE@$(cat digest)"');
    expect(commands).toMatch(/cosign attest --yes --type slsaprovenance1 --predicate predicate\.json "\$IMAGE@/);
    expect(read("tools/release-provenance.ts")).toContain('predicateType: "https://slsa.dev/provenance/v1"');
  });

  test("gives npm the package as a file: without ./ it were taken for a repository", () => {
    expect(commands).toMatch(/npm publish .*"\$FILES\.tgz"/);
    expect(commands).toContain("FILES=./release/");
  });
});
