import { join } from "node:path";
import { defineConfig } from "vite";

/**
 * Builds the operators' console into dist/console, from where the operations listener serves it. Names of files are made of
 * their content, and nothing is inline: the listener forbids that (Content-Security-Policy).
 */
export default defineConfig({
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
});
