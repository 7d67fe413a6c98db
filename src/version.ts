import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const packageFile = createRequire(import.meta.url)("../package.json") as { readonly version: string };

/** The version in package.json, one folder above both the sources and what is built from them. */
export const version = packageFile.version;

/** The folder where the build puts the operators' console. */
export const consoleFolder = fileURLToPath(new URL("../dist/console", import.meta.url));
