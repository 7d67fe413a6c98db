import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";

/** Runs `run` while no file can be opened, as where no descriptor is left. */
export function withoutDescriptors<T>(run: () => T): T {
  const { openSync } = fs;
  fs.openSync = () => {
    throw Object.assign(new Error("EMFILE: too many open files"), { code: "EMFILE" });
  };
  syncBuiltinESMExports();
  try {
    return run();
  } finally {
    fs.openSync = openSync;
    syncBuiltinESMExports();
  }
}
