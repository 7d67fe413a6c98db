import { npm, ROOT } from "./installed-package.ts";

/** Runs once before all long tests: what the package has, with the console and the viewer, as `prepack` builds it. */
export default function setup(): void {
  npm(["run", "build"], ROOT);
}
