import { createRequire } from "node:module";
import { hostname } from "node:os";
import { pid } from "node:process";
import { fileURLToPath } from "node:url";

const { version: packageVersion } = createRequire(import.meta.url)("../package.json") as { version: string };

/** The version in package.json, one folder above both the sources and what is built from them. */
export const version = packageVersion;

/** Put in by the build (vite.config.ts). */
declare const SOURCE_REVISION: string | undefined;

/** Of the sources, where this was built from a repository; `-` else. */
const revision = typeof SOURCE_REVISION === "string" ? SOURCE_REVISION : "-";

/** Both, for people. */
export const build = revision === "-" ? version : `${version} (${revision})`;

/** This process among the replicas; a container has a host name of its own. */
export const thisReplica = {
  name: `${hostname()}/${pid}`.replaceAll(/[^\w./:-]/g, "_").slice(-128),
  version,
  revision,
  since: new Date(performance.timeOrigin).toISOString(),
};

/** Where `npm run build` puts the operators' console. */
export const BUILT_CONSOLE = fileURLToPath(new URL("../dist/console", import.meta.url));

/** Where it puts the page that shows the API's description. */
export const BUILT_VIEWER = fileURLToPath(new URL("../dist/viewer", import.meta.url));
