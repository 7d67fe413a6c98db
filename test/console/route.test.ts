import { expect, test } from "vitest";
import { formatRoute, parseRoute } from "../../console/route.ts";

test.each(["", "#", "#/", "#/nowhere", "#/__proto__/x", "#/../status"])("%j is the overview", (hash) => {
  expect(parseRoute(hash).page).toBe("overview");
});

test.each(["amulet", "a/b", "100%", "ä ?#&", "<script>", "%E0%A4%A"])(
  "a registry of the name %j has an address",
  (name) => {
    expect(parseRoute(formatRoute({ page: "registries", name }))).toEqual({ page: "registries", name, query: {} });
  },
);

test("what is filtered by is in the address", () => {
  const hash = formatRoute({ page: "requests", query: { upstream: "a&b=c", code: "x#y" } });
  expect(parseRoute(hash)).toEqual({ page: "requests", query: { upstream: "a&b=c", code: "x#y" } });
});

test("an address that is no percent-encoding is taken as it stands", () => {
  expect(parseRoute("#/registries/100%")).toEqual({ page: "registries", name: "100%", query: {} });
});
