import { run } from "../../src/commands/run.ts";
import { SharedEntryStore } from "../../src/workers/shared-entries.ts";

// The gateway whose workers share no entries: what it calls and costs more is what the shared tier brings.
Object.assign(SharedEntryStore.prototype, { get: () => Promise.resolve(undefined), set: () => {} });

process.exitCode = await run(process.argv.slice(2));
