import { defineConfig } from "vitest/config";

/**
 * Tests that take minutes: they prove figures rather than behaviour, and run one after the other. A figure that a busy
 * machine spoiled is measured again, twice at most; what is wrong fails every time.
 */
export default defineConfig({
  test: {
    include: ["test/long/**/*.test.ts"],
    globalSetup: ["test/support/global-setup.ts"],
    testTimeout: 600_000,
    hookTimeout: 60_000,
    maxWorkers: 1,
    fileParallelism: false,
    retry: 2,
  },
});
