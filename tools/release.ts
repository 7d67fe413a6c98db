// `npm run release`: all that a release has, in the folder release/, and publishes nothing. What is committed is built, in a
// checkout of its own; the same commit gives the same bytes.
//
//   --out FOLDER     where it goes
//   --source URI     where the source is published, for the provenance
//   --builder URI    who builds, for the provenance
//   --without-image  all but the image, which buildah builds
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { packChart, packProgram, writeNotes, writeSbom } from "./release-artefacts.ts";
import { buildImage } from "./release-image.ts";
import { renderProvenance, writeChecksums } from "./release-provenance.ts";
import { checkOut, type Release } from "./release-source.ts";

const { values } = parseArgs({
  options: {
    out: { type: "string", default: "release" },
    source: { type: "string" },
    builder: { type: "string", default: "urn:registry-gateway:builder:local" },
    "without-image": { type: "boolean", default: false },
  },
});

/** Names of files, without folders, in the order in which they are made. */
function build(release: Release): string[] {
  const files = [packProgram(release), packChart(release), writeSbom(release), writeNotes(release)];
  const image = values["without-image"] ? undefined : buildImage(release);
  if (image !== undefined) files.push(image.file);
  const provenance = `${release.name}.provenance.json`;
  const about = { source: values.source, builder: values.builder, files, image };
  writeFileSync(join(release.out, provenance), renderProvenance(release, about));
  files.push(provenance);
  return [...files, writeChecksums(release.out, files)];
}

// Anybody who runs it: modes are part of the bytes.
process.umask(0o022);
const temporary = mkdtempSync(join(tmpdir(), "release-"));
try {
  const out = resolve(values.out);
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  const release = checkOut(join(import.meta.dirname, ".."), { temporary, out });
  for (const file of build(release)) console.log(join(out, file));
  console.log(readFileSync(join(out, `${release.name}.md`), "utf8"));
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
} finally {
  rmSync(temporary, { recursive: true, force: true });
}
