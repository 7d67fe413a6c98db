import { expect, test } from "vitest";
import { readSupportedApis } from "../../src/aggregate/merged-info.ts";

// A structure that is deep enough can be read as JSON and not be written again.
test("what an info says of its APIs is a version for each, and no structure", () => {
  const deep = `${"[".repeat(20_000)}${"]".repeat(20_000)}`;
  const info = `{"adminId":"a::1220","supportedApis":{"transfer":1,"draft":"2","x":{"y":${deep}},"z":null}}`;
  expect(readSupportedApis(Buffer.from(info))).toEqual({ transfer: 1, draft: "2" });
});
