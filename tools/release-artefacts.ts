import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Release, run } from "./release-source.ts";

/** The npm package. Returns the file's name, as all below do. */
export function packProgram({ checkout, out, committedAt }: Release): string {
  const printed = run("npm", ["pack", "--json", "--silent", "--pack-destination", out], {
    cwd: checkout,
    env: { SOURCE_DATE_EPOCH: String(committedAt) },
  });
  const [packed] = Object.values(JSON.parse(printed.slice(printed.search(/^[[{]/m))) as Record<string, Packed>);
  return packed!.filename;
}

interface Packed {
  readonly filename: string;
}

/** The Helm chart, as `helm package` packs it: one folder with its name. */
export function packChart({ name, version, checkout, temporary, out, committedAt }: Release): string {
  const file = `${name.slice(0, -version.length)}chart-${version}.tgz`;
  const folder = join(temporary, "chart");
  cpSync(join(checkout, "config/helm"), join(folder, "registry-gateway"), { recursive: true });
  const packed = join(temporary, file.replace(/tgz$/, "tar"));
  packFolder(folder, { file: packed, paths: ["registry-gateway"], committedAt });
  run("gzip", ["--no-name", "--best", packed]);
  cpSync(`${packed}.gz`, join(out, file));
  return file;
}

/** The bill of materials: what is installed with the program. */
export function writeSbom({ name, checkout, temporary, out, committedAt }: Release): string {
  const file = `${name}.cdx.json`;
  // npm names the whole after the folder.
  const folder = join(temporary, "bill/registry-gateway");
  withoutDevelopment(checkout, folder);
  const args = ["sbom", "--package-lock-only", "--sbom-format", "cyclonedx"];
  const { serialNumber: _, metadata, ...bill } = JSON.parse(run("npm", args, { cwd: folder })) as Bill;
  const timestamp = new Date(committedAt * 1_000).toISOString();
  const content = { ...bill, metadata: { ...metadata, timestamp } };
  const digest = createHash("sha256").update(JSON.stringify(content)).digest("hex");
  // By RFC 9562 §5.8, a UUID made of what it names: the same bill has the same number.
  const parts = [digest.slice(0, 8), digest.slice(8, 12), `8${digest.slice(13, 16)}`, `8${digest.slice(17, 20)}`];
  const serialNumber = `urn:uuid:${[...parts, digest.slice(20, 32)].join("-")}`;
  writeFileSync(join(out, file), `${JSON.stringify({ ...content, serialNumber }, undefined, 2)}\n`);
  return file;
}

/** The package and its lock file without what only builds it: npm's `--omit dev` leaves out what something else needs as well. */
function withoutDevelopment(checkout: string, folder: string): void {
  mkdirSync(folder, { recursive: true });
  const read = (file: string): object => JSON.parse(readFileSync(join(checkout, file), "utf8")) as object;
  const write = (file: string, content: object): void => writeFileSync(join(folder, file), JSON.stringify(content));
  const manifest = { ...read("package.json"), devDependencies: {} };
  const lock = read("package-lock.json") as { packages: Record<string, { dev?: boolean }> };
  const needed = Object.entries(lock.packages).filter(([, { dev }]) => dev !== true);
  const packages = { ...Object.fromEntries(needed), "": { ...lock.packages[""], devDependencies: {} } };
  write("package.json", manifest);
  write("package-lock.json", { ...lock, packages });
}

interface Bill {
  readonly serialNumber: string;
  readonly metadata: object;
}

/** What CHANGELOG.md says of the version. @throws Error when it says nothing */
export function writeNotes({ name, version, checkout, out }: Release): string {
  const file = `${name}.md`;
  const notes = notesOf(version, readFileSync(join(checkout, "CHANGELOG.md"), "utf8"));
  writeFileSync(join(out, file), notes);
  return file;
}

/** The section of a version: `## 0.2.0`, with a date behind it, or `## Unreleased: 0.2.0`. */
export function notesOf(version: string, changelog: string): string {
  const sections = changelog.split(/^(?=## )/m);
  const section = sections.find((each) => /^## (?:Unreleased: )?(\S+)/.exec(each)?.[1] === version);
  if (section === undefined) throw new Error(`CHANGELOG.md has no section "## ${version}": write one`);
  return `${section.trim()}\n`;
}

/** A tar file that depends on what is in it alone. */
export function packFolder(
  folder: string,
  {
    file,
    paths,
    committedAt,
  }: { readonly file: string; readonly paths: readonly string[]; readonly committedAt: number },
): void {
  run("tar", [
    "--create",
    "--format=ustar",
    "--sort=name",
    `--mtime=@${committedAt}`,
    "--owner=0",
    "--group=0",
    "--numeric-owner",
    "--mode=u=rwX,go=rX",
    `--file=${file}`,
    `--directory=${folder}`,
    ...paths,
  ]);
}
