// Writes what is generated from code: `node tools/generate.ts`. With --check it writes nothing, and exits 1 when
// something is out of date.
import { join } from "node:path";
import { parseArgs } from "node:util";
import { generate } from "./artefact.ts";
import { artefacts } from "./artefacts.ts";

const { values } = parseArgs({ options: { check: { type: "boolean", default: false } } });

try {
  const root = join(import.meta.dirname, "..");
  const files = await generate({ root, artefacts, isCheck: values.check });
  for (const file of files) console.log(values.check ? `${file} is out of date: npm run generate` : `wrote ${file}`);
  if (values.check && files.length > 0) process.exitCode = 1;
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
