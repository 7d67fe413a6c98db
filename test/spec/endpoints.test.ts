import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ENDPOINTS, endpointOf, endpointPath, isId, matchEndpoint } from "../../src/spec/endpoints.ts";
import { OPERATIONS } from "../../src/spec/operations.ts";
import { CODE_POINT } from "../support/code-point.ts";

/** The published tables, written out once more: a slip in the one that runs must not confirm itself. */
const TABLE = [
  ["info", "/registry/metadata/v1/info"],
  ["instruments", "/registry/metadata/v1/instruments"],
  ["instrument", "/registry/metadata/v1/instruments/ID"],
  ["transfer_factory", "/registry/transfer-instruction/v1/transfer-factory"],
  ["transfer_accept", "/registry/transfer-instruction/v1/ID/choice-contexts/accept"],
  ["transfer_reject", "/registry/transfer-instruction/v1/ID/choice-contexts/reject"],
  ["transfer_withdraw", "/registry/transfer-instruction/v1/ID/choice-contexts/withdraw"],
  ["allocation_execute", "/registry/allocations/v1/ID/choice-contexts/execute-transfer"],
  ["allocation_withdraw", "/registry/allocations/v1/ID/choice-contexts/withdraw"],
  ["allocation_cancel", "/registry/allocations/v1/ID/choice-contexts/cancel"],
  ["allocation_factory", "/registry/allocation-instruction/v1/allocation-factory"],
  ["transfer_factory_v2", "/registry/transfer-instruction/v2/transfer-factory"],
  ["transfer_accept_v2", "/registry/transfer-instruction/v2/ID/choice-contexts/accept"],
  ["transfer_reject_v2", "/registry/transfer-instruction/v2/ID/choice-contexts/reject"],
  ["transfer_withdraw_v2", "/registry/transfer-instruction/v2/ID/choice-contexts/withdraw"],
  ["allocation_factory_v2", "/registry/allocation-instruction/v2/allocation-factory"],
  ["allocation_instruction_accept_v2", "/registry/allocation-instruction/v2/ID/choice-contexts/accept"],
  ["allocation_instruction_withdraw_v2", "/registry/allocation-instruction/v2/ID/choice-contexts/withdraw"],
  ["settlement_factory_v2", "/registry/allocation/v2/settlement-factory"],
  ["allocation_withdraw_v2", "/registry/allocations/v2/ID/choice-contexts/withdraw"],
  ["allocation_cancel_v2", "/registry/allocations/v2/ID/choice-contexts/cancel"],
] as const;

const segmentsOf = (path: string): string[] => path.split("/").slice(2);

describe("the endpoints of both versions", () => {
  test.each(TABLE)("%s is %s", (operation, path) => {
    const found = matchEndpoint(segmentsOf(path));
    const id = path.includes("ID") ? "ID" : undefined;
    expect(found).toEqual({ match: "endpoint", endpoint: endpointOf(operation), id });
    expect(endpointPath(endpointOf(operation), id)).toBe(path);
  });

  test("are all there are, besides what passes through", () => {
    expect(ENDPOINTS.map((each) => each.operation)).toEqual(TABLE.map(([operation]) => operation));
    expect(OPERATIONS).toEqual([...TABLE.map(([operation]) => operation), "pass_through"]);
  });

  test("take any id, and give it back as one segment", () => {
    const withId = ENDPOINTS.filter((each) => each.segments.some(isId));
    fc.assert(
      fc.property(fc.constantFrom(...withId), fc.string({ unit: CODE_POINT, minLength: 1 }), (endpoint, id) => {
        const segments = segmentsOf(endpointPath(endpoint, id));
        expect(segments).toHaveLength(endpoint.segments.length);
        const decoded = segments.map(decodeURIComponent);
        expect(matchEndpoint(decoded)).toEqual({ match: "endpoint", endpoint, id });
      }),
    );
  });
});

describe("a path that is one of them but for slashes in its id", () => {
  test.each([
    ["/registry/metadata/v1/instruments/Amulet/USD", "instrument"],
    ["/registry/metadata/v1/instruments/a/b/c/d", "instrument"],
    ["/registry/transfer-instruction/v1/00/11/choice-contexts/accept", "transfer_accept"],
    ["/registry/transfer-instruction/v1/a/b/c/choice-contexts/withdraw", "transfer_withdraw"],
    ["/registry/allocations/v1/00/11/choice-contexts/cancel", "allocation_cancel"],
  ] as const)("%s", (path, operation) => {
    expect(matchEndpoint(segmentsOf(path))).toEqual({ match: "malformed-id", endpoint: endpointOf(operation) });
  });
});

describe("any other path", () => {
  test.each([
    "/registry",
    "/registry/metadata",
    "/registry/metadata/v1",
    "/registry/metadata/v2/info",
    "/registry/metadata/v1/infos",
    "/registry/Metadata/v1/info",
    "/registry/transfer-instruction/v3/transfer-factory",
    "/registry/transfer-instruction/v1/ID/choice-contexts/cancel",
    "/registry/transfer-instruction/v3/ID/choice-contexts/accept",
    "/registry/allocations/v1/ID/choice-contexts/accept",
    "/registry/allocations/v2/ID/choice-contexts/execute-transfer",
    "/registry/allocation-instruction/v1/ID/choice-contexts/accept",
    "/registry/allocations/v2/settlement-factory",
    "/registry/metadata%2Fv1%2Finfo",
  ])("%s is left to pass through", (path) => {
    expect(matchEndpoint(segmentsOf(path).map(decodeURIComponent))).toEqual({ match: "other" });
  });
});
