import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // What needs a browser, nginx, Prometheus or minutes: vitest.long.config.ts.
    exclude: ["test/long/**", "test/model/**", "test/hostile/**", "test/deploy/alerts.test.ts"],
    globalSetup: ["test/support/global-setup.ts"],
    setupFiles: ["test/support/setup.ts"],
    // For what hangs. What has to be quick says so itself; a busy machine makes no test fail.
    testTimeout: 150_000,
    hookTimeout: 150_000,
    // Part of a test is waiting: for another process, for Redis to notice.
    maxWorkers: 2 * availableParallelism(),
    // The program is started a hundred times: a third of the CPU time went into compiling its sources anew.
    env: { NODE_COMPILE_CACHE: join(tmpdir(), "registry-gateway-compile-cache") },
    // A worker runs one file after the other and loads the sources once. A test leaves nothing behind.
    isolate: false,
    // Node loads the sources as they are, as it does for those who run them.
    experimental: { viteModuleRunner: false, nodeLoader: false },
  },
});
