import type { Artefact } from "./artefact.ts";
import { renderConfigExample } from "./config-example.ts";
import { renderConfigJsonSchema } from "./config-json-schema.ts";
import { renderConfigTable } from "./config-table.ts";

/** Everything in the project that is generated from code. */
export const artefacts: readonly Artefact[] = [
  { file: "config/gateway.schema.json", render: renderConfigJsonSchema },
  { file: "config/gateway.yaml", render: renderConfigExample },
  { file: "README.md", marker: "config", render: renderConfigTable },
];
