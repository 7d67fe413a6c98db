import { expect, test } from "vitest";
import { createDiscoveryObserver } from "../../src/observe/discovery-observer.ts";
import { createLogger } from "../../src/observe/log.ts";
import { createMetrics } from "../../src/observe/metrics.ts";
import { ManualClock } from "../support/manual-clock.ts";

const HOUR = 3_600_000;
const REGISTRY = { name: "amulet", admin: "amulet::1220", source: "lists.example", nodes: 1 };

/** An observer, and what it logged since it was last asked. */
function createScene() {
  const clock = new ManualClock();
  const lines: string[] = [];
  const log = createLogger("info", {
    destination: { write: (line: string) => void lines.push((JSON.parse(line) as { msg: string }).msg) },
  });
  const observer = createDiscoveryObserver(createMetrics().metrics, log, clock);
  return { clock, observer, logged: () => lines.splice(0) };
}

test("what goes on is logged once an hour, and anew by another search", () => {
  const { clock, observer, logged } = createScene();
  const look = () => {
    observer.sourceShrank("lists.example", 2, 1);
    observer.pinned(REGISTRY, "digest");
    observer.mended(REGISTRY, { from: "https://a.example/registry", to: "https://a.example" });
    observer.waiting(REGISTRY);
    observer.stranger(REGISTRY, "bonds::1220");
    observer.unproved(REGISTRY, "it does not answer");
    observer.unasked(3);
    observer.tooMany(10, 11);
    return logged();
  };
  const all = look();
  expect(new Set(all).size).toBe(8);
  clock.advance(HOUR - 1);
  expect(look()).toEqual([]);
  clock.advance(1);
  expect(look()).toEqual(all);
  observer.ended();
  expect(look()).toEqual(all);
  observer.pinned(REGISTRY, "digest of other URLs");
  observer.waiting({ ...REGISTRY, admin: "bonds::1220" });
  expect(logged()).toEqual(["registry pinned", "registry waits for approval"]);
});

test("the fault of a source is logged as it begins and as it is over, and its next one no sooner than after an hour", () => {
  const { clock, observer, logged } = createScene();
  const read = (fault?: string) => {
    observer.sourceRead("lists.example", fault);
    return logged();
  };
  expect(read()).toEqual([]);
  expect(read("refused")).toEqual(["discovery source fails"]);
  clock.advance(2 * HOUR);
  expect(read("refused")).toEqual([]);
  expect(read()).toEqual(["discovery source can be read again"]);
  expect(read("refused")).toEqual(["discovery source fails"]);
  expect(read()).toEqual(["discovery source can be read again"]);
  expect(read("refused")).toEqual([]);
  expect(read()).toEqual([]);
  observer.ended();
  expect(read("refused")).toEqual(["discovery source fails"]);
});
