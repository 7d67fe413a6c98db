import { createRequire } from "node:module";

const { version: packageVersion } = createRequire(import.meta.url)("../package.json") as { version: string };

/** The version in package.json, one folder above both the sources and what is built from them. */
export const version = packageVersion;
