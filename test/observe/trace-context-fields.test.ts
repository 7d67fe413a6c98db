import { describe, expect, test } from "vitest";
import { traceFieldsOf } from "../../src/trace-context.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN = "00f067aa0ba902b7";
const GOOD = `00-${TRACE}-${SPAN}-01`;

describe("the trace that a client names goes on (W3C Trace Context)", () => {
  test.each([GOOD, `00-${TRACE}-${SPAN}-ff`, `01-${TRACE}-${SPAN}-00`, `cc-${TRACE}-${SPAN}-01-what.comes=later`])(
    "as %s",
    (traceparent) => {
      expect(traceFieldsOf({ traceparent })).toEqual(["traceparent", traceparent]);
      expect(traceFieldsOf({ traceparent, tracestate: "a=1" })).toEqual([
        "traceparent",
        traceparent,
        "tracestate",
        "a=1",
      ]);
    },
  );

  test.each([
    ["nothing", undefined],
    ["an unknown version", `ff-${TRACE}-${SPAN}-01`],
    ["more than version 0 has", `${GOOD}-more`],
    ["a later version that goes on at once", `01-${TRACE}-${SPAN}-01more`],
    ["a later version that never ends", `01-${TRACE}-${SPAN}-01-${"x".repeat(300)}`],
    ["upper case", `00-${TRACE.toUpperCase()}-${SPAN}-01`],
    ["an empty trace", `00-${"0".repeat(32)}-${SPAN}-01`],
    ["an empty span", `00-${TRACE}-${"0".repeat(16)}-01`],
    ["two of them", `${GOOD}, ${GOOD}`],
    ["something else", "hello"],
    ["a quote", `${GOOD.slice(0, -1)}"`],
  ])("and nothing with %s", (_what, traceparent) => {
    expect(traceFieldsOf({ traceparent, tracestate: "a=1" })).toEqual([]);
  });

  test.each([
    "a=1",
    "a=1,b=2",
    "a=1 , ,b=2,",
    "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
    "t1@vendor/x*_-=~!with spaces in it",
    Array.from({ length: 32 }, (_, i) => `k${i}=v`).join(","),
  ])("with the state %s", (tracestate) => {
    expect(traceFieldsOf({ traceparent: GOOD, tracestate }).slice(2)).toEqual(["tracestate", tracestate]);
  });

  test.each([
    ["empty", " , "],
    ["no pair", "a"],
    ["a value that is empty", "a="],
    ["a key in upper case", "A=1"],
    ["a key twice", "a=1,b=2,a=3"],
    ["a sign of equality in a value", "a=1=2"],
    ["a value that is not ASCII", "a=\u00e9"],
    ["a tab in a value", "a=1\t2"],
    ["33 members", Array.from({ length: 33 }, (_, i) => `k${i}=v`).join(",")],
    ["a key too long", `${"k".repeat(257)}=1`],
    ["more than 512 characters", `a=${"x".repeat(250)},b=${"x".repeat(250)},c=${"x".repeat(20)}`],
  ])("without a state that is %s", (_what, tracestate) => {
    expect(traceFieldsOf({ traceparent: GOOD, tracestate })).toEqual(["traceparent", GOOD]);
  });
});
