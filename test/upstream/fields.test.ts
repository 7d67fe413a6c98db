import { expect, test } from "vitest";
import { endToEndFields } from "../../src/fields.ts";

const PASSED = ["x-trace", "1", "registry-gateway-cache-control", "max-age=5", "etag", '"1"'];
const DROPPED = ["set-cookie", "a=b", "x-accel-redirect", "/secret", "registry-gateway-other", "1", "cf-ray", "1"];

test("which fields end here does not depend on the names that registries made up before", () => {
  const mixed = [...DROPPED, ...PASSED];
  expect(endToEndFields(mixed)).toEqual(PASSED);
  for (let i = 0; i < 2_500; i += 1) {
    const invented = [`x-invented-${i}`, "1", `x-${"long".repeat(100)}-${i}`, "1"];
    expect(endToEndFields([...invented, `x-accel-${i}`, "1"])).toEqual(invented);
  }
  expect(endToEndFields(mixed)).toEqual(PASSED);
});

test("a field that one answer's Connection names ends here in that answer alone", () => {
  expect(endToEndFields(["connection", "X-Trace", ...PASSED])).toEqual(PASSED.slice(2));
  expect(endToEndFields(PASSED)).toEqual(PASSED);
});
