import { defineConfig } from "vitest/config";

/** Those of each push that try a share of their cases there. */
const THOROUGH = [
  "test/aggregate/catalogue-search.test.ts",
  "test/aggregate/merged-listing.test.ts",
  "test/bodies/json.test.ts",
  "test/clients/api-key.test.ts",
  "test/journeys/addressing.test.ts",
  "test/journeys/byte-identity.test.ts",
  "test/journeys/clients.test.ts",
  "test/journeys/page-walk.test.ts",
  "test/journeys/routing-corpus.test.ts",
  "test/journeys/routing-properties.test.ts",
  "test/journeys/typed-client.test.ts",
  "test/journeys/version-2.test.ts",
  "test/long/push-alone/process-reload.test.ts",
  "test/long/push/aggregate-cost.test.ts",
  "test/long/push/clients-under-change.test.ts",
  "test/long/push/contexts.test.ts",
  "test/long/push/hostile-json.test.ts",
  "test/long/push/log-output.test.ts",
  "test/long/push/lying-nodes.test.ts",
  "test/long/push/one-client.test.ts",
  "test/long/push/pin-file.test.ts",
  "test/long/push/random-requests.test.ts",
  "test/long/push/redis-forms.test.ts",
  "test/long/push/stray-answers.test.ts",
  "test/long/push/whom-to-believe.test.ts",
];

/** Beside what all have: the package, with the console and the viewer. */
const BUILD = ["test/support/build-package.ts"];

/** One file after the other, when the groups before are done. */
const alone = (groupOrder: number) => ({ maxWorkers: 1, fileParallelism: false, sequence: { groupOrder } });

/** Tests that take minutes; `--project "push*"` or `--project nightly` for one of the groups. */
export default defineConfig({
  test: {
    globalSetup: ["test/support/global-setup.ts"],
    setupFiles: ["test/support/setup.ts"],
    testTimeout: 600_000,
    hookTimeout: 180_000,
    expect: { poll: { timeout: 60_000 } },
    projects: [
      // Most of these wait: for a browser, for Redis to notice, for Prometheus to read twice.
      {
        extends: true,
        test: {
          name: "push",
          include: ["test/long/push/*.test.ts"],
          globalSetup: BUILD,
          maxWorkers: 3,
          // As in vitest.config.ts: the sources are loaded once, by Node.
          isolate: false,
          experimental: { viteModuleRunner: false, nodeLoader: false },
        },
      },
      // These measure time or memory, or exhaust something: one file after the other.
      { extends: true, test: { name: "push-alone", include: ["test/long/push-alone/*.test.ts"], ...alone(1) } },
      {
        extends: true,
        test: {
          name: "nightly",
          // Load, faults, soak, image, and every case and property in full.
          include: ["test/long/nightly/*.test.ts", ...THOROUGH],
          globalSetup: BUILD,
          ...alone(2),
          env: { TEST_THOROUGH: "yes" },
          // These prove figures: one that a busy machine spoiled is measured again. What is wrong fails every time.
          retry: 2,
        },
      },
    ],
  },
});
