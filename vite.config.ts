import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { defineConfig, type UserConfig } from "vite";

/**
 * Builds the operators' console into dist/console, from where the operations listener serves it. Names of files are made of
 * their content, and nothing is inline: the listener forbids that (Content-Security-Policy).
 */
const CONSOLE: UserConfig = {
  root: join(import.meta.dirname, "console"),
  // Relative: a proxy may put a path before it.
  base: "./",
  // Whatever NODE_ENV says: what is made for development names the files of this machine.
  oxc: { jsx: { runtime: "automatic", importSource: "preact", development: false } },
  build: {
    outDir: join(import.meta.dirname, "dist/console"),
    emptyOutDir: true,
    target: "es2023",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    reportCompressedSize: false,
  },
};

/**
 * Builds the page that shows the API's description into dist/viewer: Swagger UI, what it is told, and its style. The public
 * listener serves both files under these names.
 */
const VIEWER: UserConfig = {
  build: {
    outDir: join(import.meta.dirname, "dist/viewer"),
    emptyOutDir: true,
    target: "es2023",
    sourcemap: false,
    reportCompressedSize: false,
    chunkSizeWarningLimit: 2_000,
    license: { fileName: "license.md" },
    rolldownOptions: {
      input: "viewer/viewer.ts",
      output: { entryFileNames: "viewer.js", assetFileNames: "viewer[extname]" },
    },
  },
};

/**
 * Builds the program into dist/, in few files: Node takes half a millisecond for each module that it loads, and there are
 * three hundred. Packages stay outside, where tools find them, but for one of seven hundred files. All files are in one
 * folder, as `src/version.ts` expects.
 */
const PROGRAM: UserConfig = {
  ssr: { noExternal: ["typebox"] },
  define: { SOURCE_REVISION: JSON.stringify(sourceRevision()) },
  build: {
    ssr: true,
    outDir: join(import.meta.dirname, "dist"),
    emptyOutDir: true,
    target: "node24",
    minify: false,
    sourcemap: false,
    rolldownOptions: {
      input: {
        main: "src/main.ts",
        thread: "src/bodies/thread.ts",
        client: "client/client.ts",
        sandbox: "src/sandbox/sandbox.ts",
      },
      output: { entryFileNames: "[name].js", chunkFileNames: "[name]-[hash].js" },
    },
  },
};

/** The commit that is built; `-` where these sources are in no repository, or git is not there. */
function sourceRevision(): string {
  try {
    const asked = execFileSync("git", ["rev-parse", "--short=12", "HEAD"], {
      cwd: import.meta.dirname,
      stdio: ["ignore", "pipe", "ignore"],
    });
    return asked.toString().trim();
  } catch {
    return process.env.SOURCE_REVISION ?? "-";
  }
}

/** `vite build` builds the console, `vite build --mode program` the program, `--mode viewer` the description's page. */
export default defineConfig(({ mode }) => (mode === "program" ? PROGRAM : mode === "viewer" ? VIEWER : CONSOLE));
