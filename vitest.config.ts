import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/**
 * Begins with what waits for processes and for Redis: the other files fill the time. Vitest itself begins with what took longest,
 * which it does not know at the first run.
 */
class WaitingFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const waits = ({ moduleId }: TestSpecification): boolean => /\/test\/(operator|replicas)\//.test(moduleId);
    const usual = await super.sort(files);
    return [...usual.filter(waits), ...usual.filter((file) => !waits(file))];
  }
}

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
    // The program is started a dozen times: compiling its sources anew would be a part of that.
    env: { NODE_COMPILE_CACHE: join(tmpdir(), "registry-gateway-compile-cache") },
    sequence: { sequencer: WaitingFirst },
    // A worker runs one file after the other and loads the sources once. A test leaves nothing behind.
    isolate: false,
    // Node loads the sources as they are, as it does for those who run them.
    experimental: { viteModuleRunner: false, nodeLoader: false },
  },
});
