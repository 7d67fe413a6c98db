import { expect, test } from "vitest";
import { clientUse } from "../../console/client-use.ts";

const sighting = (at: number, requests: number) => ({ at, requests: new Map([["key wallet", requests]]) });

test("what a client used between two answers is text against its tier", () => {
  const use = clientUse("key wallet", { requests: 120, per: 60_000 }, sighting(0, 100), sighting(5_000, 105));
  expect(use).toEqual({ share: 0.5, text: "60 of 120 / min" });
});

test("the first answer has nothing to compare with, and no limit is no share", () => {
  expect(clientUse("key wallet", { requests: 120, per: 1_000 }, undefined, sighting(0, 5))).toEqual({
    share: undefined,
    text: "up to 120 / 1 s",
  });
  expect(clientUse("key wallet", {}, sighting(0, 0), sighting(60_000, 30)).text).toBe("30 / min, no limit");
});

test("a gateway that began anew has counted less: that is no negative use", () => {
  expect(clientUse("key wallet", { requests: 10 }, sighting(0, 500), sighting(5_000, 0)).share).toBe(0);
});
