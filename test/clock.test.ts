import { expect, test } from "vitest";
import { Abort, type AbortSignalLike } from "../src/clock.ts";

const KINDS: readonly [string, () => { readonly signal: AbortSignalLike; readonly abort: () => void }][] = [
  [
    "the gateway's own",
    () => {
      const own = new Abort();
      return { signal: own, abort: () => own.abort() };
    },
  ],
  [
    "the platform's",
    () => {
      const controller = new AbortController();
      return { signal: controller.signal, abort: () => controller.abort() };
    },
  ],
];

test.each(KINDS)("%s tells each listener once, those that are taken away not at all", (_kind, create) => {
  const { signal, abort } = create();
  const heard: string[] = [];
  const listen = (name: string) => {
    const listener = () => void heard.push(name);
    signal.addEventListener("abort", listener);
    return listener;
  };
  const first = listen("first");
  signal.addEventListener("abort", first);
  signal.removeEventListener("abort", listen("taken away"));
  const removing = (): void => signal.removeEventListener("abort", later);
  signal.addEventListener("abort", removing);
  const later = listen("taken away by another one");
  listen("last");
  expect([signal.aborted, heard]).toEqual([false, []]);
  abort();
  abort();
  listen("too late");
  abort();
  expect([signal.aborted, heard]).toEqual([true, ["first", "last"]]);
});

test.each(KINDS)("%s is aborted when its listeners hear of it", (_kind, create) => {
  const { signal, abort } = create();
  const seen: boolean[] = [];
  signal.addEventListener("abort", () => void seen.push(signal.aborted));
  abort();
  expect(seen).toEqual([true]);
});
