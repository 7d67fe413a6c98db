import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./installed-package.ts";

/** The code of docs/wallets.md, by the file name that each block has. */
export function readWalletExamples(): ReadonlyMap<string, string> {
  const page = readFileSync(join(ROOT, "docs/wallets.md"), "utf8");
  return new Map([...page.matchAll(/```\w+ file=(\S+)\n([\s\S]*?)```/g)].map(([, name, code]) => [name!, code!]));
}
