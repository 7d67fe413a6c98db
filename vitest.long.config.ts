import { defineConfig } from "vitest/config";

/** Properties and tables of `npm test` that are tried in full at night. */
const THOROUGH = [
  "test/api/routing/properties.test.ts",
  "test/api/passing/bytes.test.ts",
  "test/api/passing/hostile-json.test.ts",
  "test/api/caching/page-walk.test.ts",
  "test/rules/**/*.test.ts",
];

/** One file after the other: these measure, or exhaust something. */
const ALONE = { maxWorkers: 1, fileParallelism: false } as const;

/** Tests that take minutes; `--project push` or `--project nightly` for one of the groups. */
export default defineConfig({
  test: {
    globalSetup: ["test/support/global-setup.ts"],
    setupFiles: ["test/support/setup.ts"],
    testTimeout: 600_000,
    hookTimeout: 180_000,
    // As in vitest.config.ts: the sources are loaded once, by Node.
    isolate: false,
    experimental: { viteModuleRunner: false, nodeLoader: false },
    projects: [
      {
        extends: true,
        test: {
          name: "push",
          include: [
            "test/long/push/**/*.test.ts",
            "test/model/**/*.test.ts",
            "test/hostile/{requests,small}.test.ts",
            "test/deploy/alerts.test.ts",
          ],
          globalSetup: ["test/support/global-setup.ts", "test/support/console-setup.ts"],
          // Half of their time is waiting, for Prometheus above all.
          maxWorkers: 3,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: "nightly",
          include: ["test/long/nightly/**/*.test.ts", "test/hostile/{answers,texts}.test.ts", ...THOROUGH],
          ...ALONE,
          sequence: { groupOrder: 1 },
          env: { TEST_THOROUGH: "yes" },
        },
      },
    ],
  },
});
