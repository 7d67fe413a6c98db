import { registerHooks } from "node:module";

// The gateway whose way of a memory hit has no code for traces at all: what it costs less is what traces cost that are
// off.
const REMOVED: Readonly<Record<string, RegExp>> = {
  "/src/requests/hit.ts": /tracing\?\.begin\([^;]+\}\);/,
  "/src/requests/context.ts": /services\.observers\.tracing\?\.begin\(request\.headers\)/,
};

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context);
    const file = Object.keys(REMOVED).find((each) => url.endsWith(each));
    if (file === undefined) return loaded;
    const text = Buffer.from(loaded.source as Uint8Array).toString("utf8");
    const source = text.replace(REMOVED[file]!, "undefined");
    if (source === text) throw new Error(`${file} has no code for traces where it used to be`);
    return { ...loaded, source };
  },
});

await import("../../src/main.ts");
