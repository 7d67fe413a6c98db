import { expect, test } from "vitest";
import { stringify } from "yaml";
import { parseConfig } from "../../src/config/parse.ts";
import { upstreamsOf } from "../../src/upstream/found.ts";

test.each([
  [false, [["https://a.example"]]],
  [true, [["https://a.example", "http://a.example"], ["http://b.example"]]],
])("with allowPrivate: %s of what was pinned these URLs are used", (allowPrivate, used) => {
  const text = stringify({ discovery: { sources: [{ url: "https://lists.example/assets.json" }], allowPrivate } });
  const { config } = parseConfig({ text, file: "test.yaml", env: {} });
  const registries = [
    { name: "a", admin: "a::1220aa", urls: ["https://a.example", "http://a.example"] },
    { name: "b", admin: "b::1220bb", urls: ["http://b.example"] },
  ];
  expect(upstreamsOf(config!, { registries, isComplete: true }).map(({ urls }) => urls)).toEqual(used);
});
