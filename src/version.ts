import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const { version: packageVersion } = createRequire(import.meta.url)("../package.json") as { version: string };

/** The version in package.json, one folder above both the sources and what is built from them. */
export const version = packageVersion;

/** Where `npm run build` puts the operators' console. */
export const BUILT_CONSOLE = fileURLToPath(new URL("../dist/console", import.meta.url));
