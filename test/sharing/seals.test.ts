import { expect, test } from "vitest";
import { FileWatcher } from "../../src/config/watched-files.ts";
import { Seals } from "../../src/sharing/redis/seals.ts";
import { ManualClock } from "../support/manual-clock.ts";

// A change of an instrument whose name had the mark of a seal there was cut off, and told to nobody.
test("where nothing is sealed a text is read as it is, unless a seal is behind it", () => {
  const seals = new Seals({}, new FileWatcher(new ManualClock()), () => undefined);
  const place = { kind: "change", key: "rg:changes" } as const;
  const text = '[{"id":"AMT","name":"Jump! Euro Stable Coin"}}]]';
  expect(text.at(-23)).toBe("!");
  expect(seals.open(place, text)?.text).toBe(text);
  expect(seals.open(place, `${text}!${"aB_-".repeat(5)}Zz`)?.text).toBe(text);
});
