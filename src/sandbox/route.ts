import type { Operation } from "../spec/endpoints.ts";

/** What a path asks of the registry, whatever the version in it. */
export type Subject =
  | "info"
  | "instruments"
  | "instrument"
  | "transfer-factory"
  | "allocation-factory"
  | "settlement-factory"
  | "transfer-context"
  | "allocation-context"
  | "draft"
  | "nothing";

/** A request's path, understood. */
export interface Route {
  operation: Operation;
  subject: Subject;
  /** The instrument or contract id in the path, decoded. */
  id: string;
  /** What the choice context is for: `accept`, `execute-transfer`, … */
  choice: string;
  method: "GET" | "POST" | undefined;
}

type Row = readonly [path: RegExp, subject: Subject, operation: Operation];

/** The eleven endpoints (spec.md §4) and what is live of version 2; group 1 is the id, group 2 the choice. */
const ROWS: readonly Row[] = [
  [/^\/registry\/metadata\/v1\/info$/, "info", "info"],
  [/^\/registry\/metadata\/v1\/instruments$/, "instruments", "instruments"],
  [/^\/registry\/metadata\/v1\/instruments\/([^/]+)$/, "instrument", "instrument"],
  [/^\/registry\/transfer-instruction\/v1\/transfer-factory$/, "transfer-factory", "transfer_factory"],
  [/^\/registry\/transfer-instruction\/v1\/([^/]+)\/choice-contexts\/(accept)$/, "transfer-context", "transfer_accept"],
  [/^\/registry\/transfer-instruction\/v1\/([^/]+)\/choice-contexts\/(reject)$/, "transfer-context", "transfer_reject"],
  [
    /^\/registry\/transfer-instruction\/v1\/([^/]+)\/choice-contexts\/(withdraw)$/,
    "transfer-context",
    "transfer_withdraw",
  ],
  [
    /^\/registry\/allocations\/v1\/([^/]+)\/choice-contexts\/(execute-transfer)$/,
    "allocation-context",
    "allocation_execute",
  ],
  [/^\/registry\/allocations\/v1\/([^/]+)\/choice-contexts\/(withdraw)$/, "allocation-context", "allocation_withdraw"],
  [/^\/registry\/allocations\/v1\/([^/]+)\/choice-contexts\/(cancel)$/, "allocation-context", "allocation_cancel"],
  [/^\/registry\/allocation-instruction\/v1\/allocation-factory$/, "allocation-factory", "allocation_factory"],
  [/^\/registry\/transfer-instruction\/v2\/transfer-factory$/, "transfer-factory", "pass_through"],
  [
    /^\/registry\/transfer-instruction\/v2\/([^/]+)\/choice-contexts\/(accept|reject|withdraw)$/,
    "transfer-context",
    "pass_through",
  ],
  [/^\/registry\/allocation-instruction\/v2\/allocation-factory$/, "allocation-factory", "pass_through"],
  [/^\/registry\/allocation\/v2\/settlement-factory$/, "settlement-factory", "pass_through"],
  [/^\/registry\/allocations\/v2\/([^/]+)\/choice-contexts\/(withdraw|cancel)$/, "allocation-context", "pass_through"],
];

const METADATA: ReadonlySet<Subject> = new Set(["info", "instruments", "instrument"]);

function decodeSegment(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}

/** Reads `path` (without query, relative to the base URL); with `v2` false, nothing but the eleven endpoints exists. */
export function readRoute(path: string, v2: boolean): Route {
  for (const [pattern, subject, operation] of ROWS) {
    const match = pattern.exec(path);
    if (match === null) continue;
    const id = decodeSegment(match[1] ?? "");
    if (id === undefined || (operation === "pass_through" && !v2)) break;
    return { operation, subject, id, choice: match[2] ?? "", method: METADATA.has(subject) ? "GET" : "POST" };
  }
  const isDraft = v2 && path.startsWith("/registry/") && !path.startsWith("/registry/metadata/v1/");
  return { operation: "pass_through", subject: isDraft ? "draft" : "nothing", id: "", choice: "", method: undefined };
}
