import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { type ListedPage, readListedPage } from "../../src/metadata/listed-page.ts";

const MIB = 1024 * 1024;

test("a page that is mostly something else keeps only its instruments in memory", () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const pages: (ListedPage | string)[] = [];
  collect();
  const used = () => process.memoryUsage().heapUsed + process.memoryUsage().external;
  const before = used();
  for (let at = 0; at < 30; at++) {
    const instruments = [{ id: `A-${at}`, name: "an instrument with a name" }];
    pages.push(readListedPage(Buffer.from(JSON.stringify({ padding: "x".repeat(4 * MIB), instruments }))));
  }
  collect();
  expect(used() - before).toBeLessThan(80 * MIB);
  expect(pages.map((page) => (page as ListedPage).texts[0])).toEqual(
    pages.map((_page, at) => `{"id":"A-${at}","name":"an instrument with a name"}`),
  );
});
