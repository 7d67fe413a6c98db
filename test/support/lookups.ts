import dns, { type LookupAddress, type LookupOptions } from "node:dns";
import { syncBuiltinESMExports } from "node:module";
import { onTestFinished } from "vitest";

type Done = (error: Error | null, address: string | LookupAddress[], family?: number) => void;

/** The system's resolver, which a test may put another in the place of. */
const resolver: { lookup: (name: string, options: LookupOptions, done: Done) => void } = dns;

/** Has `name` lead to this machine while the test runs, until its server falls silent. */
export function leadHere(name: string): { fallSilent(): void } {
  const resolve = resolver.lookup;
  let isSilent = false;
  resolver.lookup = (asked, options, done) => {
    if (asked !== name) return resolve(asked, options, done);
    if (isSilent) return;
    setImmediate(() => {
      if (options.all === true) done(null, [{ address: "127.0.0.1", family: 4 }]);
      else done(null, "127.0.0.1", 4);
    });
  };
  syncBuiltinESMExports();
  onTestFinished(() => {
    resolver.lookup = resolve;
    syncBuiltinESMExports();
  });
  return { fallSilent: () => (isSilent = true) };
}
