import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");

test.each(globSync("console/**/*.{ts,tsx}", { cwd: ROOT }))(
  "%s makes no markup of text, and no link of what the gateway tells",
  (file) => {
    const text = readFileSync(join(ROOT, file), "utf8");
    expect(text).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|\bstyle="/);
    // Links lead to pages of the console and to /metrics: what they are made of is encoded.
    for (const [, target] of text.matchAll(/href=(?:\{([^}]*\}?[^}]*)\}|"[^"]*")/g)) {
      if (target !== undefined) expect(target).toMatch(/^(?:formatRoute\(|`\.\.\/metrics#)/);
    }
  },
);
