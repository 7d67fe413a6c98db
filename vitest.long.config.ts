import { defineConfig } from "vitest/config";

/** What each push needs: the package, the alerts, the console, what stands before and behind, hostile bodies, and that nothing is lost in changes. */
const PUSH = [
  "test/long/aggregate-endless.test.ts",
  "test/long/aggregate-replicas.test.ts",
  "test/long/alerts.test.ts",
  "test/long/console-actions.test.ts",
  "test/long/client-keys.test.ts",
  "test/long/console-clients.test.ts",
  "test/long/console-discovery.test.ts",
  "test/long/console-safety.test.ts",
  "test/long/demo.test.ts",
  "test/long/drain.test.ts",
  "test/long/hostile-heads.test.ts",
  "test/long/hostile-json.test.ts",
  "test/long/nginx-around.test.ts",
  "test/long/nginx-in-front.test.ts",
  "test/long/npm-scripts.test.ts",
  "test/long/one-byte-chunks.test.ts",
  "test/long/optional-tracing.test.ts",
  "test/long/package.test.ts",
  "test/long/process-reload.test.ts",
  "test/long/prometheus.test.ts",
  "test/long/redis-client-limits.test.ts",
  "test/long/redis-failover.test.ts",
  "test/long/redis-rate-limits.test.ts",
  "test/long/reload-credentials.test.ts",
  "test/long/stray-answers.test.ts",
  "test/long/shared-port.test.ts",
];

/** Those of each push that try a share of their cases there. */
const THOROUGH = [
  "test/aggregate/merged-listing.test.ts",
  "test/bodies/json.test.ts",
  "test/clients/api-key.test.ts",
  "test/journeys/addressing.test.ts",
  "test/journeys/byte-identity.test.ts",
  "test/journeys/clients-under-change.test.ts",
  "test/long/hostile-json.test.ts",
  "test/journeys/page-walk.test.ts",
  "test/journeys/random-requests.test.ts",
  "test/journeys/routing-properties.test.ts",
  "test/journeys/version-2.test.ts",
];

/** Tests that take minutes, one file after the other; `--project push` or `--project nightly` for one of the groups. */
export default defineConfig({
  test: {
    globalSetup: ["test/support/global-setup.ts"],
    setupFiles: ["test/support/setup.ts"],
    testTimeout: 600_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 20_000 } },
    maxWorkers: 1,
    fileParallelism: false,
    projects: [
      { extends: true, test: { name: "push", include: PUSH } },
      {
        extends: true,
        test: {
          name: "nightly",
          // Load, faults, soak, image, and every case and property in full.
          include: ["test/long/**/*.test.ts", ...THOROUGH],
          exclude: PUSH.filter((file) => !THOROUGH.includes(file)),
          env: { TEST_THOROUGH: "yes" },
          // These prove figures: one that a busy machine spoiled is measured again. What is wrong fails every time.
          retry: 2,
        },
      },
    ],
  },
});
