import { expect, test } from "vitest";
import { clientFields, endToEndFields } from "../../src/fields.ts";

const PASSED = ["x-trace", "1", "registry-gateway-cache-control", "max-age=5", "etag", '"1"'];
const DROPPED = ["set-cookie", "a=b", "x-accel-redirect", "/secret", "registry-gateway-other", "1"];

test("fields that no client may get end where they were received", () => {
  expect(endToEndFields([...DROPPED, ...PASSED])).toEqual(PASSED);
});

test("a field that one answer's Connection names ends here in that answer alone", () => {
  expect(endToEndFields(["connection", "X-Trace", ...PASSED])).toEqual(PASSED.slice(2));
  expect(endToEndFields(PASSED)).toEqual(PASSED);
});

test("what an older version stored of fields that never pass reaches no client, whatever is named", () => {
  const stored = [...DROPPED, "via", "1.1 inner", "etag", '"1"', "registry-gateway-cache-control", "max-age=5"];
  for (const further of ["*", ["set-cookie", "via", "registry-gateway-cache-control"]] as const) {
    expect(clientFields(stored, 200, further)).toEqual(["etag", '"1"']);
  }
});

test("Location passes with the status that has made something, and with no other", () => {
  expect(clientFields(["location", "/x"], 201, [])).toEqual(["location", "/x"]);
  expect(clientFields(["location", "/x"], 200, [])).toEqual([]);
});
