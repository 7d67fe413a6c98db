import { expect, test } from "vitest";
import { configLines } from "../../console/config-lines.ts";

test("the configuration has a line for each key, and says which are as if the file did not give them", () => {
  const config = {
    listen: { host: "0.0.0.0", port: 8080 },
    routing: { prefix: "/x" },
    upstreams: [
      { name: "a", urls: ["https://a.example"], cache: { ttl: { info: "10m" } } },
      { name: "b", urls: ["https://b.example"] },
    ],
    origins: [],
  };
  const lines = configLines(config, ["listen.host", "upstreams[a].cache"]);
  expect(
    lines.map(({ depth, isItem, key, value }) => `${" ".repeat(depth)}${isItem ? "-" : ""}${key}=${value}`),
  ).toEqual([
    "listen=undefined",
    " host=0.0.0.0",
    " port=8080",
    "routing=undefined",
    " prefix=/x",
    "upstreams=undefined",
    " -name=a",
    ' urls=["https://a.example"]',
    " cache=undefined",
    "  ttl=undefined",
    "   info=10m",
    " -name=b",
    ' urls=["https://b.example"]',
    "origins=[]",
  ]);
  expect(lines.filter(({ isDefault }) => isDefault).map(({ path }) => path)).toEqual([
    "listen.host",
    "upstreams[a].cache",
    "upstreams[a].cache.ttl",
    "upstreams[a].cache.ttl.info",
  ]);
});

test("text that would read as something else is quoted", () => {
  const [line] = configLines({ reason: "a: b # c" }, []);
  expect(line!.value).toBe('"a: b # c"');
});

test.each([null, undefined, 3, "text", []])("%j has no lines", (config) => {
  expect(configLines(config, [])).toEqual([]);
});
