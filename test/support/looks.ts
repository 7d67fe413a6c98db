import type { FileWatcher } from "../../src/config/watched-files.ts";
import type { ManualClock } from "./manual-clock.ts";

/** Lets `seconds` pass by a clock that is moved by hand, with the looks at files that fall due. */
export async function passWithLooks(files: FileWatcher, clock: ManualClock, seconds: number): Promise<void> {
  for (let halves = 0; halves < seconds * 2; halves += 1) {
    clock.advance(500);
    // The look that the clock began, or another one.
    await files.look();
  }
}
