import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Where a file takes seconds however short it is: for other processes, and for Redis to notice. */
const LONG = /\/test\/(commands|gateway|sharing)\//;

/** What waits longest begins first, on a new machine as well, where no file's duration is known: it is not waited for. */
class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const { long = [], short = [] } = Object.groupBy(sorted, ({ moduleId }) =>
      LONG.test(moduleId) ? "long" : "short",
    );
    return [...long, ...short];
  }
}

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    exclude: ["test/long/**"],
    globalSetup: ["test/support/global-setup.ts"],
    setupFiles: ["test/support/setup.ts"],
    // For what hangs. What has to be quick says so itself; a busy machine makes no test fail.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    expect: { poll: { timeout: 60_000 } },
    // Most of a test is waiting: for a deadline, for another process, for Redis to notice.
    maxWorkers: 3 * availableParallelism(),
    sequence: { sequencer: LongFirst },
    // A worker runs one file after the other and loads the sources once: two thirds of the CPU time went into loading
    // them for each file anew. A test therefore leaves nothing behind: no listener of the process, no timer, no server.
    isolate: false,
    // Node loads the sources as they are, as it does for those who run them. Vite's own runner has to transform them
    // first, and then looks up each imported name anew at each use: a tenth of the CPU time, and stacks that lie.
    experimental: { viteModuleRunner: false, nodeLoader: false },
    // A test allocates much and keeps nothing: from the start, most of that dies before it is copied anywhere.
    execArgv: ["--min-semi-space-size=32", "--max-semi-space-size=64"],
  },
});
