import { defineConfig } from "vitest/config";

/** Tests that take minutes: they prove figures rather than behaviour, and run one after the other. */
export default defineConfig({
  test: {
    include: ["test/long/**/*.test.ts"],
    globalSetup: ["test/support/global-setup.ts"],
    testTimeout: 600_000,
    hookTimeout: 60_000,
    maxWorkers: 1,
    fileParallelism: false,
  },
});
