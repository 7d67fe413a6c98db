import { describe, expect, test } from "vitest";
import { readTraceContext, traceFields } from "../../src/observe/tracing/request-span.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN = "00f067aa0ba902b7";

describe("trace context (W3C)", () => {
  test("is read and written again", () => {
    const headers = { traceparent: `00-${TRACE}-${SPAN}-01`, tracestate: "a=1,b=2" };
    expect(traceFields(readTraceContext(headers)!)).toEqual([
      "traceparent",
      headers.traceparent,
      "tracestate",
      headers.tracestate,
    ]);
  });

  test("of a later version is read as far as version 0 goes", () => {
    expect(readTraceContext({ traceparent: `01-${TRACE}-${SPAN}-01-more` })).toMatchObject({ traceId: TRACE });
  });

  test.each([
    ["nothing", undefined],
    ["an unknown version", `ff-${TRACE}-${SPAN}-01`],
    ["more than version 0 has", `00-${TRACE}-${SPAN}-01-more`],
    ["upper case", `00-${TRACE.toUpperCase()}-${SPAN}-01`],
    ["an empty trace", `00-${"0".repeat(32)}-${SPAN}-01`],
    ["an empty span", `00-${TRACE}-${"0".repeat(16)}-01`],
    ["something else", "hello"],
  ])("is not taken from %s", (_name, traceparent) => {
    expect(readTraceContext({ traceparent })).toBeUndefined();
  });
});
